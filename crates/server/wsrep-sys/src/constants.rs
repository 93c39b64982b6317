//! Numbers of the interface: enum values, flags, capability bits, undefined values.
//!
//! Numbers and names are the interface's, version 26. They are never changed here: a server that
//! was built with the C header uses the same.

use std::ffi::{CStr, c_int};

/// Required value of `version` in the table and of `wsrep_interface_version`.
pub const WSREP_INTERFACE_VERSION: &CStr = c"26";

/// Capacity of [`crate::wsrep_member_info_t::name`], with the terminating NUL.
pub const WSREP_MEMBER_NAME_LEN: usize = 32;
/// Capacity of [`crate::wsrep_member_info_t::incoming`], with the terminating NUL.
pub const WSREP_INCOMING_LEN: usize = 256;

/// 0 or 1. A C `bool`, taken as a byte because any other value would be undefined in a Rust `bool`.
pub type wsrep_bool_t = u8;
/// Sequence number of an ordered action; [`WSREP_SEQNO_UNDEFINED`] if none.
pub type wsrep_seqno_t = i64;
/// A transaction of this server; [`WSREP_UNDEFINED_TRX_ID`] if none.
pub type wsrep_trx_id_t = u64;
/// A client connection of this server; [`WSREP_UNDEFINED_CONN_ID`] if none.
pub type wsrep_conn_id_t = u64;
pub type wsrep_cap_t = u32;

pub const WSREP_SEQNO_UNDEFINED: wsrep_seqno_t = -1;
pub const WSREP_UNDEFINED_TRX_ID: wsrep_trx_id_t = u64::MAX;
pub const WSREP_UNDEFINED_CONN_ID: wsrep_conn_id_t = u64::MAX;

