//! An origin that refuses a transaction itself: does the leader have what that has lost to?

use synod_consensus::{EntryHeader, EntryId, MemberId, Seqno};

use crate::invariants::early_refusal::{Refused, Winner};
use crate::world::World;

impl World {
    /// A member has refused a transaction of its own client because of the action at `with`.
    pub(crate) fn check_refused_early(&mut self, id: MemberId, transaction: u64, with: Seqno) {
        self.coverage.count("refused by the origin");
        let Some(known) = self.transactions.get(&transaction) else {
            return;
        };
        let is_large = known.is_large;
        let refused = Refused {
            transaction,
            origin: (known.member, known.session),
            locks_epoch: known.locks_epoch,
            last_seen: known.snapshot.seqno(),
            keys: known.keys.clone(),
        };
        self.coverage
            .count_if(is_large, "large action refused by the origin");
        let winner = self.action_known_to(id, with).map(|(header, payload)| {
            let is_committed = self.checks.committed.get(header.index) == Some(&header);
            self.coverage.count_if(
                !is_committed,
                "refused by the origin for an uncommitted action",
            );
            Winner {
                header,
                payload,
                is_of_leader: is_committed || self.leader_has(id, header.id()),
            }
        });
        let checked = refused.check(with, winner.as_ref());
        self.judge(checked);
    }

    /// The action at a seqno, if a member's log has it, or had it and was purged since: the window
    /// of certification may reach further back than the log.
    fn action_known_to(&self, id: MemberId, seqno: Seqno) -> Option<(EntryHeader, bytes::Bytes)> {
        if seqno <= self.core(id).base().seqno {
            // What is purged is committed.
            let header = self.checks.committed.action(seqno)?;
            return self.checks.payloads.get(header.id());
        }
        let ids = self.node(id).disk.written.ids().rev();
        let mut entries = ids.filter_map(|(entry, _)| self.checks.payloads.get(entry));
        entries.find(|(header, _)| header.seqno == seqno && header.kind.is_ordered())
    }

    /// Whether the leader of a member's term has this entry, or no longer leads that term.
    fn leader_has(&self, id: MemberId, entry: EntryId) -> bool {
        let term = self.core(id).term();
        let Some(leader) = self.checks.election.leader_of(term) else {
            return false;
        };
        // A crash may have taken it: followers have entries before their leader's disk has.
        let core = self.is_up(leader).then(|| self.core(leader));
        let leads = core.is_some_and(|core| core.is_leader() && core.term() == term);
        !leads || self.node(leader).disk.written.has(entry)
    }
}
