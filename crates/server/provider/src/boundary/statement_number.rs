//! The number that the server gives to its next statement.
//!
//! The server counts all statements of all connections (`global_query_id`), and calls a transaction
//! by the number of its first statement: `START TRANSACTION`, or what it reads or changes first. So
//! this number tells transactions that have begun from those that will. The program exports the
//! counter beside the functions for its plugins.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::server_function::find_variable;

/// The number of the next statement; `None` if the server does not export its counter.
pub(crate) fn next_statement() -> Option<u64> {
    static COUNTER: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();
    // SAFETY: the server's counter of this name is an atomic number of 64 bits in all versions with
    // the interface, and lives as long as the process.
    let counter = *COUNTER.get_or_init(|| unsafe { find_variable(c"global_query_id") });
    Some(counter?.load(Ordering::SeqCst))
}
