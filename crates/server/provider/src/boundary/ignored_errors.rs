//! Errors of statements that the server keeps to itself (`wsrep_ignore_apply_errors`).
//!
//! By default it tells the library of no statement in total order that has failed, at the origin or
//! where it is applied, and an applier's error is gone when the library is called next. So one that
//! ends differently on one server would go unnoticed. The server exports the variable: the library
//! takes the errors of statements out of it, and the server passes them on from then on.

use std::sync::atomic::{AtomicU32, Ordering};

use super::server_function::find_variable;

/// The bit of the variable that keeps all errors of statements. Two more stay as they are: errors
/// of `DROP` of what is not there, and of rows to delete that are not there.
const STATEMENTS: u32 = 4;

/// The variable after the library has set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatementErrors {
    /// The server passed them on already.
    Heard,
    /// The server passes them on from now on.
    HeardNow { was: u32, is: u32 },
    /// This server has no such variable.
    Unheard,
}

/// Has the server tell the library of statements that fail.
pub(crate) fn hear_statement_errors() -> StatementErrors {
    // SAFETY: the server's variable of this name is an `unsigned int` in all versions with the
    // interface, lives as long as the process, and is read and set by its threads as it stands.
    let found = unsafe { find_variable::<AtomicU32>(c"wsrep_ignore_apply_errors") };
    let Some(variable) = found else {
        return StatementErrors::Unheard;
    };
    let was = variable.fetch_and(!STATEMENTS, Ordering::Relaxed);
    match was & STATEMENTS {
        0 => StatementErrors::Heard,
        _ => StatementErrors::HeardNow {
            was,
            is: was & !STATEMENTS,
        },
    }
}
