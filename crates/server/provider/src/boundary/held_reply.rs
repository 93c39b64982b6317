//! A reply that the server holds back from its client.
//!
//! The server sends a client nothing while an operation of its connection is pending. Its storage
//! engines have clients wait for the disk this way, holding no lock, and in a pool of threads no
//! thread either. It exports the functions for it.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::OnceLock;

use super::server_function::find;
use super::statement_error::current_connection;

/// `thd_increment_pending_ops(connection)`, and `thd_decrement_pending_ops(connection)`
type CountOperation = unsafe extern "C" fn(*mut c_void);

struct Functions {
    begin: CountOperation,
    end: CountOperation,
}

fn functions() -> Option<&'static Functions> {
    static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
    let found = FUNCTIONS.get_or_init(|| {
        // SAFETY: the server's functions of these names have these types in all versions that have
        // them.
        unsafe {
            Some(Functions {
                begin: find(c"thd_increment_pending_ops")?,
                end: find(c"thd_decrement_pending_ops")?,
            })
        }
    });
    found.as_ref()
}

/// The reply to the statement of a connection. The server sends it when this is dropped.
#[derive(Debug)]
pub(crate) struct HeldReply {
    connection: NonNull<c_void>,
    end: CountOperation,
}

// SAFETY: the server's function may be called on any thread: its engines do so on those that write
// to the disk.
unsafe impl Send for HeldReply {}

impl HeldReply {
    /// Holds back the reply of the calling thread's statement. None if this is no thread of a
    /// connection, or the server cannot.
    pub(crate) fn hold() -> Option<HeldReply> {
        let functions = functions()?;
        let connection = current_connection()?;
        // SAFETY: the connection is that of this thread, so it lives.
        unsafe { (functions.begin)(connection.as_ptr()) };
        Some(HeldReply {
            connection,
            end: functions.end,
        })
    }
}

impl Drop for HeldReply {
    fn drop(&mut self) {
        // SAFETY: the server keeps a connection until nothing of it is pending.
        unsafe { (self.end)(self.connection.as_ptr()) };
    }
}
