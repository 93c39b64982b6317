//! The function table: the provider, as the server sees it.
//!
//! The order of its fields is the interface. A provider fills all of them in `wsrep_loader`; the
//! server calls none before `init`.

use std::ffi::{c_char, c_int, c_void};

use crate::{
    wsrep_bool_t, wsrep_buf_t, wsrep_cap_t, wsrep_conn_id_t, wsrep_data_type_t, wsrep_enc_key_t,
    wsrep_gtid_t, wsrep_init_args, wsrep_key_t, wsrep_key_type_t, wsrep_po_handle_t, wsrep_seqno_t,
    wsrep_stats_var, wsrep_status_t, wsrep_trx_id_t, wsrep_trx_meta_t, wsrep_uuid_t,
    wsrep_ws_handle_t,
};

pub type wsrep_simple_fn_t = unsafe extern "C" fn(*mut wsrep_t) -> wsrep_status_t;

/// A function of the provider; its first argument is the table.
macro_rules! slot {
    (fn($($argument:ty),* $(,)?) $(-> $result:ty)?) => {
        Option<unsafe extern "C" fn(*mut wsrep_t, $($argument),*) $(-> $result)?>
    };
}

/// The table. Allocated and freed by the server, filled by the provider's `wsrep_loader`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wsrep_st {
    /// "26". Static text of the provider.
    pub version: *const c_char,
    /// `init(args)`: args valid during the call.
    pub init: slot!(fn(*const wsrep_init_args) -> wsrep_status_t),
    pub capabilities: slot!(fn() -> wsrep_cap_t),
    /// `options_set(text)`: NUL-terminated, the server's.
    pub options_set: slot!(fn(*const c_char) -> wsrep_status_t),
    /// `options_get()`: NUL-terminated, from the C library's `malloc`; the server `free`s it. Never
    /// NULL.
    pub options_get: slot!(fn() -> *mut c_char),
    /// Not called by 10.11.
    pub enc_set_key: slot!(fn(*const wsrep_enc_key_t) -> wsrep_status_t),
    /// `connect(name, url, donor, bootstrap)`: texts are the server's.
    pub connect:
        slot!(fn(*const c_char, *const c_char, *const c_char, wsrep_bool_t) -> wsrep_status_t),
    pub disconnect: Option<wsrep_simple_fn_t>,
    /// Lends an applier thread to the provider.
    /// `recv(recv_ctx)`: the context is the server's and bound to the calling thread.
    pub recv: slot!(fn(*mut c_void) -> wsrep_status_t),
    /// Not called by 10.11.
    pub assign_read_view: slot!(fn(*mut wsrep_ws_handle_t, *const wsrep_gtid_t) -> wsrep_status_t),
    /// `certify(conn, handle, flags, meta)`: `meta` is written by the provider.
    pub certify: slot!(
        fn(wsrep_conn_id_t, *mut wsrep_ws_handle_t, u32, *mut wsrep_trx_meta_t) -> wsrep_status_t
    ),
    /// Waits for the turn to commit.
    pub commit_order_enter:
        slot!(fn(*const wsrep_ws_handle_t, *const wsrep_trx_meta_t) -> wsrep_status_t),
    /// `commit_order_leave(handle, meta, error)`: error NULL or empty: fine.
    pub commit_order_leave: slot!(
        fn(*const wsrep_ws_handle_t, *const wsrep_trx_meta_t, *const wsrep_buf_t) -> wsrep_status_t
    ),
    /// `release(handle)`: clears `handle.opaque`.
    pub release: slot!(fn(*mut wsrep_ws_handle_t) -> wsrep_status_t),
    /// Runs an aborted ordered transaction again.
    /// `replay_trx(handle, trx_ctx)`: the context is valid during the call, on the calling thread.
    pub replay_trx: slot!(fn(*const wsrep_ws_handle_t, *mut c_void) -> wsrep_status_t),
    /// Aborts a local transaction in favour of an ordered one.
    /// `abort_certification(bf_seqno, victim, victim_seqno)`: the last is always written.
    pub abort_certification:
        slot!(fn(wsrep_seqno_t, wsrep_trx_id_t, *mut wsrep_seqno_t) -> wsrep_status_t),
    /// Rolls back a streamed transaction everywhere.
    pub rollback: slot!(fn(wsrep_trx_id_t, *const wsrep_buf_t) -> wsrep_status_t),
    /// `append_key(handle, keys, count, type, copy)`: keys valid during the call.
    pub append_key: slot!(
        fn(
            *mut wsrep_ws_handle_t,
            *const wsrep_key_t,
            usize,
            wsrep_key_type_t,
            wsrep_bool_t,
        ) -> wsrep_status_t
    ),
    /// `append_data(handle, data, count, type, copy)`: data valid during the call.
    pub append_data: slot!(
        fn(
            *mut wsrep_ws_handle_t,
            *const wsrep_buf_t,
            usize,
            wsrep_data_type_t,
            wsrep_bool_t,
        ) -> wsrep_status_t
    ),
    /// `sync_wait(upto, timeout_s, reached)`: `upto` and `reached` may be NULL.
    pub sync_wait: slot!(fn(*mut wsrep_gtid_t, c_int, *mut wsrep_gtid_t) -> wsrep_status_t),
    /// `last_committed_id(gtid)`: written by the provider; must never fail.
    pub last_committed_id: slot!(fn(*mut wsrep_gtid_t) -> wsrep_status_t),
    /// Not called by 10.11.
    pub free_connection: slot!(fn(wsrep_conn_id_t) -> wsrep_status_t),
    /// Orders a statement and waits for its turn.
    /// `to_execute_start(conn, keys, nkeys, action, count, flags, meta)`.
    pub to_execute_start: slot!(
        fn(
            wsrep_conn_id_t,
            *const wsrep_key_t,
            usize,
            *const wsrep_buf_t,
            usize,
            u32,
            *mut wsrep_trx_meta_t,
        ) -> wsrep_status_t
    ),
    /// `to_execute_end(conn, error)`: error NULL or empty: fine.
    pub to_execute_end: slot!(fn(wsrep_conn_id_t, *const wsrep_buf_t) -> wsrep_status_t),
    /// Not called by 10.11.
    pub preordered_collect: slot!(
        fn(*mut wsrep_po_handle_t, *const wsrep_buf_t, usize, wsrep_bool_t) -> wsrep_status_t
    ),
    /// Not called by 10.11.
    pub preordered_commit: slot!(
        fn(*mut wsrep_po_handle_t, *const wsrep_uuid_t, u32, c_int, wsrep_bool_t) -> wsrep_status_t
    ),
    pub sst_sent: slot!(fn(*const wsrep_gtid_t, c_int) -> wsrep_status_t),
    /// `sst_received(gtid, state = NULL, rcode)`.
    pub sst_received: slot!(fn(*const wsrep_gtid_t, *const wsrep_buf_t, c_int) -> wsrep_status_t),
    /// Not called by 10.11.
    pub snapshot: slot!(fn(*const wsrep_buf_t, *const c_char) -> wsrep_status_t),
    /// `stats_get()`: array owned by the provider until `stats_free`.
    pub stats_get: slot!(fn() -> *mut wsrep_stats_var),
    /// `stats_free(array)`: what `stats_get` returned.
    pub stats_free: slot!(fn(*mut wsrep_stats_var)),
    pub stats_reset: slot!(fn()),
    /// Stops applying and committing.
    /// `pause()`: position reached; -1: failed.
    pub pause: slot!(fn() -> wsrep_seqno_t),
    pub resume: Option<wsrep_simple_fn_t>,
    pub desync: Option<wsrep_simple_fn_t>,
    pub resync: Option<wsrep_simple_fn_t>,
    /// Not called by 10.11.
    pub lock: slot!(fn(*const c_char, wsrep_bool_t, u64, i64) -> wsrep_status_t),
    /// Not called by 10.11.
    pub unlock: slot!(fn(*const c_char, u64) -> wsrep_status_t),
    /// Not called by 10.11.
    pub is_locked: slot!(fn(*const c_char, *mut u64, *mut wsrep_uuid_t) -> wsrep_bool_t),
    pub provider_name: *const c_char,
    pub provider_version: *const c_char,
    pub provider_vendor: *const c_char,
    /// Stops the provider. Called twice.
    pub free: slot!(fn()),
    /// The loader's; the provider does not touch it.
    pub dlh: *mut c_void,
    pub ctx: *mut c_void,
}

pub type wsrep_t = wsrep_st;