macro_rules! c_enum {
    ($(#[$doc:meta])* $name:ident: $repr:ty {
        $($(#[$vdoc:meta])* $value:ident = $number:expr,)*
    }) => {
        $(#[$doc])*
        pub type $name = $repr;
        $($(#[$vdoc])* pub const $value: $name = $number;)*
    };
}

c_enum! {
    wsrep_log_level_t: c_int {
        /// Shown as an error; the server keeps serving.
        WSREP_LOG_FATAL = 0,
        WSREP_LOG_ERROR = 1,
        WSREP_LOG_WARN = 2,
        WSREP_LOG_INFO = 3,
        /// Shown only with `wsrep_debug`.
        WSREP_LOG_DEBUG = 4,
    }
}

c_enum! {
    wsrep_status_t: c_int {
        WSREP_OK = 0,
        WSREP_WARNING = 1,
        /// Transaction is not known to the provider.
        WSREP_TRX_MISSING = 2,
        /// Transaction must be rolled back.
        WSREP_TRX_FAIL = 3,
        /// Transaction was aborted by a high-priority one.
        WSREP_BF_ABORT = 4,
        /// Write set exceeds the limit.
        WSREP_SIZE_EXCEEDED = 5,
        /// No connection to the group.
        WSREP_CONN_FAIL = 6,
        /// The provider failed; the node should leave.
        WSREP_NODE_FAIL = 7,
        /// The server must abort.
        WSREP_FATAL = 8,
        /// Not offered by this provider.
        WSREP_NOT_IMPLEMENTED = 9,
        WSREP_NOT_ALLOWED = 10,
    }
}

c_enum! {
    wsrep_cb_status_t: c_int {
        WSREP_CB_SUCCESS = 0,
        WSREP_CB_FAILURE = 1,
    }
}

c_enum! {
    /// State of a member as the server names it.
    wsrep_member_status_t: c_int {
        WSREP_MEMBER_UNDEFINED = 0,
        WSREP_MEMBER_JOINER = 1,
        WSREP_MEMBER_DONOR = 2,
        /// Has the state, catching up.
        WSREP_MEMBER_JOINED = 3,
        WSREP_MEMBER_SYNCED = 4,
        WSREP_MEMBER_ERROR = 5,
        WSREP_MEMBER_MAX = 6,
    }
}

c_enum! {
    wsrep_view_status_t: u32 {
        /// This part of the group may commit.
        WSREP_VIEW_PRIMARY = 0,
        WSREP_VIEW_NON_PRIMARY = 1,
        WSREP_VIEW_DISCONNECTED = 2,
        WSREP_VIEW_MAX = 3,
    }
}

c_enum! {
    wsrep_key_type_t: u32 {
        /// Shared with other SHARED and REFERENCE.
        WSREP_KEY_SHARED = 0,
        /// Referenced, for instance by a foreign key.
        WSREP_KEY_REFERENCE = 1,
        /// Row updated, its identity unchanged.
        WSREP_KEY_UPDATE = 2,
        /// Inserted, deleted, or identity changed.
        WSREP_KEY_EXCLUSIVE = 3,
    }
}

c_enum! {
    wsrep_data_type_t: u32 {
        /// Applied in total order.
        WSREP_DATA_ORDERED = 0,
        WSREP_DATA_UNORDERED = 1,
        WSREP_DATA_ANNOTATION = 2,
    }
}

c_enum! {
    wsrep_var_type_t: u32 {
        /// NUL-terminated text, never NULL.
        WSREP_VAR_STRING = 0,
        WSREP_VAR_INT64 = 1,
        WSREP_VAR_DOUBLE = 2,
    }
}

c_enum! {
    /// Subject of an allowlist question.
    wsrep_allowlist_key_t: c_int {
        /// Peer's IP address as text, without port.
        WSREP_ALLOWLIST_KEY_IP = 0,
        /// Subject name of the peer's certificate.
        WSREP_ALLOWLIST_KEY_SSL = 1,
    }
}

c_enum! {
    /// Network access that a signal handler asks for.
    wsrep_node_isolation_mode_t: c_int {
        WSREP_NODE_ISOLATION_NOT_ISOLATED = 0,
        /// Exchange nothing with peers.
        WSREP_NODE_ISOLATION_ISOLATED = 1,
        /// Close all connections for good.
        WSREP_NODE_ISOLATION_FORCE_DISCONNECT = 2,
    }
}

c_enum! {
    /// Answer to an isolation request.
    wsrep_node_isolation_result_t: c_int {
        WSREP_NODE_ISOLATION_SUCCESS = 0,
        WSREP_NODE_ISOLATION_INVALID_VALUE = 1,
    }
}

c_enum! {
    /// Direction of the (unused) encryption callback.
    wsrep_enc_direction_t: c_int {
        WSREP_ENC = 0,
        WSREP_DEC = 1,
    }
}

c_enum! {
    /// Properties of a parameter in the (unused) config service.
    wsrep_parameter_flags_t: c_int {
        WSREP_PARAM_DEPRECATED = 1,
        /// Cannot be set at run time.
        WSREP_PARAM_READONLY = 2,
        WSREP_PARAM_TYPE_BOOL = 4,
        WSREP_PARAM_TYPE_INTEGER = 8,
        WSREP_PARAM_TYPE_DOUBLE = 16,
    }
}

pub const WSREP_CAP_MULTI_MASTER: wsrep_cap_t = 1 << 0;
pub const WSREP_CAP_CERTIFICATION: wsrep_cap_t = 1 << 1;
pub const WSREP_CAP_PARALLEL_APPLYING: wsrep_cap_t = 1 << 2;
/// Aborted ordered transactions are run again.
pub const WSREP_CAP_TRX_REPLAY: wsrep_cap_t = 1 << 3;
pub const WSREP_CAP_ISOLATION: wsrep_cap_t = 1 << 4;
pub const WSREP_CAP_PAUSE: wsrep_cap_t = 1 << 5;
pub const WSREP_CAP_CAUSAL_READS: wsrep_cap_t = 1 << 6;
/// Write sets may be appended piece by piece.
pub const WSREP_CAP_INCREMENTAL_WRITESET: wsrep_cap_t = 1 << 8;
/// Streaming replication. The only bit that changes the server's behaviour.
pub const WSREP_CAP_STREAMING: wsrep_cap_t = 1 << 15;

/// Last (or only) fragment of a transaction: its commit.
pub const WSREP_FLAG_TRX_END: u32 = 0x001;
/// Set by the provider towards `apply_cb`: failed certification, or rollback of a streamed one.
pub const WSREP_FLAG_ROLLBACK: u32 = 0x002;
/// Set by the provider towards `apply_cb`: total order isolation. Never with ROLLBACK.
pub const WSREP_FLAG_ISOLATION: u32 = 0x004;
/// Nothing may run in parallel with it.
pub const WSREP_FLAG_PA_UNSAFE: u32 = 0x008;
/// First (or only) fragment of a transaction.
pub const WSREP_FLAG_TRX_START: u32 = 0x040;
