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
/// `init(args)`: args valid during the call.
pub type wsrep_init_fn_t =
    unsafe extern "C" fn(*mut wsrep_t, *const wsrep_init_args) -> wsrep_status_t;
pub type wsrep_capabilities_fn_t = unsafe extern "C" fn(*mut wsrep_t) -> wsrep_cap_t;
/// `options_set(text)`: NUL-terminated, the server's.
pub type wsrep_options_set_fn_t =
    unsafe extern "C" fn(*mut wsrep_t, *const c_char) -> wsrep_status_t;
/// `options_get()`: NUL-terminated, from the C library's `malloc`; the server `free`s it. Never
/// NULL.
pub type wsrep_options_get_fn_t = unsafe extern "C" fn(*mut wsrep_t) -> *mut c_char;
pub type wsrep_enc_set_key_fn_t =
    unsafe extern "C" fn(*mut wsrep_t, *const wsrep_enc_key_t) -> wsrep_status_t;
/// `connect(name, url, donor, bootstrap)`: texts are the server's.
pub type wsrep_connect_fn_t = unsafe extern "C" fn(
    *mut wsrep_t,
    *const c_char,
    *const c_char,
    *const c_char,
    wsrep_bool_t,
) -> wsrep_status_t;
/// `recv(recv_ctx)`: the context is the server's and bound to the calling thread.
pub type wsrep_recv_fn_t = unsafe extern "C" fn(*mut wsrep_t, *mut c_void) -> wsrep_status_t;
pub type wsrep_assign_read_view_fn_t = unsafe extern "C" fn(
    *mut wsrep_t,
    *mut wsrep_ws_handle_t,
    *const wsrep_gtid_t,
) -> wsrep_status_t;
/// `certify(conn, handle, flags, meta)`: `meta` is written by the provider.
pub type wsrep_certify_fn_t = unsafe extern "C" fn(
    *mut wsrep_t,
    wsrep_conn_id_t,
    *mut wsrep_ws_handle_t,
    u32,
    *mut wsrep_trx_meta_t,
) -> wsrep_status_t;
pub type wsrep_commit_order_enter_fn_t = unsafe extern "C" fn(
    *mut wsrep_t,
    *const wsrep_ws_handle_t,
    *const wsrep_trx_meta_t,
) -> wsrep_status_t;
/// `commit_order_leave(handle, meta, error)`: error NULL or empty: fine.
pub type wsrep_commit_order_leave_fn_t = unsafe extern "C" fn(
    *mut wsrep_t,
    *const wsrep_ws_handle_t,
    *const wsrep_trx_meta_t,
    *const wsrep_buf_t,
) -> wsrep_status_t;
/// `release(handle)`: clears `handle.opaque`.
pub type wsrep_release_fn_t =
    unsafe extern "C" fn(*mut wsrep_t, *mut wsrep_ws_handle_t) -> wsrep_status_t;
/// `replay_trx(handle, trx_ctx)`: the context is valid during the call, on the calling thread.
pub type wsrep_replay_trx_fn_t =
    unsafe extern "C" fn(*mut wsrep_t, *const wsrep_ws_handle_t, *mut c_void) -> wsrep_status_t;
/// `abort_certification(bf_seqno, victim, victim_seqno)`: the last is always written.
pub type wsrep_abort_certification_fn_t = unsafe extern "C" fn(
    *mut wsrep_t,
    wsrep_seqno_t,
    wsrep_trx_id_t,
    *mut wsrep_seqno_t,
) -> wsrep_status_t;
pub type wsrep_rollback_fn_t =
    unsafe extern "C" fn(*mut wsrep_t, wsrep_trx_id_t, *const wsrep_buf_t) -> wsrep_status_t;
