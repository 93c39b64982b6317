//! The error that the statement of the calling client has ended with.
//!
//! The wsrep interface passes errors of statements only where `wsrep_ignore_apply_errors` lets it.
//! The server exports the functions by which its plugins look at a connection's error, though
//! (`thd_get_error_number`, of the service `thd_error_context`), and at the connection itself.

use std::ffi::{c_uint, c_void};
use std::sync::OnceLock;

use super::server_function::find;

/// `_current_thd()`
type CurrentConnection = unsafe extern "C" fn() -> *mut c_void;
/// `thd_get_error_number(connection)`
type ErrorNumber = unsafe extern "C" fn(*const c_void) -> c_uint;

fn functions() -> Option<(CurrentConnection, ErrorNumber)> {
    static FUNCTIONS: OnceLock<Option<(CurrentConnection, ErrorNumber)>> = OnceLock::new();
    *FUNCTIONS.get_or_init(|| {
        // SAFETY: the server's functions of these names have these types in all versions with the
        // interface.
        unsafe { Some((find(c"_current_thd")?, find(c"thd_get_error_number")?)) }
    })
}

/// Whether this server can say how statements end.
pub(crate) fn can_tell_statement_errors() -> bool {
    functions().is_some()
}

/// The number of the error of the statement that the calling thread executes; zero: it has none.
/// None if this is no client's thread, or the server cannot say.
pub(crate) fn statement_error() -> Option<u32> {
    let (current, number) = functions()?;
    // SAFETY: the server's function, as its plugins call it on any thread.
    let connection = unsafe { current() };
    if connection.is_null() {
        return None;
    }
    // SAFETY: the connection is that of this thread, so it lives, and no other
    // thread changes its error.
    Some(unsafe { number(connection) })
}
