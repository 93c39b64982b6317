//! Whether the calling thread's client has locked tables (`LOCK TABLES`).
//!
//! The server exports the function by which its storage engines look at a connection's state
//! (`thd_test_options`).

use std::ffi::{c_longlong, c_void};
use std::sync::OnceLock;

use super::server_function::find;
use super::statement_error::current_connection;

/// `OPTION_TABLE_LOCK` of the server.
const TABLE_LOCK: c_longlong = 1 << 21;

/// `thd_test_options(connection, bits)`
type TestOptions = unsafe extern "C" fn(*const c_void, c_longlong) -> c_longlong;

/// Whether it has. False if this is no thread of a connection, or the server cannot say.
pub(crate) fn has_locked_tables() -> bool {
    static FUNCTION: OnceLock<Option<TestOptions>> = OnceLock::new();
    // SAFETY: the server's function of this name has this type in all versions with the interface.
    let test = *FUNCTION.get_or_init(|| unsafe { find(c"thd_test_options") });
    let (Some(test), Some(connection)) = (test, current_connection()) else {
        return false;
    };
    // SAFETY: the connection is that of this thread, so it lives.
    unsafe { test(connection.as_ptr(), TABLE_LOCK) != 0 }
}
