//! Arguments of `init`, filled by the server.

use std::ffi::{c_char, c_int, c_void};

use crate::{
    wsrep_apply_cb_t, wsrep_buf_t, wsrep_connected_cb_t, wsrep_encrypt_cb_t, wsrep_gtid_t,
    wsrep_log_cb_t, wsrep_sst_donate_cb_t, wsrep_sst_request_cb_t, wsrep_synced_cb_t,
    wsrep_unordered_cb_t, wsrep_view_cb_t,
};

/// Arguments of `init`. Everything behind a pointer, except `app_ctx` and the functions, is valid
/// only until `init` returns. Texts are NUL-terminated; any may be NULL or empty.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wsrep_init_args {
    /// The server's own; passed back verbatim, never read, valid until `free`.
    pub app_ctx: *mut c_void,
    /// `wsrep_node_name`.
    pub node_name: *const c_char,
    /// `wsrep_node_address`; may carry a port.
    pub node_address: *const c_char,
    /// Client address, `host:port`.
    pub node_incoming: *const c_char,
    /// Data directory, with a slash at the end.
    pub data_dir: *const c_char,
    /// `wsrep_provider_options`.
    pub options: *const c_char,
    /// Highest application protocol, 4.
    pub proto_ver: c_int,
    /// `wsrep_start_position`; undefined GTID if not given.
    pub state_id: *const wsrep_gtid_t,
    pub state: *const wsrep_buf_t,
    pub logger_cb: wsrep_log_cb_t,
    pub connected_cb: wsrep_connected_cb_t,
    pub view_cb: wsrep_view_cb_t,
    pub sst_request_cb: wsrep_sst_request_cb_t,
    pub encrypt_cb: wsrep_encrypt_cb_t,
    pub apply_cb: wsrep_apply_cb_t,
    pub unordered_cb: wsrep_unordered_cb_t,
    pub sst_donate_cb: wsrep_sst_donate_cb_t,
    pub synced_cb: wsrep_synced_cb_t,
}
