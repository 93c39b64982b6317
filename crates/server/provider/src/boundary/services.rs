//! The services that servers register when they have loaded the library, before `init`.
//!
//! | service | who registers it | what becomes of it |
//! |---|---|---|
//! | allowlist | MariaDB 10.11, 11.8 | asked about each peer |
//! | config | MariaDB 11.8 | filled in |
//! | event | MariaDB 11.8 | accepted, not used |
//! | thread, TLS, connection monitor | Percona XtraDB Cluster | accepted, not used |
//! | membership | servers to come | filled in with a function that has no answer |
//!
//! A server that finds a function missing, or gets an error from it, ends its start. So what is not
//! needed is accepted. All functions may be called at any time, in any order and repeatedly.

use std::ffi::{CString, c_int, c_void};
use std::sync::{PoisonError, RwLock};

use wsrep_sys as sys;

use super::convert;
use super::host::call_always;
use crate::options::{Parameter, ParameterValue};

/// The answer to a server that passes no service: a fault of the server's. `init` has not been
/// called yet, so there is no logger: the server's error log is the standard error stream.
fn refuse_null(service: &str) -> c_int {
    eprintln!(
        "WSREP: Synod: the server registers its {service} service with a NULL pointer: refused. This \
         server and this library do not fit; see docs/compatibility.md for the servers that do"
    );
    libc::EINVAL
}

/// Registers the server's allowlist.
///
/// # Safety
/// `service` is NULL or points to a service struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wsrep_init_allowlist_service_v1(
    service: *mut sys::wsrep_allowlist_service_v1_t,
) -> c_int {
    // SAFETY: NULL or valid by contract of this function; copied.
    let Some(service) = (unsafe { service.as_ref() }) else {
        return refuse_null("allowlist");
    };
    register_allowlist(Some(*service));
    sys::WSREP_OK
}

#[unsafe(no_mangle)]
pub extern "C" fn wsrep_deinit_allowlist_service_v1() {
    register_allowlist(None);
}

/// Fills in the config service, without which MariaDB 11.8 does not start.
///
/// # Safety
/// `service` is NULL or points to a service struct that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wsrep_init_config_service_v1(
    service: *mut sys::wsrep_config_service_v1_t,
) -> c_int {
    // SAFETY: NULL or valid by contract of this function.
    let Some(service) = (unsafe { service.as_mut() }) else {
        return refuse_null("config");
    };
    service.get_parameters = Some(get_parameters);
    sys::WSREP_OK
}

#[unsafe(no_mangle)]
pub extern "C" fn wsrep_deinit_config_service_v1() {}

/// Fills in the membership service with a function that can be called, and has no answer.
///
/// # Safety
/// `service` is NULL or points to a service struct that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wsrep_init_membership_service_v1(
    service: *mut sys::wsrep_membership_service_v1_t,
) -> c_int {
    // SAFETY: NULL or valid by contract of this function.
    let Some(service) = (unsafe { service.as_mut() }) else {
        return refuse_null("membership");
    };
    service.get_membership = Some(membership_is_not_told);
    sys::WSREP_OK
}

#[unsafe(no_mangle)]
pub extern "C" fn wsrep_deinit_membership_service_v1() {}

extern "C" fn membership_is_not_told() -> sys::wsrep_status_t {
    sys::WSREP_NOT_IMPLEMENTED
}

/// Services that are accepted, and neither read nor called.
macro_rules! accept {
    ($($name:literal: $init:ident, $deinit:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $init(service: *mut c_void) -> c_int {
            if service.is_null() {
                return refuse_null($name);
            }
            sys::WSREP_OK
        }

        /// Forgets a service that nothing here keeps.
        #[unsafe(no_mangle)]
        pub extern "C" fn $deinit() {}
    )*};
}

accept! {
    "event": wsrep_init_event_service_v1, wsrep_deinit_event_service_v1;
    "thread": wsrep_init_thread_service_v1, wsrep_deinit_thread_service_v1;
    "TLS": wsrep_init_tls_service_v1, wsrep_deinit_tls_service_v1;
    "connection monitor": wsrep_init_connection_monitor_service_v1,
        wsrep_deinit_connection_monitor_service_v1;
}

#[derive(Clone, Copy)]
struct Allowlist(sys::wsrep_allowlist_service_v1_t);

// SAFETY: a function and a context of the server, which it expects to be used from our threads.
unsafe impl Send for Allowlist {}
// SAFETY: as above.
unsafe impl Sync for Allowlist {}

