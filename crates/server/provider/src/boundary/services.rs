//! The services that servers register when they have loaded the library, before `init`.
//!
//! | service | who registers it | what becomes of it |
//! |---|---|---|
//! | allowlist | MariaDB 10.11, 11.8 | asked about each peer: `allowlist` |
//! | config | MariaDB 11.8 | filled in: `parameters` |
//! | event | MariaDB 11.8 | accepted: there are no events for it |
//! | thread, TLS, connection monitor | Percona XtraDB Cluster | accepted, and not used |
//! | membership | servers to come | filled in with a function that has no answer |
//!
//! A server that finds a function missing, or gets an error from it, ends its start. So what is not
//! needed is accepted, and a line in the error log says what the server will miss
//! ([`service_notes`]). All functions may be called at any time, in any order and repeatedly.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU8, Ordering};

use wsrep_sys as sys;

use super::{allowlist, parameters};
use crate::api::LogLevel;

/// A service that is accepted, and not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unused {
    Thread,
    Tls,
    ConnectionMonitor,
    Membership,
}

const UNUSED: [Unused; 4] = [
    Unused::Thread,
    Unused::Tls,
    Unused::ConnectionMonitor,
    Unused::Membership,
];

/// A bit for each registered [`Unused`].
static REGISTERED: AtomicU8 = AtomicU8::new(0);

impl Unused {
    fn bit(self) -> u8 {
        match self {
            Unused::Thread => 1,
            Unused::Tls => 2,
            Unused::ConnectionMonitor => 4,
            Unused::Membership => 8,
        }
    }

    fn register(self) {
        REGISTERED.fetch_or(self.bit(), Ordering::Relaxed);
    }

    fn forget(self) {
        REGISTERED.fetch_and(!self.bit(), Ordering::Relaxed);
    }

    fn is_registered(self) -> bool {
        REGISTERED.load(Ordering::Relaxed) & self.bit() != 0
    }

    /// Warning about the missing service.
    fn note(self) -> (LogLevel, &'static str) {
        match self {
            Unused::Thread => (
                LogLevel::Info,
                "The server offers to make threads and locks (thread service). Synod makes its own: \
                 the server's instruments do not show them",
            ),
            // The server's certificates do not protect what its administrator believes.
            Unused::Tls => (
                LogLevel::Warn,
                "The server offers to encrypt the connections between members (TLS service). Synod \
                 does not use that: what protects them are synod.secret_file or the options \
                 socket.ssl_*. Settings by which the server encrypts the group's traffic have no \
                 effect on them; see tls.md",
            ),
            Unused::ConnectionMonitor => (
                LogLevel::Info,
                "The server wants to be told of connections between members (connection monitor \
                 service). Synod does not tell it: its list of them stays empty; 'synod status' \
                 shows the members",
            ),
            Unused::Membership => (
                LogLevel::Info,
                "The server wants to ask which members there are (membership service). Synod answers \
                 'not implemented' there; 'synod member list' shows them",
            ),
        }
    }
}

/// Log lines about the services that the server has registered.
pub fn service_notes() -> Vec<(LogLevel, &'static str)> {
    let registered = UNUSED.iter().filter(|service| service.is_registered());
    registered.map(|service| service.note()).collect()
}

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

/// Accepts the server's receiver of events. There are no events for it: what it would be told is in
/// the error log and in the status.
#[unsafe(no_mangle)]
pub extern "C" fn wsrep_init_event_service_v1(
    service: *mut sys::wsrep_event_service_v1_t,
) -> c_int {
    if service.is_null() {
        return refuse_null("event");
    }
    sys::WSREP_OK
}

/// Forgets the server's receiver of events, which nothing keeps.
#[unsafe(no_mangle)]
pub extern "C" fn wsrep_deinit_event_service_v1() {}

/// Accepts the server's threads and locks, and does not use them.
#[unsafe(no_mangle)]
pub extern "C" fn wsrep_init_thread_service_v1(
    service: *mut sys::wsrep_thread_service_v1_t,
) -> c_int {
    if service.is_null() {
        return refuse_null("thread");
    }
    Unused::Thread.register();
    sys::WSREP_OK
}

/// Forgets the server's threads and locks.
#[unsafe(no_mangle)]
pub extern "C" fn wsrep_deinit_thread_service_v1() {
    Unused::Thread.forget();
}

/// Accepts the server's TLS, and does not use it: a warning says so.
#[unsafe(no_mangle)]
pub extern "C" fn wsrep_init_tls_service_v1(service: *mut sys::wsrep_tls_service_v1_t) -> c_int {
    if service.is_null() {
        return refuse_null("TLS");
    }
    Unused::Tls.register();
    sys::WSREP_OK
}

/// Forgets the server's TLS.
#[unsafe(no_mangle)]
pub extern "C" fn wsrep_deinit_tls_service_v1() {
    Unused::Tls.forget();
}

/// Accepts the server's list of connections, and adds none to it.
#[unsafe(no_mangle)]
pub extern "C" fn wsrep_init_connection_monitor_service_v1(
    service: *mut sys::wsrep_connection_monitor_service_v1_t,
) -> c_int {
    if service.is_null() {
        return refuse_null("connection monitor");
    }
    Unused::ConnectionMonitor.register();
    sys::WSREP_OK
}

/// Forgets the server's list of connections.
#[unsafe(no_mangle)]
pub extern "C" fn wsrep_deinit_connection_monitor_service_v1() {
    Unused::ConnectionMonitor.forget();
}

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
    Unused::Membership.register();
    sys::WSREP_OK
}

/// Ends the membership service.
#[unsafe(no_mangle)]
pub extern "C" fn wsrep_deinit_membership_service_v1() {
    Unused::Membership.forget();
}

extern "C" fn membership_is_not_told() -> sys::wsrep_status_t {
    sys::WSREP_NOT_IMPLEMENTED
}
