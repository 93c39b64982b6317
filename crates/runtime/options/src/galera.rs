//! The options of Galera 26.4, in its order, and what they mean here.
//!
//! An option works, has no effect for a reason that is logged as a notice, or is refused. A text
//! has at most two sentences.

use super::table::{DefaultValue, OptionSpec, address, bool, duration, fraction, int, text};

// Why options have no effect. A reason completes the line "... is accepted but has no effect: ",
// and is a row of `docs/options.md` with all options that share it.
const LEADER_CERTIFIES: &str = "the leader keeps the certification window";
const NO_LAYER: &str = "members share a log; there is no group communication layer";
const LOG_NOT_CACHE: &str = "missed actions come from the log; see synod.log_retain_size";
const LAG_NOT_COUNTS: &str = "writes are admitted by lag; see synod.max_apply_lag";
const BYTES_NOT_COUNTS: &str = "queues are bounded in bytes; see synod.apply_queue_size";
const NO_IST: &str = "missed actions (IST) travel over the connections between members";
const CHECKSUMS: &str = "messages always have checksums";
const MAJORITY: &str =
    "a group with a majority re-forms by itself, and a minority never becomes primary";
const SYSTEM_BUFFERS: &str = "the system tunes its buffers";

#[rustfmt::skip]
pub(crate) const GALERA: [OptionSpec; 94] = [
    text("base_dir", "").default(DefaultValue::DataDir)
        .ignored("files have options of their own, such as synod.log_dir"),
    text("base_host", "").default(DefaultValue::NodeHost)
        .works("Host at which other members reach this one."),
    int("base_port", "", 1, 65535).default(DefaultValue::NodePort).unit("port")
        .works("Port for traffic between members, where no other option names one."),
    int("cert.length_check", "127", 0, i64::MAX).hidden().ignored(LEADER_CERTIFIES),
    bool("cert.log_conflicts", "no").dynamic().works("With yes, each refused write set is logged."),
    int("cert.max_length", "16384", 1, i64::MAX).hidden().ignored(LEADER_CERTIFIES),
    bool("cert.optimistic_pa", "yes").dynamic()
        .ignored("dependencies are recorded once, by the leader"),
    bool("debug", "no").dynamic().works("With yes, debug lines are written to the error log."),
    int("evs.auto_evict", "0", 0, i64::MAX).ignored(NO_LAYER),
    duration("evs.causal_keepalive_period", "PT1S").ignored(NO_LAYER),
    int("evs.debug_log_mask", "0x1", 0, i64::MAX).dynamic().ignored(NO_LAYER),
    duration("evs.delay_margin", "PT1S").ignored(NO_LAYER),
    duration("evs.delayed_keep_period", "PT30S").ignored(NO_LAYER),
    text("evs.evict", "").dynamic().hidden().ignored(NO_LAYER),
    duration("evs.inactive_check_period", "PT0.5S").ignored(NO_LAYER),
    duration("evs.inactive_timeout", "PT15S").dynamic()
        .ignored("evs.suspect_timeout is the only limit of silence"),
    int("evs.info_log_mask", "0", 0, i64::MAX).ignored(NO_LAYER),
    duration("evs.install_timeout", "PT7.5S").dynamic().ignored(NO_LAYER),
    duration("evs.join_retrans_period", "PT1S").dynamic().ignored(NO_LAYER),
    duration("evs.keepalive_period", "PT1S").dynamic()
        .ignored("synod.heartbeat_period replaces it"),
    int("evs.max_install_timeouts", "3", 0, i64::MAX).ignored(NO_LAYER),
    int("evs.send_window", "4", 1, i64::MAX).dynamic().ignored(NO_LAYER),
    duration("evs.stats_report_period", "PT1M")
        .works("`wsrep_evs_repl_latency` covers the present and the last period of this length."),
    duration("evs.suspect_timeout", "PT5S").dynamic().works(
        "A member that has sent nothing for this long is removed from the view. A shorter time \
         notices a dead member sooner, but removes one that only pauses."),
    bool("evs.use_aggregate", "true").ignored(NO_LAYER),
    int("evs.user_send_window", "2", 1, i64::MAX).dynamic().ignored(NO_LAYER),
    int("evs.version", "1", 0, i64::MAX).ignored(NO_LAYER),
    duration("evs.view_forget_timeout", "P1D").ignored(NO_LAYER),
    text("gcache.dir", "").default(DefaultValue::DataDir).ignored(LOG_NOT_CACHE),
    bool("gcache.encryption", "no").hidden().refused(
        "Encrypts the cache.", "encryption at rest is not available yet; put synod.log_dir on an \
         encrypted file system"),
    int("gcache.encryption_cache_page_size", "32K", 0, i64::MAX).hidden().unit("bytes")
        .ignored(LOG_NOT_CACHE),
    int("gcache.encryption_cache_size", "16M", 0, i64::MAX).hidden().unit("bytes")
        .ignored(LOG_NOT_CACHE),
    int("gcache.keep_pages_size", "0", 0, i64::MAX).dynamic().unit("bytes").ignored(LOG_NOT_CACHE),
    int("gcache.keep_plaintext_size", "128M", 0, i64::MAX).dynamic().hidden().unit("bytes")
        .ignored(LOG_NOT_CACHE),
    int("gcache.mem_size", "0", 0, i64::MAX).dynamic().unit("bytes").ignored(LOG_NOT_CACHE),
    text("gcache.name", "galera.cache").ignored(LOG_NOT_CACHE),
    int("gcache.page_size", "128M", 0, i64::MAX).dynamic().unit("bytes").ignored(LOG_NOT_CACHE),
    bool("gcache.recover", "yes").ignored("the log is always recovered"),
    int("gcache.size", "128M", 0, i64::MAX).unit("bytes").ignored(LOG_NOT_CACHE),
    text("gcomm.thread_prio", "").ignored(NO_LAYER),
    bool("gcs.check_appl_proto", "true").hidden().ignored(NO_LAYER),
    int("gcs.fc_debug", "0", 0, i64::MAX).dynamic().ignored(LAG_NOT_COUNTS),
    fraction("gcs.fc_factor", "1.0").dynamic().ignored(LAG_NOT_COUNTS),
    int("gcs.fc_limit", "16", 0, i64::MAX).dynamic().unit("write sets").ignored(LAG_NOT_COUNTS),
    bool("gcs.fc_master_slave", "no").ignored(LAG_NOT_COUNTS),
    bool("gcs.fc_single_primary", "no").ignored(LAG_NOT_COUNTS),
    int("gcs.max_packet_size", "64500", 1, i64::MAX).unit("bytes")
        .ignored("synod.chunk_size replaces it"),
    fraction("gcs.max_throttle", "0.25").ignored(BYTES_NOT_COUNTS),
    int("gcs.recv_q_hard_limit", "9223372036854775807", 0, i64::MAX).unit("bytes")
        .ignored(BYTES_NOT_COUNTS),
    fraction("gcs.recv_q_soft_limit", "0.25").ignored(BYTES_NOT_COUNTS),
    bool("gcs.stateless", "no").hidden().ignored(NO_LAYER),
    bool("gcs.sync_donor", "no").ignored(BYTES_NOT_COUNTS),
    int("gcs.vote_policy", "0", 0, i64::MAX).hidden().works(
        "Decides which outcome wins when an action failed on some members: 0 the most frequent \
         one, a larger number success if at least so many members had it. The leader's value \
         counts, so set it alike on all members."),
    int("gmcast.isolate", "0", 0, 1).trigger().hidden()
        .works("For tests: 1 stops all traffic with other members, 0 allows it again."),
    address("gmcast.listen_addr", "").default(DefaultValue::AnyAtBasePort)
        .works("Address to listen on for other members."),
    text("gmcast.mcast_addr", "").ignored(NO_LAYER),
    int("gmcast.mcast_ttl", "1", 0, i64::MAX).ignored(NO_LAYER),
    duration("gmcast.peer_timeout", "PT3S").ignored(NO_LAYER),
    int("gmcast.segment", "0", 0, 255).works("Region number, shown in the status."),
    duration("gmcast.time_wait", "PT5S").ignored(NO_LAYER),
    int("gmcast.version", "0", 0, i64::MAX).ignored(NO_LAYER),
    text("ist.recv_addr", "").default(DefaultValue::NodeHostNextPort).ignored(NO_IST),
    text("ist.recv_bind", "").hidden().ignored(NO_IST),
    duration("pc.announce_timeout", "PT3S").ignored(NO_LAYER),
    bool("pc.bootstrap", "no").trigger().hidden().works(
        "Makes this member primary without a majority; the others join it when they are back. Use \
         it only when the majority is lost for good: what this member lacks is lost, and if the \
         others still run, there are two histories."),
    bool("pc.checksum", "false").ignored(CHECKSUMS),
    bool("pc.ignore_quorum", "false").dynamic().works(
        "With yes, this member does what `pc.bootstrap` does whenever it hears no majority for \
         `evs.suspect_timeout`. This is not safe: two parts of the group may both accept writes."),
    bool("pc.ignore_sb", "false").dynamic().works(
        "As `pc.ignore_quorum`, but only if at least half of the voters are connected, so that one \
         member of two keeps serving. This is not safe: both halves may accept writes."),
    duration("pc.linger", "PT20S").ignored(NO_LAYER),
    bool("pc.npvo", "false").ignored(MAJORITY),
    bool("pc.recovery", "true").ignored("the group always re-forms from its log"),
    int("pc.version", "0", 0, i64::MAX).ignored(NO_LAYER),
    bool("pc.wait_prim", "true").works("With yes, the server's start waits for a majority."),
    duration("pc.wait_prim_timeout", "PT30S")
        .works("Time that the server's start waits for a majority. After it, the start fails."),
    int("pc.weight", "1", 0, 255).dynamic()
        .ignored("votes are never weighted; wsrep_cluster_weight is the number of voters"),
    text("protonet.backend", "asio").ignored(NO_LAYER),
    int("protonet.version", "0", 0, i64::MAX).ignored(NO_LAYER),
    duration("repl.causal_read_timeout", "PT30S").dynamic()
        .works("Time that a causal read waits before it fails."),
    int("repl.commit_order", "3", 0, 3).ignored("commits are always in order"),
    text("repl.key_format", "FLAT8").dynamic().ignored("keys travel as fingerprints"),
    int("repl.max_ws_size", "2147483647", 0, 2147483647).dynamic().unit("bytes")
        .works("Largest write set. A larger transaction fails."),
    int("repl.proto_max", "11", 0, i64::MAX).ignored("members agree on versions by themselves"),
    int("socket.checksum", "2", 0, 2).ignored(CHECKSUMS),
    bool("socket.dynamic", "false").hidden().works(
        "With socket.ssl or synod.secret_file, connections without encryption are accepted too, \
         for the time of a change to encryption. Outgoing connections are encrypted if the other \
         member can."),
    text("socket.recv_buf_size", "auto").unit("bytes").ignored(SYSTEM_BUFFERS),
    text("socket.send_buf_size", "auto").unit("bytes").ignored(SYSTEM_BUFFERS),
    bool("socket.ssl", "no").hidden().works(
        "With yes, connections between members are encrypted with TLS 1.3, and both ends show \
         certificates. If not set, it is yes where socket.ssl_cert and socket.ssl_key are set."),
    text("socket.ssl_ca", "").hidden().unit("path").works(
        "File (PEM) with the authorities that sign the members' certificates. Empty means that \
         only the certificate in socket.ssl_cert is accepted, so all members use the same one."),
    text("socket.ssl_cert", "").hidden().unit("path").works(
        "File (PEM) with this member's certificate, followed by those between it and the \
         authority."),
    text("socket.ssl_cipher", "").hidden().works(
        "Cipher suites of TLS 1.3, separated by colons; empty means all. Names of older versions \
         have no effect."),
    bool("socket.ssl_compression", "no").hidden().ignored("TLS has no compression any more"),
    text("socket.ssl_key", "").hidden().unit("path")
        .works("File (PEM) with the private key of socket.ssl_cert."),
    text("socket.ssl_password_file", "").hidden().unit("path")
        .works("File whose first line decrypts socket.ssl_key."),
    bool("socket.ssl_reload", "no").trigger().hidden().works(
        "Reads the certificates, or the group secret, again; connections opened afterwards use \
         them, and those by a secret that was removed are closed. If the files cannot be used, \
         what is in use stays."),
];
