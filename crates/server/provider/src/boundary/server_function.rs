//! Functions and variables that the server's program exports for its plugins.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

/// The function with this name; none if the program does not export it.
///
/// # Safety
/// `F` is the type of the server's function with this name: a function pointer.
pub(super) unsafe fn find<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    let found = address(name)?;
    // SAFETY: a function pointer is as large as a data pointer on the platforms of this library;
    // the caller vouches for its type.
    Some(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found.as_ptr()) })
}

/// The variable with this name; none if the program does not export it.
///
/// # Safety
/// `T` is the type of the server's variable with this name, which is never freed, and which other
/// threads change only as `T` allows.
pub(super) unsafe fn find_variable<T>(name: &CStr) -> Option<&'static T> {
    let found = address(name)?;
    // SAFETY: the caller vouches for type and life.
    Some(unsafe { found.cast::<T>().as_ref() })
}

fn address(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: the name is NUL-terminated.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
}
