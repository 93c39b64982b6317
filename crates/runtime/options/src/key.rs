//! Typed names of the options that code reads. A name or a type that is not in the table does not
//! compile.

use super::table::{index_of, kind_at};
use super::value::Kind;

/// Something that names an option.
pub trait Key: Copy {
    /// Place in [`super::SPECS`].
    fn index(self) -> usize;
}

macro_rules! key_type {
    ($($(#[$doc:meta])* $name:ident = $kind:pat,)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(usize);

        impl $name {
            const fn new(name: &str) -> $name {
                let index = index_of(name);
                assert!(matches!(kind_at(index), $kind), "the option has another type");
                $name(index)
            }
        }

        impl Key for $name {
            fn index(self) -> usize {
                self.0
            }
        }
    )*};
}

key_type! {
    /// Name of a boolean.
    BoolKey = Kind::Bool,
    /// Name of an integer.
    IntKey = Kind::Int { .. },
    /// Name of a duration.
    DurationKey = Kind::Duration,
    /// Name of an address.
    AddressKey = Kind::Address,
    /// Name of a choice of words.
    WordKey = Kind::Word(_),
    /// Name of a region.
    RegionKey = Kind::Region,
    /// Name of a text.
    TextKey = Kind::Text,
}

macro_rules! keys {
    ($($(#[$doc:meta])* $key:ident: $type:ident = $name:expr;)*) => {
        $($(#[$doc])* pub const $key: $type = $type::new($name);)*
    };
}

keys! {
    /// `base_host`
    BASE_HOST: TextKey = "base_host";
    /// `base_port`
    BASE_PORT: IntKey = "base_port";
    /// `cert.log_conflicts`
    CERT_LOG_CONFLICTS: BoolKey = "cert.log_conflicts";
    /// `cert.optimistic_pa`
    CERT_OPTIMISTIC_PA: BoolKey = "cert.optimistic_pa";
    /// `debug`
    DEBUG: BoolKey = "debug";
    /// `evs.inactive_timeout`
    EVS_INACTIVE_TIMEOUT: DurationKey = "evs.inactive_timeout";
    /// `evs.keepalive_period`
    EVS_KEEPALIVE_PERIOD: DurationKey = "evs.keepalive_period";
    /// `evs.stats_report_period`
    EVS_STATS_REPORT_PERIOD: DurationKey = "evs.stats_report_period";
    /// `evs.suspect_timeout`
    EVS_SUSPECT_TIMEOUT: DurationKey = "evs.suspect_timeout";
    /// `gcache.size`
    GCACHE_SIZE: IntKey = "gcache.size";
    /// `gcs.fc_limit`
    GCS_FC_LIMIT: IntKey = "gcs.fc_limit";
    /// `gcs.vote_policy`
    GCS_VOTE_POLICY: IntKey = "gcs.vote_policy";
    /// `gmcast.isolate`
    GMCAST_ISOLATE: IntKey = "gmcast.isolate";
    /// `gmcast.listen_addr`
    GMCAST_LISTEN_ADDR: AddressKey = "gmcast.listen_addr";
    /// `gmcast.segment`
    GMCAST_SEGMENT: IntKey = "gmcast.segment";
    /// `pc.bootstrap`
    PC_BOOTSTRAP: BoolKey = "pc.bootstrap";
    /// `pc.ignore_sb`
    PC_IGNORE_SB: BoolKey = "pc.ignore_sb";
    /// `pc.ignore_quorum`
    PC_IGNORE_QUORUM: BoolKey = "pc.ignore_quorum";
    /// `pc.wait_prim`
    PC_WAIT_PRIM: BoolKey = "pc.wait_prim";
    /// `pc.wait_prim_timeout`
    PC_WAIT_PRIM_TIMEOUT: DurationKey = "pc.wait_prim_timeout";
    /// `repl.causal_read_timeout`
    REPL_CAUSAL_READ_TIMEOUT: DurationKey = "repl.causal_read_timeout";
    /// `repl.max_ws_size`
    REPL_MAX_WS_SIZE: IntKey = "repl.max_ws_size";
    /// `socket.dynamic`
    SOCKET_DYNAMIC: BoolKey = "socket.dynamic";
    /// `socket.ssl`
    SOCKET_SSL: BoolKey = "socket.ssl";
    /// `socket.ssl_ca`
    SOCKET_SSL_CA: TextKey = "socket.ssl_ca";
    /// `socket.ssl_cert`
    SOCKET_SSL_CERT: TextKey = "socket.ssl_cert";
    /// `socket.ssl_cipher`
    SOCKET_SSL_CIPHER: TextKey = "socket.ssl_cipher";
    /// `socket.ssl_key`
    SOCKET_SSL_KEY: TextKey = "socket.ssl_key";
    /// `socket.ssl_password_file`
    SOCKET_SSL_PASSWORD_FILE: TextKey = "socket.ssl_password_file";
    /// `socket.ssl_reload`
    SOCKET_SSL_RELOAD: BoolKey = "socket.ssl_reload";
    /// `synod.apply_queue_size`
    APPLY_QUEUE_SIZE: IntKey = "synod.apply_queue_size";
    /// `synod.certification_span`
    CERTIFICATION_SPAN: IntKey = "synod.certification_span";
    /// `synod.chunk_size`
    CHUNK_SIZE: IntKey = "synod.chunk_size";
    /// `synod.commit_wait`
    COMMIT_WAIT: WordKey = "synod.commit_wait";
    /// `synod.compression`
    COMPRESSION: WordKey = "synod.compression";
    /// `synod.dead_voter_after`
    DEAD_VOTER_AFTER: DurationKey = "synod.dead_voter_after";
    /// `synod.election_timeout`
    ELECTION_TIMEOUT: DurationKey = "synod.election_timeout";
    /// `synod.heartbeat_period`
    HEARTBEAT_PERIOD: DurationKey = "synod.heartbeat_period";
    /// `synod.insecure`
    INSECURE: BoolKey = "synod.insecure";
    /// `synod.laggard_after`
    LAGGARD_AFTER: DurationKey = "synod.laggard_after";
    /// `synod.leader`
    LEADER: WordKey = "synod.leader";
    /// `synod.leader_handover`
    LEADER_HANDOVER: BoolKey = "synod.leader_handover";
    /// `synod.leader_weight`
    LEADER_WEIGHT: IntKey = "synod.leader_weight";
    /// `synod.listen_addr`
    LISTEN_ADDR: AddressKey = "synod.listen_addr";
    /// `synod.log_cache_size`
    LOG_CACHE_SIZE: IntKey = "synod.log_cache_size";
    /// `synod.log_dir`
    LOG_DIR: TextKey = "synod.log_dir";
    /// `synod.log_full`
    LOG_FULL: WordKey = "synod.log_full";
    /// `synod.log_min_free`
    LOG_MIN_FREE: IntKey = "synod.log_min_free";
    /// `synod.log_retain_age`
    LOG_RETAIN_AGE: DurationKey = "synod.log_retain_age";
    /// `synod.log_retain_size`
    LOG_RETAIN_SIZE: IntKey = "synod.log_retain_size";
    /// `synod.log_segment_size`
    LOG_SEGMENT_SIZE: IntKey = "synod.log_segment_size";
    /// `synod.max_apply_lag`
    MAX_APPLY_LAG: DurationKey = "synod.max_apply_lag";
    /// `synod.max_pending_size`
    MAX_PENDING_SIZE: IntKey = "synod.max_pending_size";
    /// `synod.max_row_keys`
    MAX_ROW_KEYS: IntKey = "synod.max_row_keys";
    /// `synod.region`
    REGION: RegionKey = "synod.region";
    /// `synod.restart_on_failure`
    RESTART_ON_FAILURE: BoolKey = "synod.restart_on_failure";
    /// `synod.secret_file`
    SECRET_FILE: TextKey = "synod.secret_file";
    /// `synod.voter`
    VOTER: BoolKey = "synod.voter";
    /// `synod.voters_wanted`
    VOTERS_WANTED: IntKey = "synod.voters_wanted";
    /// `synod.writers`
    WRITERS: WordKey = "synod.writers";
    /// `synod.rejoin_timeout`
    REJOIN_TIMEOUT: DurationKey = "synod.rejoin_timeout";
}