/// `append_key(handle, keys, count, type, copy)`: keys valid during the call.
pub type wsrep_append_key_fn_t = unsafe extern "C" fn(
    *mut wsrep_t,
    *mut wsrep_ws_handle_t,
    *const wsrep_key_t,
    usize,
    wsrep_key_type_t,
    wsrep_bool_t,
) -> wsrep_status_t;
/// `append_data(handle, data, count, type, copy)`: data valid during the call.
pub type wsrep_append_data_fn_t = unsafe extern "C" fn(
    *mut wsrep_t,
    *mut wsrep_ws_handle_t,
    *const wsrep_buf_t,
    usize,
    wsrep_data_type_t,
    wsrep_bool_t,
) -> wsrep_status_t;
/// `sync_wait(upto, timeout_s, reached)`: `upto` and `reached` may be NULL.
pub type wsrep_sync_wait_fn_t = unsafe extern "C" fn(
    *mut wsrep_t,
    *mut wsrep_gtid_t,
    c_int,
    *mut wsrep_gtid_t,
) -> wsrep_status_t;
/// `last_committed_id(gtid)`: written by the provider; must never fail.
pub type wsrep_last_committed_id_fn_t =
    unsafe extern "C" fn(*mut wsrep_t, *mut wsrep_gtid_t) -> wsrep_status_t;
pub type wsrep_free_connection_fn_t =
    unsafe extern "C" fn(*mut wsrep_t, wsrep_conn_id_t) -> wsrep_status_t;
/// `to_execute_start(conn, keys, nkeys, action, count, flags, meta)`.
pub type wsrep_to_execute_start_fn_t = unsafe extern "C" fn(
    *mut wsrep_t,
    wsrep_conn_id_t,
    *const wsrep_key_t,
    usize,
    *const wsrep_buf_t,
    usize,
    u32,
    *mut wsrep_trx_meta_t,
) -> wsrep_status_t;
/// `to_execute_end(conn, error)`: error NULL or empty: fine.
pub type wsrep_to_execute_end_fn_t =
    unsafe extern "C" fn(*mut wsrep_t, wsrep_conn_id_t, *const wsrep_buf_t) -> wsrep_status_t;
pub type wsrep_preordered_collect_fn_t = unsafe extern "C" fn(
    *mut wsrep_t,
    *mut wsrep_po_handle_t,
    *const wsrep_buf_t,
    usize,
    wsrep_bool_t,
) -> wsrep_status_t;
pub type wsrep_preordered_commit_fn_t = unsafe extern "C" fn(
    *mut wsrep_t,
    *mut wsrep_po_handle_t,
    *const wsrep_uuid_t,
    u32,
    c_int,
    wsrep_bool_t,
) -> wsrep_status_t;
pub type wsrep_sst_sent_fn_t =
    unsafe extern "C" fn(*mut wsrep_t, *const wsrep_gtid_t, c_int) -> wsrep_status_t;
/// `sst_received(gtid, state = NULL, rcode)`.
pub type wsrep_sst_received_fn_t = unsafe extern "C" fn(
    *mut wsrep_t,
    *const wsrep_gtid_t,
    *const wsrep_buf_t,
    c_int,
) -> wsrep_status_t;
pub type wsrep_snapshot_fn_t =
    unsafe extern "C" fn(*mut wsrep_t, *const wsrep_buf_t, *const c_char) -> wsrep_status_t;
/// `stats_get()`: array owned by the provider until `stats_free`.
pub type wsrep_stats_get_fn_t = unsafe extern "C" fn(*mut wsrep_t) -> *mut wsrep_stats_var;
/// `stats_free(array)`: what `stats_get` returned.
pub type wsrep_stats_free_fn_t = unsafe extern "C" fn(*mut wsrep_t, *mut wsrep_stats_var);
/// A function without a result.
pub type wsrep_void_fn_t = unsafe extern "C" fn(*mut wsrep_t);
/// `pause()`: position reached; -1: failed.
pub type wsrep_pause_fn_t = unsafe extern "C" fn(*mut wsrep_t) -> wsrep_seqno_t;
pub type wsrep_lock_fn_t =
    unsafe extern "C" fn(*mut wsrep_t, *const c_char, wsrep_bool_t, u64, i64) -> wsrep_status_t;
pub type wsrep_unlock_fn_t =
    unsafe extern "C" fn(*mut wsrep_t, *const c_char, u64) -> wsrep_status_t;
