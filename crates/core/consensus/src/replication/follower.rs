//! Replication at every member that does not lead: taking over the leader's log.
//!
//! A follower acknowledges only what its disk holds of this leader's log. Each leader has to show
//! that log, also as far as it is committed here: a forced primary may have another
//! ([`crate::Core::force`]). A follower truncates only at an entry that contradicts the leader's,
//! and never below its commit index.
//!
//! Sources: Raft, sections 5.3 (consistency check, conflicting entries) and 7 (figure 13, receiver
//! of a snapshot); the acknowledgement rule (term of the leader whose log it is, index) is that of
//! etcd raft's asynchronous storage and openraft's log ids for I/O.

use synod_planted::planted;

use crate::core::Core;
use crate::effect::{Effect, WriteOp};
use crate::membership::config::Config;
use crate::message::{Append, AppendOutcome, AppendReply, Body, LogBase};
use crate::types::{EntryHeader, EntryId, EntryKind, LogIndex, MemberId, Seqno, Term, Time};

/// No message may name a position beyond this one, so that there is room to count on.
const INDEX_MAX: LogIndex = LogIndex(1 << 62);
/// Highest seqno that a message may name, for the same reason.
const SEQNO_MAX: Seqno = Seqno(1 << 62);

struct AppendRest {
    prev: EntryId,
    entries: Vec<EntryHeader>,
}

impl Core {
    pub(crate) fn handle_append(
        &mut self,
        from: MemberId,
        append: Append,
        configs: &[(LogIndex, Config)],
    ) {
        if !is_sound(&append, self.hard.term) {
            self.counters.malformed += 1;
            return;
        }
        if config_missing(&append.entries, configs) {
            self.counters.config_missing += 1;
            return;
        }
        if !self.heard_leader(from) {
            return;
        }
        let (commit, sent_at) = (append.commit, append.sent_at);
        let end = append.prev.index.0 + append.entries.len() as u64;
        let Some(rest) = self.skip_base(append) else {
            // All of it lies before this member's log, and is committed.
            self.matched = self.matched.max(LogIndex(end));
            return self.acknowledge(from, LogIndex(end), sent_at);
        };
        let fits = planted!(
            AppendAnywhere,
            self.log.holds(rest.prev),
            else self.log.holds(rest.prev) || rest.prev.index <= self.log.last().index
        );
        if !fits {
            return self.reject(from, rest.prev, sent_at);
        }
        if !self.take_entries(&rest, configs) {
            self.counters.malformed += 1;
            return;
        }
        self.matched = self.matched.max(LogIndex(end));
        self.note_leader_commit(commit);
        self.acknowledge(from, LogIndex(end), sent_at);
    }

    /// An append of `leader` in `term`, sent at `sent_at`, left out the payload of entry `index`,
    /// and this member does not have it: asks for it. To be called after the entries before it
    /// were handed in.
    pub fn payload_missing(
        &mut self,
        now: Time,
        (leader, term): (MemberId, Term),
        index: LogIndex,
        sent_at: Time,
    ) {
        self.observe(now);
        let follows = self.leader == Some(leader) && self.hard.term == term && !self.is_leader();
        // An append that did not fit was refused, and is sent again anyway.
        if follows && index.prev() <= self.matched {
            let outcome = AppendOutcome::PayloadMissing { index };
            let reply = AppendReply { outcome, sent_at };
            self.send_when_term_durable(leader, Body::AppendReply(reply));
        }
    }

    /// Leaves out what lies before this member's log. `None`: all of it lies there.
    fn skip_base(&self, append: Append) -> Option<AppendRest> {
        let base = self.log.base().last;
        let Append {
            prev, mut entries, ..
        } = append;
        if prev.index >= base.index {
            return Some(AppendRest { prev, entries });
        }
        let missing = usize::try_from(base.index.0 - prev.index.0).unwrap_or(usize::MAX);
        if entries.len() < missing {
            return None;
        }
        let rest = entries.split_off(missing);
        entries.last().map(|last| AppendRest {
            prev: last.id(),
            entries: rest,
        })
    }

    /// Refuses an append, and names the position where the logs may agree: this member's highest
    /// entry that is not above the refused position and not of a higher term than the leader has
    /// there (Raft, end of section 5.3).
    fn reject(&mut self, from: MemberId, refused: EntryId, sent_at: Time) {
        let index = self
            .log
            .agreement_below(refused)
            .max(self.log.base().last.index);
        let term = self.log.term_at(index).unwrap_or_default();
        let outcome = AppendOutcome::Rejected {
            refused: refused.index,
            hint: EntryId { term, index },
        };
        if index > refused.index {
            // The sender's log is shorter than what is committed, so it is no leader's log.
            self.counters.malformed += 1;
            return;
        }
        let reply = AppendReply { outcome, sent_at };
        self.send_when_term_durable(from, Body::AppendReply(reply));
    }

    /// Makes the log equal to the leader's up to the last of `entries`. Keeps what follows if
    /// nothing conflicts, because the message may be an old one (Raft, section 5.3; figure 2,
    /// receiver's steps 3 and 4). False: the message contradicts what is known.
    fn take_entries(&mut self, append: &AppendRest, configs: &[(LogIndex, Config)]) -> bool {
        let known = append
            .entries
            .iter()
            .take_while(|entry| self.log.holds(entry.id()))
            .count();
        let new = &append.entries[known..];
        let Some(first) = new.first() else {
            return true;
        };
        if !self.continues(first) {
            return false;
        }
        if first.index <= self.log.last().index {
            self.assert_not_committed(first.index);
            if first.index <= self.matched {
                // It contradicts what this very leader sent before.
                return false;
            }
            self.truncate(first.index);
        }
        let mut config_changed = false;
        for header in new {
            let config = configs.iter().find(|(index, _)| *index == header.index);
            let is_config = header.kind == EntryKind::Config;
            config_changed |= is_config;
            self.log.push(
                *header,
                config
                    .filter(|_| is_config)
                    .map(|(_, config)| config.clone()),
            );
        }
        if config_changed {
            self.emit(Effect::Config(self.log.config().clone()));
        }
        self.gather_from(first.index);
        self.write_gathered();
        self.trim();
        true
    }

