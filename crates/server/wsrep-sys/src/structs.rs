//! Plain data that crosses the boundary in both directions.
//!
//! Layouts are compared with the C header's in `tests/layout.rs`. A pointer in them is valid during
//! the call that passes it, unless its field says more.

use std::ffi::{c_char, c_void};

use crate::{
    WSREP_INCOMING_LEN, WSREP_MEMBER_NAME_LEN, WSREP_SEQNO_UNDEFINED, WSREP_UNDEFINED_CONN_ID,
    WSREP_UNDEFINED_TRX_ID, wsrep_cap_t, wsrep_conn_id_t, wsrep_seqno_t, wsrep_trx_id_t,
    wsrep_var_type_t, wsrep_view_status_t,
};

/// 16 bytes in the order of the text form (RFC 4122). A union in C, hence the alignment of 8.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct wsrep_uuid_t {
    pub data: [u8; 16],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct wsrep_gtid_t {
    /// The group whose history it is.
    pub uuid: wsrep_uuid_t,
    /// Position, -1: undefined.
    pub seqno: wsrep_seqno_t,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct wsrep_stid_t {
    pub node: wsrep_uuid_t,
    /// Transaction there; undefined for statements in total order.
    pub trx: wsrep_trx_id_t,
    pub conn: wsrep_conn_id_t,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct wsrep_trx_meta_t {
    /// Its place in the order.
    pub gtid: wsrep_gtid_t,
    pub stid: wsrep_stid_t,
    /// Last seqno that must be applied before it; below its own.
    pub depends_on: wsrep_seqno_t,
}

/// Bytes owned by the caller, valid during the call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct wsrep_buf_t {
    pub ptr: *const c_void,
    pub len: usize,
}

/// Encryption key; not used by 10.11.
pub type wsrep_enc_key_t = wsrep_buf_t;

/// A transaction as both sides know it. The struct belongs to the server.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct wsrep_ws_handle_t {
    /// The server's number; 2^64-1: none.
    pub trx_id: wsrep_trx_id_t,
    /// The provider's; NULL: no context yet. The server compares it with NULL and hands it back,
    /// and never looks behind it.
    pub opaque: *mut c_void,
}

/// Handle of pre-ordered events; not used by 10.11.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct wsrep_po_handle_t {
    pub opaque: *mut c_void,
}

/// A key: 1 to 3 parts from the general to the special (database, table, row).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct wsrep_key_t {
    /// Array of parts, the server's, valid during the call.
    pub key_parts: *const wsrep_buf_t,
    pub key_parts_num: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct wsrep_member_info_t {
    /// The member, for one connection to the group.
    pub id: wsrep_uuid_t,
    pub name: [c_char; WSREP_MEMBER_NAME_LEN],
    /// Client address, NUL-padded.
    pub incoming: [c_char; WSREP_INCOMING_LEN],
}

/// A view. The real size is 56 + 304 bytes per member, but never less than this struct's.
/// Allocated and freed by the provider; the server reads it during the callback only.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wsrep_view_info_t {
    /// Group, and the view's seqno (primary) or the last ordered one.
    pub state_id: wsrep_gtid_t,
    /// Number of the view from 1; -1 if not primary.
    pub view: wsrep_seqno_t,
    pub status: wsrep_view_status_t,
    pub capabilities: wsrep_cap_t,
    /// Own place in `members`; -1: not in it.
    pub my_idx: i32,
    pub memb_num: i32,
    /// Application protocol, 4.
    pub proto_ver: i32,
    /// The first of `memb_num` members.
    pub members: [wsrep_member_info_t; 1],
}

/// Offset of the first member in a view.
pub const WSREP_VIEW_HEADER_SIZE: usize = std::mem::offset_of!(wsrep_view_info_t, members);

/// Value of a status variable; which field is valid says [`wsrep_stats_var::type_`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union wsrep_stats_value_t {
    pub int64: i64,
    pub double: f64,
    /// NUL-terminated text owned by the provider until `stats_free`; never NULL.
    pub string: *const c_char,
}

/// A status variable. Arrays of these end with an element whose name is NULL. Array and texts are
/// the provider's; the server hands them back through `stats_free`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wsrep_stats_var {
    /// Name without the `wsrep_` prefix, NUL-terminated.
    pub name: *const c_char,
    /// Tag of the union `value`.
    pub type_: wsrep_var_type_t,
    pub value: wsrep_stats_value_t,
}

/// Initialisation vector; not used by 10.11.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct wsrep_enc_iv_t {
    pub data: [u8; 32],
}

/// Encryption context; not used by 10.11.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct wsrep_enc_ctx_t {
    pub key: *const wsrep_enc_key_t,
    pub iv: *const wsrep_enc_iv_t,
    pub ctx: *mut c_void,
}

pub const WSREP_UUID_UNDEFINED: wsrep_uuid_t = wsrep_uuid_t { data: [0; 16] };

pub const WSREP_GTID_UNDEFINED: wsrep_gtid_t = wsrep_gtid_t {
    uuid: WSREP_UUID_UNDEFINED,
    seqno: WSREP_SEQNO_UNDEFINED,
};

const WSREP_STID_UNDEFINED: wsrep_stid_t = wsrep_stid_t {
    node: WSREP_UUID_UNDEFINED,
    trx: WSREP_UNDEFINED_TRX_ID,
    conn: WSREP_UNDEFINED_CONN_ID,
};

/// Nothing is known of the transaction's order.
pub const WSREP_TRX_META_UNDEFINED: wsrep_trx_meta_t = wsrep_trx_meta_t {
    gtid: WSREP_GTID_UNDEFINED,
    stid: WSREP_STID_UNDEFINED,
    depends_on: WSREP_SEQNO_UNDEFINED,
};