pub type wsrep_is_locked_fn_t =
    unsafe extern "C" fn(*mut wsrep_t, *const c_char, *mut u64, *mut wsrep_uuid_t) -> wsrep_bool_t;

/// The table. Allocated and freed by the server, filled by the provider's `wsrep_loader`.
#[repr(C)]
pub struct wsrep_st {
    /// "26". Static text of the provider.
    pub version: *const c_char,
    pub init: Option<wsrep_init_fn_t>,
    pub capabilities: Option<wsrep_capabilities_fn_t>,
    pub options_set: Option<wsrep_options_set_fn_t>,
    pub options_get: Option<wsrep_options_get_fn_t>,
    /// Not called by 10.11.
    pub enc_set_key: Option<wsrep_enc_set_key_fn_t>,
    pub connect: Option<wsrep_connect_fn_t>,
    pub disconnect: Option<wsrep_simple_fn_t>,
    /// Lends an applier thread to the provider.
    pub recv: Option<wsrep_recv_fn_t>,
    /// Not called by 10.11.
    pub assign_read_view: Option<wsrep_assign_read_view_fn_t>,
    pub certify: Option<wsrep_certify_fn_t>,
    /// Waits for the turn to commit.
    pub commit_order_enter: Option<wsrep_commit_order_enter_fn_t>,
    pub commit_order_leave: Option<wsrep_commit_order_leave_fn_t>,
    pub release: Option<wsrep_release_fn_t>,
    /// Runs an aborted ordered transaction again.
    pub replay_trx: Option<wsrep_replay_trx_fn_t>,
    /// Aborts a local transaction in favour of an ordered one.
    pub abort_certification: Option<wsrep_abort_certification_fn_t>,
    /// Rolls back a streamed transaction everywhere.
    pub rollback: Option<wsrep_rollback_fn_t>,
    pub append_key: Option<wsrep_append_key_fn_t>,
    pub append_data: Option<wsrep_append_data_fn_t>,
    pub sync_wait: Option<wsrep_sync_wait_fn_t>,
    pub last_committed_id: Option<wsrep_last_committed_id_fn_t>,
    /// Not called by 10.11.
    pub free_connection: Option<wsrep_free_connection_fn_t>,
    /// Orders a statement and waits for its turn.
    pub to_execute_start: Option<wsrep_to_execute_start_fn_t>,
    pub to_execute_end: Option<wsrep_to_execute_end_fn_t>,
    /// Not called by 10.11.
    pub preordered_collect: Option<wsrep_preordered_collect_fn_t>,
    /// Not called by 10.11.
    pub preordered_commit: Option<wsrep_preordered_commit_fn_t>,
    pub sst_sent: Option<wsrep_sst_sent_fn_t>,
    pub sst_received: Option<wsrep_sst_received_fn_t>,
    /// Not called by 10.11.
    pub snapshot: Option<wsrep_snapshot_fn_t>,
    pub stats_get: Option<wsrep_stats_get_fn_t>,
    pub stats_free: Option<wsrep_stats_free_fn_t>,
    pub stats_reset: Option<wsrep_void_fn_t>,
    /// Stops applying and committing.
    pub pause: Option<wsrep_pause_fn_t>,
    pub resume: Option<wsrep_simple_fn_t>,
    pub desync: Option<wsrep_simple_fn_t>,
    pub resync: Option<wsrep_simple_fn_t>,
    /// Not called by 10.11.
    pub lock: Option<wsrep_lock_fn_t>,
    /// Not called by 10.11.
    pub unlock: Option<wsrep_unlock_fn_t>,
    /// Not called by 10.11.
    pub is_locked: Option<wsrep_is_locked_fn_t>,
    /// Static text of the provider.
    pub provider_name: *const c_char,
    /// Static text of the provider.
    pub provider_version: *const c_char,
    /// Static text of the provider.
    pub provider_vendor: *const c_char,
    /// Stops the provider. Called twice.
    pub free: Option<wsrep_void_fn_t>,
    /// The loader's; the provider does not touch it.
    pub dlh: *mut c_void,
    pub ctx: *mut c_void,
}

pub type wsrep_t = wsrep_st;
