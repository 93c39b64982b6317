//! Typed names of the options that code reads. A name or a type that is not in the table does not
//! compile.

use super::table::{index_of, kind_at};
use super::value::Kind;

pub trait Key: Copy {
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
    BoolKey = Kind::Bool,
    IntKey = Kind::Int { .. },
    DurationKey = Kind::Duration,
    AddressKey = Kind::Address,
    WordKey = Kind::Word(_),
    RegionKey = Kind::Region,
    TextKey = Kind::Text,
}

macro_rules! keys {
    ($($(#[$doc:meta])* $key:ident: $type:ident = $name:expr;)*) => {
        $($(#[$doc])* pub const $key: $type = $type::new($name);)*
    };
}

keys! {
    BASE_HOST: TextKey = "base_host";
    BASE_PORT: IntKey = "base_port";
    CERT_LOG_CONFLICTS: BoolKey = "cert.log_conflicts";
    CERT_OPTIMISTIC_PA: BoolKey = "cert.optimistic_pa";
    DEBUG: BoolKey = "debug";
    EVS_INACTIVE_TIMEOUT: DurationKey = "evs.inactive_timeout";
    EVS_KEEPALIVE_PERIOD: DurationKey = "evs.keepalive_period";
    EVS_STATS_REPORT_PERIOD: DurationKey = "evs.stats_report_period";
    EVS_SUSPECT_TIMEOUT: DurationKey = "evs.suspect_timeout";
    GCACHE_SIZE: IntKey = "gcache.size";
    GCS_FC_LIMIT: IntKey = "gcs.fc_limit";
    GCS_VOTE_POLICY: IntKey = "gcs.vote_policy";
    GMCAST_ISOLATE: IntKey = "gmcast.isolate";
    GMCAST_LISTEN_ADDR: AddressKey = "gmcast.listen_addr";
    GMCAST_SEGMENT: IntKey = "gmcast.segment";
    PC_BOOTSTRAP: BoolKey = "pc.bootstrap";
    PC_IGNORE_SB: BoolKey = "pc.ignore_sb";
    PC_IGNORE_QUORUM: BoolKey = "pc.ignore_quorum";
    PC_WAIT_PRIM: BoolKey = "pc.wait_prim";
    PC_WAIT_PRIM_TIMEOUT: DurationKey = "pc.wait_prim_timeout";
    REPL_CAUSAL_READ_TIMEOUT: DurationKey = "repl.causal_read_timeout";
    REPL_MAX_WS_SIZE: IntKey = "repl.max_ws_size";
    SOCKET_DYNAMIC: BoolKey = "socket.dynamic";
    SOCKET_SSL: BoolKey = "socket.ssl";
    SOCKET_SSL_CA: TextKey = "socket.ssl_ca";
    SOCKET_SSL_CERT: TextKey = "socket.ssl_cert";
    SOCKET_SSL_CIPHER: TextKey = "socket.ssl_cipher";
    SOCKET_SSL_KEY: TextKey = "socket.ssl_key";
    SOCKET_SSL_PASSWORD_FILE: TextKey = "socket.ssl_password_file";
    SOCKET_SSL_RELOAD: BoolKey = "socket.ssl_reload";
    APPLY_QUEUE_SIZE: IntKey = "synod.apply_queue_size";
    CERTIFICATION_SPAN: IntKey = "synod.certification_span";
    CHUNK_SIZE: IntKey = "synod.chunk_size";
    COMMIT_REGIONS: IntKey = "synod.commit_regions";
    COMMIT_REGIONS_TIMEOUT: DurationKey = "synod.commit_regions_timeout";
    COMMIT_WAIT: WordKey = "synod.commit_wait";
    COMPRESSION: WordKey = "synod.compression";
    DEAD_VOTER_AFTER: DurationKey = "synod.dead_voter_after";
    ELECTION_TIMEOUT: DurationKey = "synod.election_timeout";
    HEARTBEAT_PERIOD: DurationKey = "synod.heartbeat_period";
    INSECURE: BoolKey = "synod.insecure";
    LEADER: WordKey = "synod.leader";
    LEADER_HANDOVER: BoolKey = "synod.leader_handover";
    LEADER_WEIGHT: IntKey = "synod.leader_weight";
    LISTEN_ADDR: AddressKey = "synod.listen_addr";
    LOG_CACHE_SIZE: IntKey = "synod.log_cache_size";
    LOG_DIR: TextKey = "synod.log_dir";
    LOG_FULL: WordKey = "synod.log_full";
    LOG_MIN_FREE: IntKey = "synod.log_min_free";
    LOG_RETAIN_AGE: DurationKey = "synod.log_retain_age";
    LOG_RETAIN_SIZE: IntKey = "synod.log_retain_size";
    LOG_SEGMENT_SIZE: IntKey = "synod.log_segment_size";
    MAX_APPLY_LAG: DurationKey = "synod.max_apply_lag";
    MAX_PENDING_SIZE: IntKey = "synod.max_pending_size";
    MAX_ROW_KEYS: IntKey = "synod.max_row_keys";
    MAX_STALENESS: DurationKey = "synod.max_staleness";
    REGION: RegionKey = "synod.region";
    RESTART_ON_FAILURE: BoolKey = "synod.restart_on_failure";
    SECRET_FILE: TextKey = "synod.secret_file";
    VOTER: BoolKey = "synod.voter";
    VOTERS_WANTED: IntKey = "synod.voters_wanted";
    WRITERS: WordKey = "synod.writers";
    REJOIN_TIMEOUT: DurationKey = "synod.rejoin_timeout";
}
