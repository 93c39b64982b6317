//! The error that the statement of the calling thread has ended with, a client's or an applier's.
//!
//! The wsrep interface passes a text that lists warnings, too, and nothing for an error that
//! `wsrep_ignore_apply_errors` keeps; of a statement in total order, it has numbers only. The
//! server exports the functions by which its plugins look at a connection's error, though
//! (`thd_get_error_number` and `thd_get_error_message`, of the service `thd_error_context`), and at
//! the connection itself.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;

use super::server_function::find;

/// `_current_thd()`
type CurrentConnection = unsafe extern "C" fn() -> *mut c_void;
/// `thd_get_error_number(connection)`
type ErrorNumber = unsafe extern "C" fn(*const c_void) -> c_uint;
/// `thd_get_error_message(connection)`
type ErrorMessage = unsafe extern "C" fn(*const c_void) -> *const c_char;

fn error_number() -> Option<ErrorNumber> {
    static FUNCTION: OnceLock<Option<ErrorNumber>> = OnceLock::new();
    // SAFETY: the server's function of this name has this type in all versions with the interface.
    *FUNCTION.get_or_init(|| unsafe { find(c"thd_get_error_number") })
}

/// The server's connection that the calling thread works for; none if there is none, or the server
/// cannot say.
pub(super) fn current_connection() -> Option<NonNull<c_void>> {
    static FUNCTION: OnceLock<Option<CurrentConnection>> = OnceLock::new();
    // SAFETY: as above.
    let current = (*FUNCTION.get_or_init(|| unsafe { find(c"_current_thd") }))?;
    // SAFETY: the server's function, as its plugins call it on any thread.
    NonNull::new(unsafe { current() })
}

/// Whether this server can say how statements end.
pub(crate) fn can_tell_statement_errors() -> bool {
    error_number().is_some()
}

/// The number of the error of the statement that the calling thread executes; zero: it has none.
/// None if this is no thread of a connection, or the server cannot say.
pub(crate) fn statement_error() -> Option<u32> {
    let number = error_number()?;
    let connection = current_connection()?;
    // SAFETY: the connection is that of this thread, so it lives, and no other thread changes its
    // error.
    Some(unsafe { number(connection.as_ptr()) })
}

/// The error of the statement that the calling thread executes, with the server's words; no
/// warnings. None if it has none, or the server cannot say.
pub(crate) fn statement_error_text() -> Option<String> {
    static FUNCTION: OnceLock<Option<ErrorMessage>> = OnceLock::new();
    let number = statement_error().filter(|number| *number != 0)?;
    // SAFETY: the server's function of this name has this type in all versions with the interface.
    let message = (*FUNCTION.get_or_init(|| unsafe { find(c"thd_get_error_message") }))?;
    let connection = current_connection()?;
    // SAFETY: the connection is that of this thread, and has an error: its message is a text with a
    // NUL at the end, which no other thread changes.
    let text = unsafe {
        let message = NonNull::new(message(connection.as_ptr()).cast_mut())?;
        CStr::from_ptr(message.as_ptr()).to_string_lossy()
    };
    Some(format!("{text}, Error_code: {number}"))
}
