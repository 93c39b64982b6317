//! Foresight of the leader's verdict on a proposal, by its origin, from the origin's own log.
//!
//! Every member feeds its log to its certification, so an origin often has the very action that its
//! proposal will lose to. It then refuses the proposal itself, before it is sent: the client gets
//! its answer a round trip earlier, and neither the leader nor the network is kept busy.
//!
//! Invariant: only what the leader would refuse with the same log is foreseen. So these stay the
//! leader's to judge: a snapshot older than the window, since the windows of members differ; an
//! action whose keys are unknown here, since the leader may know them; and a part of an action
//! whose other parts are not in this log yet.

use bytes::Bytes;
use synod_certify::Verdict;
use synod_consensus::{EntryKind, Origin, Seqno};

use super::CertificationState;
use crate::payload::action::{ActionPiece, Chunk};
use crate::payload::discard::PartialActionId;

impl CertificationState {
    /// The action for which the leader would refuse this proposal of a client of this member, if
    /// that is certain. `leader_has`: up to here this log is a part of the leader's.
    pub(crate) fn foreseen_conflict(
        &self,
        origin: &Origin,
        kind: EntryKind,
        payload: &Bytes,
        leader_has: Seqno,
    ) -> Option<Seqno> {
        let with = match kind {
            EntryKind::Action => self.conflict_of_action(origin, payload, leader_has),
            EntryKind::Chunk => self.conflict_of_chunk(origin, payload),
            EntryKind::NoOp
            | EntryKind::Config
            | EntryKind::View
            | EntryKind::Discard
            | EntryKind::Decision => None,
        };
        with.filter(|with| *with <= leader_has)
    }

    fn conflict_of_action(
        &self,
        origin: &Origin,
        payload: &Bytes,
        leader_has: Seqno,
    ) -> Option<Seqno> {
        let piece = ActionPiece::decode(payload.clone()).ok()?;
        let seen = Seqno(piece.last_seen);
        // Mostly there is nothing after the snapshot: then no key is looked at.
        if seen >= leader_has.min(self.last_seqno) || !self.knows_all_after(seen) {
            return None;
        }
        match self.certify_piece(origin, &piece) {
            Ok(Verdict::Conflict { with }) => Some(Seqno(with)),
            Ok(Verdict::Pass { .. } | Verdict::TooOld { .. }) | Err(_) => None,
        }
    }

    /// Conflict of a chunk, by the leader's check of chunks: the snapshot is known only when the
    /// action ends, but the action has not seen what was ordered after its first chunk.
    fn conflict_of_chunk(&self, origin: &Origin, payload: &Bytes) -> Option<Seqno> {
        let chunk = Chunk::decode(payload.clone()).ok()?;
        let id = PartialActionId::of(origin, chunk.action_no);
        let open = self.open_keys.get(&id)?;
        let seen = self.partial_actions.preceding(&id)?;
        let with = self.certifier.doomed(open, seen.0).map(Seqno)?;
        self.knows_all_after(seen).then_some(with)
    }

    /// Whether the keys of every action after `seen` are known.
    fn knows_all_after(&self, seen: Seqno) -> bool {
        self.last_vague <= seen
    }
}
