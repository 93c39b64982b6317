//! Sizes, offsets and values against the numbers printed by a compiled C program (x86-64 Linux).

use std::mem::{align_of, offset_of, size_of};

use wsrep_sys::*;

macro_rules! check_offsets {
    ($type:ty { $($field:ident @ $offset:expr),* $(,)? }) => {
        $(assert_eq!(offset_of!($type, $field), $offset,
            concat!(stringify!($type), ".", stringify!($field)));)*
    };
}

macro_rules! check_values {
    ($($name:ident = $value:expr),* $(,)?) => {
        $(assert_eq!(i64::from($name), $value, stringify!($name));)*
    };
}

#[test]
fn plain_structs_have_the_sizes_of_the_interface() {
    let sizes = [
        ("uuid", size_of::<wsrep_uuid_t>(), 16),
        ("uuid alignment", align_of::<wsrep_uuid_t>(), 8),
        ("gtid", size_of::<wsrep_gtid_t>(), 24),
        ("stid", size_of::<wsrep_stid_t>(), 32),
        ("trx_meta", size_of::<wsrep_trx_meta_t>(), 64),
        ("buf", size_of::<wsrep_buf_t>(), 16),
        ("enc_key", size_of::<wsrep_enc_key_t>(), 16),
        ("ws_handle", size_of::<wsrep_ws_handle_t>(), 16),
        ("po_handle", size_of::<wsrep_po_handle_t>(), 8),
        ("key", size_of::<wsrep_key_t>(), 16),
        ("member_info", size_of::<wsrep_member_info_t>(), 304),
        ("view_info", size_of::<wsrep_view_info_t>(), 360),
        ("enc_iv", size_of::<wsrep_enc_iv_t>(), 32),
        ("enc_ctx", size_of::<wsrep_enc_ctx_t>(), 24),
        ("stats_var", size_of::<wsrep_stats_var>(), 24),
        ("init_args", size_of::<wsrep_init_args>(), 144),
        ("table", size_of::<wsrep_t>(), 360),
        ("allowlist", size_of::<wsrep_allowlist_service_v1_t>(), 16),
        ("config", size_of::<wsrep_config_service_v1_t>(), 8),
        ("parameter", size_of::<wsrep_parameter_t>(), 24),
        (
            "membership service",
            size_of::<wsrep_membership_service_v1_t>(),
            8,
        ),
        ("status", size_of::<wsrep_status_t>(), 4),
        ("bool", size_of::<wsrep_bool_t>(), 1),
        ("cap", size_of::<wsrep_cap_t>(), 4),
        ("function pointer", size_of::<wsrep_apply_cb_t>(), 8),
    ];
    for (what, found, expected) in sizes {
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn fields_of_plain_structs_are_where_the_interface_puts_them() {
    check_offsets!(wsrep_gtid_t { uuid @ 0, seqno @ 16 });
    check_offsets!(wsrep_stid_t { node @ 0, trx @ 16, conn @ 24 });
    check_offsets!(wsrep_trx_meta_t { gtid @ 0, stid @ 24, depends_on @ 56 });
    check_offsets!(wsrep_buf_t { ptr @ 0, len @ 8 });
    check_offsets!(wsrep_ws_handle_t { trx_id @ 0, opaque @ 8 });
    check_offsets!(wsrep_key_t { key_parts @ 0, key_parts_num @ 8 });
    check_offsets!(wsrep_member_info_t { id @ 0, name @ 16, incoming @ 48 });
    check_offsets!(wsrep_view_info_t {
        state_id @ 0, view @ 24, status @ 32, capabilities @ 36, my_idx @ 40, memb_num @ 44,
        proto_ver @ 48, members @ 56,
    });
    assert_eq!(WSREP_VIEW_HEADER_SIZE, 56);
    check_offsets!(wsrep_enc_ctx_t { key @ 0, iv @ 8, ctx @ 16 });
    check_offsets!(wsrep_stats_var { name @ 0, type_ @ 8, value @ 16 });
    check_offsets!(wsrep_allowlist_service_v1_t { allowlist_cb @ 0, context @ 8 });
    check_offsets!(wsrep_parameter_t { flags @ 0, name @ 8, value @ 16 });
}

#[test]
fn init_args_are_where_the_interface_puts_them() {
    check_offsets!(wsrep_init_args {
        app_ctx @ 0, node_name @ 8, node_address @ 16, node_incoming @ 24, data_dir @ 32,
        options @ 40, proto_ver @ 48, state_id @ 56, state @ 64, logger_cb @ 72,
        connected_cb @ 80, view_cb @ 88, sst_request_cb @ 96, encrypt_cb @ 104, apply_cb @ 112,
        unordered_cb @ 120, sst_donate_cb @ 128, synced_cb @ 136,
    });
}

#[test]
fn table_slots_are_where_the_interface_puts_them() {
    check_offsets!(wsrep_t {
        version @ 0, init @ 8, capabilities @ 16, options_set @ 24, options_get @ 32,
        enc_set_key @ 40, connect @ 48, disconnect @ 56, recv @ 64, assign_read_view @ 72,
        certify @ 80, commit_order_enter @ 88, commit_order_leave @ 96, release @ 104,
        replay_trx @ 112, abort_certification @ 120, rollback @ 128, append_key @ 136,
        append_data @ 144, sync_wait @ 152, last_committed_id @ 160, free_connection @ 168,
        to_execute_start @ 176, to_execute_end @ 184, preordered_collect @ 192,
        preordered_commit @ 200, sst_sent @ 208, sst_received @ 216, snapshot @ 224,
        stats_get @ 232, stats_free @ 240, stats_reset @ 248, pause @ 256, resume @ 264,
        desync @ 272, resync @ 280, lock @ 288, unlock @ 296, is_locked @ 304,
        provider_name @ 312, provider_version @ 320, provider_vendor @ 328, free @ 336,
        dlh @ 344, ctx @ 352,
    });
}

#[test]
fn enum_values_are_those_of_the_interface() {
    check_values!(
        WSREP_LOG_FATAL = 0,
        WSREP_LOG_ERROR = 1,
        WSREP_LOG_WARN = 2,
        WSREP_LOG_INFO = 3,
        WSREP_LOG_DEBUG = 4,
        WSREP_OK = 0,
        WSREP_WARNING = 1,
        WSREP_TRX_MISSING = 2,
        WSREP_TRX_FAIL = 3,
        WSREP_BF_ABORT = 4,
        WSREP_SIZE_EXCEEDED = 5,
        WSREP_CONN_FAIL = 6,
        WSREP_NODE_FAIL = 7,
        WSREP_FATAL = 8,
        WSREP_NOT_IMPLEMENTED = 9,
        WSREP_NOT_ALLOWED = 10,
        WSREP_CB_SUCCESS = 0,
        WSREP_CB_FAILURE = 1,
        WSREP_MEMBER_UNDEFINED = 0,
        WSREP_MEMBER_JOINER = 1,
        WSREP_MEMBER_DONOR = 2,
        WSREP_MEMBER_JOINED = 3,
        WSREP_MEMBER_SYNCED = 4,
        WSREP_MEMBER_ERROR = 5,
        WSREP_MEMBER_MAX = 6,
        WSREP_VIEW_PRIMARY = 0,
        WSREP_VIEW_NON_PRIMARY = 1,
        WSREP_VIEW_DISCONNECTED = 2,
        WSREP_VIEW_MAX = 3,
        WSREP_KEY_SHARED = 0,
        WSREP_KEY_REFERENCE = 1,
        WSREP_KEY_UPDATE = 2,
        WSREP_KEY_EXCLUSIVE = 3,
        WSREP_DATA_ORDERED = 0,
        WSREP_DATA_UNORDERED = 1,
        WSREP_DATA_ANNOTATION = 2,
        WSREP_VAR_STRING = 0,
        WSREP_VAR_INT64 = 1,
        WSREP_VAR_DOUBLE = 2,
        WSREP_ALLOWLIST_KEY_IP = 0,
        WSREP_ALLOWLIST_KEY_SSL = 1,
        WSREP_NODE_ISOLATION_NOT_ISOLATED = 0,
        WSREP_NODE_ISOLATION_ISOLATED = 1,
        WSREP_NODE_ISOLATION_FORCE_DISCONNECT = 2,
        WSREP_NODE_ISOLATION_SUCCESS = 0,
        WSREP_NODE_ISOLATION_INVALID_VALUE = 1,
        WSREP_PARAM_DEPRECATED = 1,
        WSREP_PARAM_READONLY = 2,
        WSREP_PARAM_TYPE_BOOL = 4,
        WSREP_PARAM_TYPE_INTEGER = 8,
        WSREP_PARAM_TYPE_DOUBLE = 16,
        WSREP_ENC = 0,
        WSREP_DEC = 1,
    );
}

#[test]
fn flags_and_capabilities_are_those_of_the_interface() {
    check_values!(
        WSREP_FLAG_TRX_END = 0x001,
        WSREP_FLAG_ROLLBACK = 0x002,
        WSREP_FLAG_ISOLATION = 0x004,
        WSREP_FLAG_PA_UNSAFE = 0x008,
        WSREP_FLAG_TRX_START = 0x040,
    );
    let honest = WSREP_CAP_MULTI_MASTER
        | WSREP_CAP_CERTIFICATION
        | WSREP_CAP_PARALLEL_APPLYING
        | WSREP_CAP_TRX_REPLAY
        | WSREP_CAP_ISOLATION
        | WSREP_CAP_PAUSE
        | WSREP_CAP_CAUSAL_READS
        | WSREP_CAP_INCREMENTAL_WRITESET
        | WSREP_CAP_STREAMING;
    assert_eq!(honest, 0x817f);
}

#[test]
fn undefined_values_are_those_of_the_interface() {
    assert_eq!(WSREP_SEQNO_UNDEFINED, -1);
    assert_eq!(WSREP_UNDEFINED_TRX_ID, u64::MAX);
    assert_eq!(WSREP_UNDEFINED_CONN_ID, u64::MAX);
    assert_eq!(WSREP_UUID_UNDEFINED.data, [0; 16]);
    assert_eq!(WSREP_TRX_META_UNDEFINED.gtid.seqno, -1);
    assert_eq!(WSREP_TRX_META_UNDEFINED.depends_on, -1);
    assert_eq!(WSREP_INTERFACE_VERSION.to_bytes_with_nul(), b"26\0");
}
