//! Functions of the server that the provider calls. No provider lock may be held across any of
//! them; all may block, and C++ exceptions may come out of them.

use std::ffi::{c_char, c_int, c_void};

use crate::{
    wsrep_bool_t, wsrep_buf_t, wsrep_cb_status_t, wsrep_enc_ctx_t, wsrep_enc_direction_t,
    wsrep_gtid_t, wsrep_log_level_t, wsrep_trx_meta_t, wsrep_view_info_t, wsrep_ws_handle_t,
};

/// `(level, text)`: writes a line into the server's error log. The NUL-terminated text is copied.
pub type wsrep_log_cb_t =
    Option<unsafe extern "C-unwind" fn(level: wsrep_log_level_t, text: *const c_char)>;

/// `(app_ctx, view)`: once per `connect`, with the first primary view. On a `recv` thread.
pub type wsrep_connected_cb_t = Option<
    unsafe extern "C-unwind" fn(
        app_ctx: *mut c_void,
        view: *const wsrep_view_info_t,
    ) -> wsrep_cb_status_t,
>;

/// `(app_ctx, recv_ctx, view, state = NULL, state_len = 0)`: every view, on the thread of
/// `recv_ctx`.
pub type wsrep_view_cb_t = Option<
    unsafe extern "C-unwind" fn(
        app_ctx: *mut c_void,
        recv_ctx: *mut c_void,
        view: *const wsrep_view_info_t,
        state: *const c_char,
        state_len: usize,
    ) -> wsrep_cb_status_t,
>;

/// `(app_ctx, &request, &len)`: asks the server to prepare for a full copy. On success `*request`
/// is from the server's `malloc` and the provider `free`s it (C library, not Rust's allocator).
pub type wsrep_sst_request_cb_t = Option<
    unsafe extern "C-unwind" fn(
        app_ctx: *mut c_void,
        request: *mut *mut c_void,
        len: *mut usize,
    ) -> wsrep_cb_status_t,
>;

/// `(app_ctx, recv_ctx, request, position, state = NULL, bypass)`: starts sending a full copy.
pub type wsrep_sst_donate_cb_t = Option<
    unsafe extern "C-unwind" fn(
        app_ctx: *mut c_void,
        recv_ctx: *mut c_void,
        request: *const wsrep_buf_t,
        state_id: *const wsrep_gtid_t,
        state: *const wsrep_buf_t,
        bypass: wsrep_bool_t,
    ) -> wsrep_cb_status_t,
>;

/// `(recv_ctx, handle, flags, data, meta, &exit_loop)`: applies an action on the thread of
/// `recv_ctx`. `handle.opaque` must not be NULL; `*exit_loop` must be initialised to 0.
pub type wsrep_apply_cb_t = Option<
    unsafe extern "C-unwind" fn(
        recv_ctx: *mut c_void,
        handle: *const wsrep_ws_handle_t,
        flags: u32,
        data: *const wsrep_buf_t,
        meta: *const wsrep_trx_meta_t,
        exit_loop: *mut wsrep_bool_t,
    ) -> wsrep_cb_status_t,
>;

/// `(recv_ctx, data)`: unordered data. NULL in 10.11.
pub type wsrep_unordered_cb_t = Option<
    unsafe extern "C-unwind" fn(
        recv_ctx: *mut c_void,
        data: *const wsrep_buf_t,
    ) -> wsrep_cb_status_t,
>;

/// `(app_ctx)`: the node has caught up. On a `recv` thread.
pub type wsrep_synced_cb_t =
    Option<unsafe extern "C-unwind" fn(app_ctx: *mut c_void) -> wsrep_cb_status_t>;

/// Encryption. NULL in 10.11.
pub type wsrep_encrypt_cb_t = Option<
    unsafe extern "C-unwind" fn(
        ctx: *mut wsrep_enc_ctx_t,
        input: *const wsrep_buf_t,
        output: *mut c_void,
        direction: wsrep_enc_direction_t,
        last: wsrep_bool_t,
    ) -> c_int,
>;
