//! A member whose log was damaged answers for what it has lost (decision 005).
//!
//! Until it has the lost entries again, it does not stand, and votes only for members that have
//! them. What it keeps is a prefix of what was written.

use std::collections::BTreeMap;

use synod_consensus::{Body, EntryId, LogIndex, MemberId, Message, Term};
use synod_log::{LogReader, Opened};

use super::log_matching::LogMatching;
use super::payloads::Payloads;
use super::{Checked, require};
use crate::member::disk_model::{DiskModel, LogImage, RecoveredLog};

/// The last entry of each candidate's log, as its requests for votes state it.
#[derive(Default)]
pub(crate) struct Repairs {
    asked: BTreeMap<(MemberId, Term), EntryId>,
}

impl Repairs {
    /// A message is about to leave a member; `unrepaired_mark` is the last entry that it has lost.
    pub(crate) fn may_leave(
        &mut self,
        message: &Message,
        unrepaired_mark: Option<EntryId>,
    ) -> Checked {
        match &message.body {
            Body::Vote { last, .. } | Body::PreVote { last } => {
                let asked = self.asked.entry((message.from, message.term));
                let asked = asked.or_default();
                *asked = (*asked).max(*last);
                require(
                    unrepaired_mark.is_none(),
                    "no candidacy under repair",
                    || format!("{message:?} leaves a member that lacks up to {unrepaired_mark:?}"),
                )
            }
            Body::VoteReply { granted: true } | Body::PreVoteReply { granted: true } => {
                let candidate = self.asked.get(&(message.to, message.term)).copied();
                let reaches = unrepaired_mark.is_none() || candidate >= unrepaired_mark;
                require(reaches, "no vote against what was lost", || {
                    format!("{message:?} leaves for {candidate:?}, lost is {unrepaired_mark:?}")
                })
            }
            _ => Ok(()),
        }
    }
}

/// A log was opened after bytes had changed on its disk. Nothing that a floor covers may be
/// forgotten; with `all`, nothing that was durable.
pub(crate) fn after_damage(
    member: MemberId,
    disk: &DiskModel,
    found: &RecoveredLog,
    all: bool,
) -> Checked {
    let answered = disk.accounts_for(found, !all);
    require(answered, "damage is never cut", || {
        let (floor, durable) = (disk.floor.last(), disk.durable.last());
        format!(
            "{member} comes back damaged with {} and {:?}, under repair until {:?}; on its disk \
             were {durable}, {floor} below a floor, {:?}",
            found.image.last(),
            found.image.vote,
            found.mark,
            disk.durable.vote
        )
    })
}

/// A log holds what was written: each entry unchanged, after its predecessor.
pub(crate) fn kept_is_genuine(
    member: MemberId,
    opened: &Opened,
    found: &LogImage,
    matching: &LogMatching,
    payloads: &Payloads,
) -> Checked {
    let strange = found.ids().find(|(id, before)| !matching.has(*id, *before));
    require(strange.is_none(), "a log keeps what was written", || {
        format!("{member} comes back with {strange:?}, which no member wrote in this order")
    })?;
    let reader = &opened.reader;
    let changed = first_changed(reader, payloads);
    require(changed.is_none(), "a log keeps what was written", || {
        format!("{member} comes back with another content of {changed:?}")
    })
}

fn first_changed(reader: &LogReader, payloads: &Payloads) -> Option<EntryId> {
    let (first, last) = (reader.first_index(), reader.last_index());
    let mut next = first;
    while next <= last {
        let entries = reader.read(next, LogIndex(u64::MAX), 1 << 20);
        let entries = entries.unwrap_or_default();
        let Some(end) = entries.last() else {
            // The log was just opened, but its entry cannot be read.
            return Some(EntryId::new(Term(0), next));
        };
        next = end.header.index.next();
        let genuine = |entry: &&synod_log::Entry| payloads.is_known(entry);
        if let Some(entry) = entries.iter().find(|entry| !genuine(entry)) {
            return Some(entry.header.id());
        }
    }
    None
}

/// A repair is complete: the log has the lost entries that are committed. `committed` returns the
/// committed entry at an index.
pub(crate) fn is_whole(
    member: MemberId,
    disk: &DiskModel,
    committed: impl Fn(LogIndex) -> Option<EntryId>,
) -> Checked {
    let unrepaired_mark = disk.unrepaired_mark();
    require(
        unrepaired_mark.is_none(),
        "a repair ends at its mark",
        || {
            let has = disk.durable.last();
            format!("{member} is done with its repair at {has}, but lost {unrepaired_mark:?}")
        },
    )?;
    for image in disk
        .unrepaired
        .iter()
        .flat_map(|unrepaired| &unrepaired.images)
    {
        let lost = image.ids().map(|(id, _)| id);
        let lost = lost.filter(|id| committed(id.index) == Some(*id)).last();
        let has = lost.is_none_or(|id| disk.durable.has(id));
        require(has, "a repaired log has what it lost", || {
            format!("{member} is done with its repair and lacks the committed {lost:?}")
        })?;
    }
    Ok(())
}
