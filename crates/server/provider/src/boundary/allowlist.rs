//! The server's say in which peers may connect.

use std::ffi::CString;
use std::sync::{PoisonError, RwLock};

use wsrep_sys as sys;

/// The registered service, a copy of the server's struct.
#[derive(Clone, Copy)]
struct Service(sys::wsrep_allowlist_service_v1_t);

// SAFETY: a function and a context of the server, which it expects to be used from our threads.
unsafe impl Send for Service {}
// SAFETY: as above.
unsafe impl Sync for Service {}

static SERVICE: RwLock<Option<Service>> = RwLock::new(None);

pub(super) fn register(service: Option<sys::wsrep_allowlist_service_v1_t>) {
    let mut slot = SERVICE.write().unwrap_or_else(PoisonError::into_inner);
    *slot = service.map(Service);
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
    let service = *SERVICE.read().unwrap_or_else(PoisonError::into_inner);
    let Some(Service(service)) = service else {
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