static ALLOWLIST: RwLock<Option<Allowlist>> = RwLock::new(None);

fn register_allowlist(service: Option<sys::wsrep_allowlist_service_v1_t>) {
    let mut slot = ALLOWLIST.write().unwrap_or_else(PoisonError::into_inner);
    *slot = service.map(Allowlist);
}

/// Whether a peer with this IP address (text, no port) may connect. Everybody may if the server has
/// registered no list. May read tables: call it with no lock held, on a thread with 256 KiB of
/// stack.
pub fn peer_ip_allowed(ip: &str) -> bool {
    ask(sys::WSREP_ALLOWLIST_KEY_IP, ip)
}

/// [`peer_ip_allowed`], for the subject name of a peer's certificate.
pub fn peer_subject_allowed(subject: &str) -> bool {
    ask(sys::WSREP_ALLOWLIST_KEY_SSL, subject)
}

fn ask(key: sys::wsrep_allowlist_key_t, value: &str) -> bool {
    // The lock is not held across the callback.
    let service = *ALLOWLIST.read().unwrap_or_else(PoisonError::into_inner);
    let Some(Allowlist(service)) = service else {
        return true;
    };
    let Some(callback) = service.allowlist_cb else {
        return true;
    };
    // A NUL inside would hide the rest from the server: no address, no name has one.
    let Ok(text) = CString::new(value) else {
        return false;
    };
    let buf = sys::wsrep_buf_t {
        ptr: text.as_ptr().cast(),
        len: value.len(),
    };
    // SAFETY: the server's function and context; the text is NUL-terminated and lives until it
    // returns.
    unsafe { callback(service.context, key, &buf) == sys::WSREP_OK }
}

/// Calls back with each option. Without a provider there are none.
///
/// # Safety
/// `w` is NULL or a filled table that the server has not freed; `callback` takes `context` and a
/// parameter that is valid during the call.
pub(super) unsafe extern "C-unwind" fn get_parameters(
    w: *mut sys::wsrep_t,
    callback: sys::wsrep_parameter_cb_t,
    context: *mut c_void,
) -> sys::wsrep_status_t {
    let Some(callback) = callback else {
        return sys::WSREP_OK;
    };
    // SAFETY: by contract of this function.
    let parameters = unsafe { call_always(w, Vec::new(), |p| p.parameters()) };
    for parameter in &parameters {
        let name = convert::c_text(parameter.name);
        let text = text_of(parameter);
        let parameter = sys::wsrep_parameter_t {
            flags: flags_of(parameter),
            name: name.as_ptr(),
            value: value_of(parameter, &text),
        };
        // SAFETY: the server's function by contract; the parameter and its texts live until it
        // returns, and it copies them.
        let taken = unsafe { callback(&raw const parameter, context) };
        if taken != sys::WSREP_OK {
            return taken;
        }
    }
    sys::WSREP_OK
}

fn flags_of(parameter: &Parameter) -> c_int {
    let kind = match parameter.value {
        ParameterValue::Bool(_) => sys::WSREP_PARAM_TYPE_BOOL,
        ParameterValue::Integer(_) => sys::WSREP_PARAM_TYPE_INTEGER,
        ParameterValue::Real(_) => sys::WSREP_PARAM_TYPE_DOUBLE,
        // A text is what has no other type.
        ParameterValue::Text(_) => 0,
    };
    match parameter.is_read_only {
        true => kind | sys::WSREP_PARAM_READONLY,
        false => kind,
    }
}

fn text_of(parameter: &Parameter) -> CString {
    match &parameter.value {
        ParameterValue::Text(text) => convert::c_text(text),
        ParameterValue::Bool(_) | ParameterValue::Integer(_) | ParameterValue::Real(_) => {
            CString::default()
        }
    }
}

/// The value for the server, with a pointer to `text` if it is a text.
fn value_of(parameter: &Parameter, text: &CString) -> sys::wsrep_parameter_value_t {
    match parameter.value {
        ParameterValue::Bool(is_on) => sys::wsrep_parameter_value_t {
            as_bool: u8::from(is_on),
        },
        ParameterValue::Integer(as_integer) => sys::wsrep_parameter_value_t { as_integer },
        ParameterValue::Real(as_double) => sys::wsrep_parameter_value_t { as_double },
        ParameterValue::Text(_) => sys::wsrep_parameter_value_t {
            as_string: text.as_ptr(),
        },
    }
}