    /// Whether `first` has the seqno that follows the entry before it, if that one's is still
    /// known.
    fn continues(&self, first: &EntryHeader) -> bool {
        self.log
            .seqno_at(first.index.prev())
            .is_none_or(|before| follows(before, first))
    }

    /// The one place where a message can stop this member: to obey would undo what it has
    /// delivered.
    fn assert_not_committed(&self, from: LogIndex) {
        assert!(
            from > self.commit,
            "leader of term {} wants entry {from} replaced, but {} is committed",
            self.hard.term,
            self.commit
        );
    }

    fn truncate(&mut self, from: LogIndex) {
        self.write(WriteOp::Truncate { from });
        self.durability.truncated(from);
        if self.log.truncate(from) {
            self.emit(Effect::Config(self.log.config().clone()));
        }
    }

    /// Takes over the leader's commit index, as far as the logs are known to agree (Raft, figure 2,
    /// receiver's step 5). A notice may overtake the entries that it is about, and this member may
    /// hold others at their positions.
    fn note_leader_commit(&mut self, commit: LogIndex) {
        self.leader_commit = self.leader_commit.max(commit);
        let known =
            planted!(CommitUnmatched, self.matched, else self.log.last().index.max(self.matched));
        self.commit_to(self.leader_commit.min(known));
    }

    pub(crate) fn handle_heartbeat(
        &mut self,
        from: MemberId,
        commit: LogIndex,
        sent_at: Time,
        read_round: u64,
    ) {
        if !self.heard_leader(from) {
            return;
        }
        self.note_leader_commit(commit);
        self.send_when_term_durable(
            from,
            Body::HeartbeatReply {
                sent_at,
                read_round,
            },
        );
    }

    pub(crate) fn handle_commit_notice(&mut self, from: MemberId, commit: LogIndex) {
        if self.heard_leader(from) {
            self.note_leader_commit(commit);
        }
    }

    /// A base names a committed position to start from (Raft, section 7). If this log has that
    /// entry, nothing changes; otherwise the log is reset.
    pub(crate) fn handle_install_base(&mut self, from: MemberId, base: LogBase, sent_at: Time) {
        let LogBase {
            last,
            seqno,
            config,
        } = &base;
        let sound = last.index > LogIndex(0)
            && last.index <= INDEX_MAX
            && *seqno <= SEQNO_MAX
            && last.term > Term(0)
            && last.term <= self.hard.term
            && config.index <= last.index
            && *seqno >= Seqno(0)
            && config.config.voters().next().is_some();
        if !sound {
            self.counters.malformed += 1;
            return;
        }
        if !self.heard_leader(from) {
            return;
        }
        let index = last.index;
        // Below the own base nothing is known of the entries.
        if index >= self.log.base().last.index && !self.log.holds(*last) {
            if index <= self.matched.max(self.commit) {
                // It contradicts what this very leader sent before, or what is committed: then it
                // is of another history, and to acknowledge it would be to claim its entries.
                self.counters.malformed += 1;
                return;
            }
            self.reset(base);
        }
        self.matched = self.matched.max(index);
        self.note_leader_commit(index);
        self.acknowledge(from, index, sent_at);
    }

    fn reset(&mut self, base: LogBase) {
        let index = base.last.index;
        assert!(
            index > self.commit,
            "base {index} would undo commit {}",
            self.commit
        );
        let ticket = self.write(WriteOp::Reset(base.clone()));
        self.durability.reset(ticket, index);
        self.log.reset(base);
        // There are no entries to deliver, so the reset is the only effect.
        self.commit = index;
        self.emit(Effect::Config(self.log.config().clone()));
    }
}

/// Whether an append agrees with itself: consecutive, terms ascending up to the leader's, seqnos
/// without gaps.
fn is_sound(append: &Append, leader_term: Term) -> bool {
    let mut before = append.prev;
    let mut seqno = None;
    if before.term > leader_term || append.prev.index > INDEX_MAX {
        return false;
    }
    for entry in &append.entries {
        let ordered = entry.kind.is_ordered();
        let sound = entry.index == before.index.next()
            && entry.term >= before.term
            && entry.term > Term(0)
            && entry.term <= leader_term
            && entry.seqno >= Seqno(i64::from(ordered))
            && entry.seqno <= SEQNO_MAX
            && (!ordered || entry.depends_on < entry.seqno)
            && seqno.is_none_or(|seqno| follows(seqno, entry));
        if !sound {
            return false;
        }
        (before, seqno) = (entry.id(), Some(entry.seqno));
    }
    true
}

/// Ordered entries advance the seqno by one, others do not.
fn follows(before: Seqno, entry: &EntryHeader) -> bool {
    entry.seqno
        == if entry.kind.is_ordered() {
            before.next()
        } else {
            before
        }
}

fn config_missing(entries: &[EntryHeader], configs: &[(LogIndex, Config)]) -> bool {
    let is_given = |entry: &EntryHeader| configs.iter().any(|(index, _)| *index == entry.index);
    entries
        .iter()
        .any(|entry| entry.kind == EntryKind::Config && !is_given(entry))
}
