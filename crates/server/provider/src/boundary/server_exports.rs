//! Functions and variables that the server's program exports for its plugins, found by name.
//!
//! The wsrep interface says too little of some things, and nothing of others. All types here are
//! those of the server in all versions with the interface. What a server does not export, it cannot
//! do: each function here has an answer for that.

use std::ffi::{CStr, CString, c_char, c_longlong, c_uint, c_ulong, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The function with this name; none if the program does not export it.
///
/// # Safety
/// `F` is the type of the server's function with this name: a function pointer.
unsafe fn find<F: Copy>(name: &CStr) -> Option<F> {
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
unsafe fn find_variable<T>(name: &CStr) -> Option<&'static T> {
    let found = address(name)?;
    // SAFETY: the caller vouches for type and life.
    Some(unsafe { found.cast::<T>().as_ref() })
}

fn address(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: the name is NUL-terminated.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
}

// The error of a statement. The interface passes a text that lists warnings, too, and nothing for
// an error that `wsrep_ignore_apply_errors` keeps; of a statement in total order, it has numbers
// only.

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
fn current_connection() -> Option<NonNull<c_void>> {
    static FUNCTION: OnceLock<Option<CurrentConnection>> = OnceLock::new();
    // SAFETY: as above.
    let current = (*FUNCTION.get_or_init(|| unsafe { find(c"_current_thd") }))?;
    // SAFETY: the server's function, as its plugins call it on any thread.
    NonNull::new(unsafe { current() })
}

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

// Errors and warnings of the library's own. The interface has no way to say why a write is refused:
// the server makes an error of its own out of a status. The first error of a statement is the one
// that its client gets.

/// `ER_OPTION_PREVENTS_STATEMENT`: what clients get from a server that is read-only. Connectors
/// know it as such.
const OPTION_PREVENTS_STATEMENT: c_uint = 1290;

/// `ER_UNKNOWN_ERROR`: the number of warnings that are text only.
const UNKNOWN_ERROR: c_uint = 1105;
/// `ME_WARNING`: a warning of the statement, in place of its error.
const WARNING: c_ulong = 2048;

/// `my_printf_error(error, format, flags, ...)`
type PrintError = unsafe extern "C" fn(c_uint, *const c_char, c_ulong, ...);

/// Whether the server can: it exports the function.
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

/// The server counts all statements of all connections, and calls a transaction by the number of
/// its first statement: `START TRANSACTION`, or what it reads or changes first. So this number
/// tells transactions that have begun from those that will. None if the server does not export it.
pub(crate) fn next_statement() -> Option<u64> {
    static COUNTER: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();
    // SAFETY: the server's counter of this name is an atomic number of 64 bits in all versions with
    // the interface, and lives as long as the process.
    let counter = *COUNTER.get_or_init(|| unsafe { find_variable(c"global_query_id") });
    Some(counter?.load(Ordering::SeqCst))
}

/// `OPTION_TABLE_LOCK` of the server.
const TABLE_LOCK: c_longlong = 1 << 21;

/// `thd_test_options(connection, bits)`
type TestOptions = unsafe extern "C" fn(*const c_void, c_longlong) -> c_longlong;

/// Whether the calling thread's client has locked tables (`LOCK TABLES`). False if this is no
/// thread of a connection, or the server cannot say.
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

// Replies held back. The server sends a client nothing while an operation of its connection is
// pending. Its storage engines have clients wait for the disk this way, holding no lock, and in a
// pool of threads no thread either.

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

// Errors that the server keeps to itself (`wsrep_ignore_apply_errors`). By default it tells the
// library of no statement in total order that has failed, at the origin or where it is applied, and
// an applier's error is gone when the library is called next. So one that ends differently on one
// server would go unnoticed. The library takes the errors of statements out of the variable, and
// the server passes them on from then on.

/// The bit of the variable that keeps all errors of statements. Two more stay as they are: errors
/// of `DROP` of what is not there, and of rows to delete that are not there.
const STATEMENTS: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatementErrors {
    /// The server passed them on already.
    Heard,
    /// The server passes them on from now on.
    HeardNow { was: u32, is: u32 },
    /// This server has no such variable.
    Unheard,
}

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
