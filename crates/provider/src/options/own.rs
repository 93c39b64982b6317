//! Options that exist only here.

use synod_node::LeaderWeight;

use super::table::{OptionSpec, address, bool, duration, int, text};

/// Our own options.
pub(super) const OWN: [OptionSpec; 17] = [
    int("synod.apply_queue_size", "64M", 1 << 20, i64::MAX).dynamic().unit("bytes").works("Delivered but not yet applied actions kept in memory; the rest waits in the log."),
    int("synod.certification_span", "100000", 1000, i64::MAX).unit("actions").works("History kept to find conflicts in, beyond what all members have applied. A write set whose snapshot is older is refused (deadlock error)."),
    int("synod.chunk_size", "1M", 4096, 64 << 20).unit("bytes").works("Large actions travel and are stored in pieces of this size."),
    duration("synod.election_timeout", "PT1.5S").works("Without news from a leader for this long, a member tries to become one."),
    duration("synod.heartbeat_period", "PT0.1S").works("How often a leader shows that it lives."),
    bool("synod.leader_handover", "no").dynamic().works("Whether this member, when it leads, hands over to a voter of higher synod.leader_weight that has kept up for two election timeouts. No: weights only decide who stands for election first. A leader of weight 0 hands over in any case."),
    int("synod.leader_weight", "50", 0, LeaderWeight::MAX as i64).dynamic().works("How much this member should lead, compared with the others: of those that are left when a leader is lost, the one with the highest weight stands for election first. With 0 it leads only if nobody else can. Says nothing about who counts for a majority."),
    duration("synod.lease", "PT0.4S").works("How long a leader may answer reads after a majority has confirmed it. Below synod.election_timeout."),
    address("synod.listen_addr", "").works("Where to listen for peers. Goes before gmcast.listen_addr."),
    int("synod.log_cache_size", "64M", 1 << 20, i64::MAX).unit("bytes").works("Newest part of the log kept in memory."),
    text("synod.log_dir", "").unit("path").works("Directory of the durable log. Empty: the data directory, in files named synod-*.log, which full copies leave alone."),
    duration("synod.log_retain_age", "P7D").works("Log older than this may go if nobody needs it."),
    int("synod.log_retain_size", "4G", 1 << 20, i64::MAX).unit("bytes").works("Log above this size goes, oldest first. At twice this size also what a member still needs, which then takes a full copy; but never what must not be lost with the disks of a minority: rather than that, clients wait until enough databases have it on theirs."),
    int("synod.log_segment_size", "64M", 1 << 20, 4 << 30).unit("bytes").works("Size of one log file."),
    int("synod.max_pending_size", "256M", 1 << 20, i64::MAX).unit("bytes").works("Local write sets waiting for their verdict; more waits at the client."),
    duration("synod.rejoin_timeout", "PT10M").works("A member that belongs to a group already waits this long at start for a majority of it, if that is longer than pc.wait_prim_timeout."),
    bool("synod.voter", "yes").works("Whether this member counts for majorities once it has caught up. No: it receives and serves everything, but no commit waits for it and no majority is lost with it, as suits a copy for reading in a far place. The first member of a group always counts, and so does, until it has left in good order, who has counted before."),
];
