//! Errors and warnings of the library's own for the client whose statement calls it.
//!
//! The wsrep interface has no way to say why a write is refused: the server makes an error of its
//! own out of a status. It exports the function by which its plugins report errors, though
//! (`my_printf_error`, of the service `my_print_error`). The first error of a statement is the one
//! that its client gets.

use std::ffi::{CString, c_char, c_uint, c_ulong};
use std::sync::OnceLock;

use super::server_function::find;

/// `ER_OPTION_PREVENTS_STATEMENT`: what clients get from a server that is read-only. Connectors
/// know it as such.
const OPTION_PREVENTS_STATEMENT: c_uint = 1290;

/// `ER_UNKNOWN_ERROR`: the number of warnings that are text only.
const UNKNOWN_ERROR: c_uint = 1105;
/// `ME_WARNING`: a warning of the statement, in place of its error.
const WARNING: c_ulong = 2048;

/// `my_printf_error(error, format, flags, ...)`
type PrintError = unsafe extern "C" fn(c_uint, *const c_char, c_ulong, ...);

/// Reports an error to the client whose thread this is. Whether the server can: it exports the
/// function.
pub(crate) fn refuse_statement(text: &str) -> bool {
    report(OPTION_PREVENTS_STATEMENT, text, 0)
}

/// Adds a warning to those of the statement (`SHOW WARNINGS`). Whether the server can.
pub(crate) fn warn_of_statement(text: &str) -> bool {
    report(UNKNOWN_ERROR, text, WARNING)
}

fn report(number: c_uint, text: &str, flags: c_ulong) -> bool {
    static PRINT_ERROR: OnceLock<Option<PrintError>> = OnceLock::new();
    // SAFETY: the server's function of this name has this type in all versions with the interface.
    let Some(print) = *PRINT_ERROR.get_or_init(|| unsafe { find(c"my_printf_error") }) else {
        return false;
    };
    let Ok(text) = CString::new(text) else {
        return false;
    };
    // SAFETY: the server's function, as its plugins call it; format and text are NUL-terminated,
    // and the format takes the one text.
    unsafe { print(number, c"%s".as_ptr(), flags, text.as_ptr()) };
    true
}
