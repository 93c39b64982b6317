//! Functions that the server's program exports for its plugins.

use std::ffi::{CStr, c_void};

/// The function with this name; none if the program does not export it.
///
/// # Safety
/// `F` is the type of the server's function with this name: a function pointer.
pub(super) unsafe fn find<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the name is NUL-terminated.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() {
        return None;
    }
    // SAFETY: a function pointer is as large as a data pointer on the platforms of this library;
    // the caller vouches for its type.
    Some(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found) })
}
