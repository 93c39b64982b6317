//! Options that exist only here.
//!
//! A text has at most two sentences: what the option does, and the trade-off of its default. They
//! are the source of `docs/options.md`.

use synod_node::{CommitRegions, LeaderWeight, PAYLOAD_BYTES_MAX, SEGMENT_BYTES_MAX};

use super::node_settings::Period;
use super::table::{DefaultValue, OptionSpec, address, bool, duration, int, region, text, word};

#[rustfmt::skip]
pub(crate) const OWN: [OptionSpec; 33] = [
    int("synod.apply_queue_size", "64M", 1 << 20, i64::MAX).dynamic().unit("bytes").for_experts()
        .works(
        "Upper bound on the delivered actions that wait in memory to be applied. The rest stays in \
         the log."),
    int("synod.certification_span", "100000", 1000, i64::MAX).unit("actions").for_experts().works(
        "Number of actions, beyond those that all members have applied, that are kept to find \
         conflicts. A write set with an older snapshot is refused with a deadlock error."),
    int("synod.chunk_size", "1M", 4096, PAYLOAD_BYTES_MAX as i64).unit("bytes").for_experts().works(
        "Actions larger than this travel and are stored in chunks of this size. Other actions can \
         pass between the chunks."),
    int("synod.commit_regions", "1", 1, CommitRegions::MAX as i64).dynamic().of_group()
        .unit("regions").works(
        "Regions (synod.region) in which a voter's disk has a commit before OK, beside a majority; \
         with 2 it outlives any one region. It is set as synod.writers is."),
    duration("synod.commit_regions_timeout", "PT0S").dynamic().works(
        "Time after which commits do not wait for a region until it has caught up; the leader's \
         value counts. PT0S is without end."),
    word("synod.commit_wait", "durable", &["durable", "applied"]).dynamic().unit("durable/applied")
        .works(
        "What a commit waits for before its client is told OK: with durable, the disks of a \
         majority; with applied, also until all present, synced servers show it. A server that \
         lacks a commit for evs.suspect_timeout is excluded."),
    word("synod.compression", "auto", &["auto", "always", "never"]).unit("auto/always/never").works(
        "Compression on the way to other members: with auto, where the link is slower than the \
         load. Use always where traffic is paid for."),
    duration("synod.dead_voter_after", "PT10M").dynamic().works(
        "A voter that the leader has not heard for this long gives its vote to a server that waits \
         for one. With a shorter time a restarting machine loses its vote."),
    duration("synod.election_timeout", "")
        .default(DefaultValue::Timing(Period::ElectionTimeout)).for_experts().works(
        "A member that receives nothing from a leader for this long, and by chance up to twice as \
         long, becomes a candidate; after half of it if the leader answers no pings either."),
    duration("synod.heartbeat_period", "").default(DefaultValue::Timing(Period::Heartbeat)).works(
        "Time between a leader's heartbeats, shorter than a quarter of synod.election_timeout."),
    bool("synod.insecure", "no").works(
        "With yes, this member serves connections in clear from any process that reaches its port. \
         With no, it starts only with credentials or on loopback addresses."),
    word("synod.leader", "stay", &["stay", "follow-writers"]).dynamic().unit("stay/follow-writers")
        .works(
        "With follow-writers, a leader hands over to a voter of the region (synod.region) that has \
         made at least 60 % of the transactions for 10 s, unless that voter has a lower \
         synod.leader_weight, and at most once in 30 s; the leader's value counts. With stay, or \
         synod.writers=leader, it never does."),
    bool("synod.leader_handover", "no").dynamic().for_experts().works(
        "With yes, this member hands leadership over to a voter of higher synod.leader_weight that \
         has kept up for four times synod.election_timeout. With no, only a leader of weight 0 \
         does."),
    int("synod.leader_weight", "50", 0, LeaderWeight::MAX as i64).dynamic().of_group().works(
        "When a leader is lost, the remaining voter with the highest weight becomes a candidate \
         first, and one with weight 0 leads only if no other can. Votes are not weighted."),
    address("synod.listen_addr", "")
        .works("Address to listen on for other members. It overrides gmcast.listen_addr."),
    int("synod.log_cache_size", "64M", 1 << 20, i64::MAX).unit("bytes").for_experts()
        .works("Size of the newest part of the log that is kept in memory, for members that lag."),
    text("synod.log_dir", "").unit("path").works(
        "Directory of the durable log. Empty means the data directory, where a full copy (SST) \
         leaves the files synod-*.log alone."),
    word("synod.log_full", "wait", &["wait", "drop"]).dynamic().unit("wait/drop").works(
        "With wait, writes wait when the log is full of actions that too few databases have \
         flushed to survive the loss of a minority. With drop, what one database has is purged: a \
         loss of that disk is a loss of data until another database has caught up."),
    int("synod.log_min_free", "25", 0, 100).unit("percent").works(
        "Share of the log's file system that stays free while the log is larger than twice \
         synod.log_retain_size, for members that lag or are being copied to. With 100 the log \
         never is."),
    duration("synod.log_retain_age", "P7D")
        .works("Log older than this may be purged if no member needs it."),
    int("synod.log_retain_size", "4G", 1 << 20, i64::MAX).unit("bytes").works(
        "Target size of the log; older segments are purged. At twice this size, or later if \
         synod.log_min_free allows, entries that a lagging member needs are purged too, except \
         those that too few databases have flushed (synod.log_full)."),
    int("synod.log_segment_size", "64M", 1 << 20, SEGMENT_BYTES_MAX as i64).unit("bytes")
        .for_experts()
        .works("Size of one log file. The log is purged by whole files."),
    duration("synod.max_apply_lag", "PT0.2S").dynamic().works(
        "Time by which the majority of databases that keeps up best may lag; from half of it on \
         the leader slows clients down to their pace. PT0S takes all writes."),
    int("synod.max_pending_size", "256M", 1 << 20, i64::MAX).unit("bytes").for_experts().works(
        "Upper bound on the local write sets that wait for their verdict. Further clients wait."),
    int("synod.max_row_keys", "4M", 1000, 1 << 30).dynamic().for_experts().works(
        "A transaction with more keys of rows than this conflicts with every other server's \
         changes of its tables. A key needs about 100 bytes at the server that commits."),
    duration("synod.max_staleness", "PT0S").dynamic().works(
        "A read with wsrep_sync_wait answers at once where this server can prove to lack nothing \
         acknowledged longer ago than this, such as 50ms. With PT0S each asks the leader and a \
         majority."),
    region("synod.region", "").works(
        "Region of this member, for status tables, metrics, synod.commit_regions and \
         synod.leader=follow-writers; up to 32 letters, digits, '.', '-' and '_'."),
    duration("synod.rejoin_timeout", "PT0S").for_experts().works(
        "Time that a member of an existing group waits at start for a majority, at least \
         pc.wait_prim_timeout; PT0S is without end."),
    bool("synod.restart_on_failure", "yes").dynamic().works(
        "With yes, a server that left its group because of a failure that a restart heals (a full \
         disk, a damaged log, a log that no longer reaches back), or whose full copy (SST) failed, \
         restarts itself. With no, it stays up without its group, or ends if it was starting."),
    text("synod.secret_file", "").unit("path").works(
        "File with the group secret, as 'synod keygen' makes it: one secret a line, of which the \
         first is this member's, and all are accepted from others. Connections are then \
         encrypted."),
    bool("synod.voter", "yes").works(
        "With no, this member does not count for majorities. The first member of a group always \
         votes, and a voter keeps its vote until it loses it, as at an orderly shutdown out of an \
         even number of voters."),
    int("synod.voters_wanted", "0", 0, 64).dynamic().unit("voters").for_experts().works(
        "Number of voters below which orderly shutdowns and silent voters never take the group; \
         the leader's value counts. With 0 the group keeps the tolerance of its voters; with 1 the \
         last server serves alone, and its disk is the only one with what it commits."),
    word("synod.writers", "any", &["any", "leader"]).dynamic().of_group().unit("any/leader").works(
        "Whose writes the group takes: any, those of all servers; leader, those of the leader \
         only, so that no two servers' transactions conflict. SET GLOBAL on one server sets it on \
         all; a configuration file counts on the first server of a new group only."),
];
