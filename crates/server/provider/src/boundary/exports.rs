//! The symbols a server looks up in the library when it loads it, so they never change; but for
//! those of `services` nothing else is exported (`tests/shared_library.rs` checks it).

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicI32, Ordering};

use wsrep_sys as sys;

use super::table;

#[repr(transparent)]
pub struct InterfaceVersion(pub *const c_char);

// SAFETY: points to a constant.
unsafe impl Sync for InterfaceVersion {}

#[allow(non_upper_case_globals)]
#[unsafe(no_mangle)]
pub static wsrep_interface_version: InterfaceVersion =
    InterfaceVersion(sys::WSREP_INTERFACE_VERSION.as_ptr());

/// Fills the server's table. 0, or an errno value.
///
/// # Safety
/// `w` is NULL or points to 360 writable bytes, aligned for pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wsrep_loader(w: *mut sys::wsrep_t) -> c_int {
    if w.is_null() {
        return libc::EINVAL;
    }
    // SAFETY: not NULL; a table by contract of this function.
    unsafe { table::fill_table(w, Box::new(crate::provider::create)) };
    0
}

static ISOLATION: AtomicI32 = AtomicI32::new(sys::WSREP_NODE_ISOLATION_NOT_ISOLATED);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsolationMode {
    NotIsolated,
    Isolated,
    /// Close all connections for good: the server is dying.
    ForceDisconnect,
}

/// The mode that the server set last. Cheap enough to ask before each exchange with a peer.
pub fn isolation_mode() -> IsolationMode {
    match ISOLATION.load(Ordering::Relaxed) {
        sys::WSREP_NODE_ISOLATION_ISOLATED => IsolationMode::Isolated,
        sys::WSREP_NODE_ISOLATION_FORCE_DISCONNECT => IsolationMode::ForceDisconnect,
        _ => IsolationMode::NotIsolated,
    }
}

/// Called from the server's handler of fatal signals, so one atomic store is all it may do.
#[unsafe(no_mangle)]
pub extern "C" fn wsrep_node_isolation_mode_set_v1(
    mode: sys::wsrep_node_isolation_mode_t,
) -> sys::wsrep_node_isolation_result_t {
    match mode {
        sys::WSREP_NODE_ISOLATION_NOT_ISOLATED
        | sys::WSREP_NODE_ISOLATION_ISOLATED
        | sys::WSREP_NODE_ISOLATION_FORCE_DISCONNECT => {
            ISOLATION.store(mode, Ordering::Relaxed);
            sys::WSREP_NODE_ISOLATION_SUCCESS
        }
        _ => sys::WSREP_NODE_ISOLATION_INVALID_VALUE,
    }
}
