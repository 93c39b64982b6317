//! The services that servers register when they have loaded the library, before `init`.
//!
//! | service | who registers it | what becomes of it |
//! |---|---|---|
//! | allowlist | MariaDB 10.11, 11.8 | asked about each peer: `allowlist` |
//! | config | MariaDB 11.8 | filled in: `parameters` |
//! | event | MariaDB 11.8 | accepted, not used |
//! | thread, TLS, connection monitor | Percona XtraDB Cluster | accepted, not used |
//! | membership | servers to come | filled in with a function that has no answer |
//!
//! A server that finds a function missing, or gets an error from it, ends its start. So what is not
//! needed is accepted. All functions may be called at any time, in any order and repeatedly.

use std::ffi::{c_int, c_void};

use wsrep_sys as sys;

use super::{allowlist, parameters};

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
    allowlist::register(Some(*service));
    sys::WSREP_OK
}

/// Forgets the server's allowlist.
#[unsafe(no_mangle)]
pub extern "C" fn wsrep_deinit_allowlist_service_v1() {
    allowlist::register(None);
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
    service.get_parameters = Some(parameters::get_parameters);
    sys::WSREP_OK
}

/// Ends the config service, which keeps nothing.
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

/// Ends the membership service, which keeps nothing.
#[unsafe(no_mangle)]
pub extern "C" fn wsrep_deinit_membership_service_v1() {}

extern "C" fn membership_is_not_told() -> sys::wsrep_status_t {
    sys::WSREP_NOT_IMPLEMENTED
}

/// Services that are accepted, and neither read nor called.
macro_rules! accept {
    ($($name:literal: $init:ident, $deinit:ident;)*) => {$(
        /// Accepts a service that nothing here uses.
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
