//! Two histories: what a forced primary has not seen is lost for the group, and may be in this
//! member's log and database. A member's log shows which history its database follows. A database
//! whose log is gone, damaged or too short shows only how far it is. As long as a group has one
//! history, that is enough. Once a primary was forced in it, which its terms show for ever, the
//! action at that position may be another one here: only a full copy is sure.

use std::sync::atomic::Ordering;

use synod_consensus::{
    Append, Body, EntryHeader, EntryId, LogBase, LogIndex, MemberId, Message, Seqno, WriteOp,
};
use synod_planted::planted;

use super::Recovery;
use crate::consequence::Consequence;
use crate::driver::context::Context;
use crate::driver::leadership::has_action;
use crate::driver::membership::Membership;
use crate::host::{Level, Topic};

impl Recovery {
    /// At the start, before anything is written to the log: whether the log holds the position of
    /// the database.
    pub(in crate::driver) fn look_at_database(&mut self, ctx: &Context) {
        let seqno = ctx.identity.config.database.seqno;
        let is_held = ctx.links.reader.seek_database(seqno).is_ok();
        let is_unproven = seqno > Seqno(0) && !is_held;
        self.is_unproven = planted!(TrustDatabase, is_unproven, else false);
    }

    pub(in crate::driver) fn doubt_database(
        &mut self,
        ctx: &Context,
        membership: &Membership,
        leader: MemberId,
    ) {
        let may_differ = self.is_unproven
            && leader != ctx.identity.me.member
            && ctx.core.has_forced_history()
            && !membership.join.is_completed();
        if !may_differ {
            return;
        }
        self.is_unproven = false;
        ctx.links
            .shared
            .database_diverged
            .store(true, Ordering::Release);
        let text = format!(
            "the group was once ordered to continue without a majority, and this member's log does \
             not show that its database, at {}, is of the history that continued: the database has \
             to be copied again",
            ctx.identity.config.database.seqno
        );
        ctx.note(Topic::Membership, Level::Warning, text);
    }
}

/// Whether this message may be obeyed. A leader that was elected has all that is committed. A
/// forced primary that began while the majority lived may want committed entries replaced, or
/// begin its log after the place where the histories part.
pub(in crate::driver) fn may_obey(ctx: &mut Context, message: &Message) -> bool {
    let contradicted = match &message.body {
        Body::Append(append) => entry_contradicts(ctx, append),
        Body::InstallBase { base, .. } => contradicts(ctx, base.last).then_some(base.last.index),
        _ => None,
    };
    let is_current = message.term >= ctx.core.term();
    let Some(index) = contradicted.filter(|_| is_current) else {
        return true;
    };
    let kept = ctx.core.seqno_at(index.prev()).unwrap_or_default();
    let last = ctx.links.shared.commit_seqno();
    ctx.fail(&format!(
        "{} was ordered to continue without a majority, and without what is at {} to {last} \
         here, which is committed, too. There are two histories now. Compare them by hand if \
         that matters; then delete the data of the servers of one, and start those of the \
         other one again",
        ctx.name_of(message.from),
        kept.next(),
    ));
    false
}

/// Whether another entry is committed here at this index.
fn contradicts(ctx: &Context, id: EntryId) -> bool {
    let committed = ctx.core.base().last.index..=ctx.core.commit_index();
    committed.contains(&id.index) && ctx.core.term_at(id.index) != Some(id.term)
}

/// The first entry that an append names and that contradicts what is committed here. The one
/// before its entries is in the sender's log, too.
fn entry_contradicts(ctx: &Context, append: &Append) -> Option<LogIndex> {
    let entries = append.entries.iter().map(EntryHeader::id);
    let mut named = std::iter::once(append.prev).chain(entries);
    named
        .find(|id| contradicts(ctx, *id))
        .map(|other| other.index)
}

/// Whether this may be written to the log. Not if the log would lose the proof that the
/// database follows another history. Only a forced primary can ask for that: a leader that was
/// elected has all that is committed (Raft, section 5.4.3). So its followers truncate nothing
/// that was ever applied, and begin their logs again only after what they have applied.
pub(in crate::driver) fn may_write(
    ctx: &mut Context,
    membership: &Membership,
    op: &WriteOp,
) -> bool {
    match op {
        WriteOp::Truncate { from } => may_truncate(ctx, membership, *from),
        WriteOp::Reset(base) => may_reset(ctx, membership, base),
        WriteOp::Append(_) | WriteOp::Vote(_) => true,
    }
}

fn may_truncate(ctx: &mut Context, membership: &Membership, from: LogIndex) -> bool {
    let kept = ctx.core.seqno_at(from.prev());
    let kept = kept.or_else(|| {
        let entry = ctx.links.reader.summary(from.prev());
        entry.map(|entry| entry.seqno)
    });
    let applied = membership.database_seqno(ctx);
    let is_applied = kept.is_some_and(|kept| applied > kept);
    if !planted!(UndoApplied, is_applied, else false) {
        return true;
    }
    may_lose(
        ctx,
        membership,
        from,
        kept.unwrap_or_default().next(),
        applied,
    )
}

/// The core asks for a reset only if this log does not hold the base.
fn may_reset(ctx: &mut Context, membership: &Membership, base: &LogBase) -> bool {
    let applied = membership.database_seqno(ctx);
    let at = ctx.links.reader.seek_database(applied);
    let Some(at) = at.ok().filter(|at| *at > LogIndex(0)) else {
        // This log never had what the database has: it proves nothing.
        return true;
    };
    let is_other = base.last.index <= at || base.seqno < applied;
    if planted!(ForgetOtherHistory, is_other, else false) {
        let reader = &ctx.links.reader;
        let (first, seqno) = (reader.first_index(), reader.first_seqno_available());
        return may_lose(ctx, membership, first, seqno, applied);
    }
    if base.seqno == applied && !membership.join.is_completed() {
        // The next action may be of either history.
        ctx.log(
            Level::Info,
            format!(
                "the group's log begins at {applied}, where this member's database is, and \
                 nothing shows that both have the same past: the database has to be copied \
                 again"
            ),
        );
        ctx.links
            .shared
            .database_diverged
            .store(true, Ordering::Release);
    }
    true
}

/// The group has another history: what this log has from `index` on, and the database up to
/// `applied`, may be lost. True if nothing has to be compared, because there are only views.
fn may_lose(
    ctx: &mut Context,
    membership: &Membership,
    index: LogIndex,
    first: Seqno,
    applied: Seqno,
) -> bool {
    let entry = |index| ctx.links.reader.summary(index);
    if has_action(index, applied, entry) {
        stop_with_lost_actions(ctx, first, applied);
    } else if membership.join.is_completed() {
        let again = ctx.links.host.consequence(Consequence::TakesHistory);
        ctx.fail(&format!(
            "the group was ordered to continue without a majority, and without the views in \
             which this member was alone. Start it again: {again}"
        ));
    } else {
        let again = ctx.links.host.consequence(Consequence::TakesHistory);
        ctx.log(
            Level::Info,
            format!(
                "the group was ordered to continue without the views {first} to {applied} in \
                 which this member was alone: {again}"
            ),
        );
        let diverged = &ctx.links.shared.database_diverged;
        diverged.store(true, Ordering::Release);
        return true;
    }
    false
}

/// Whether the database fits a view that has this session for the first time. Each view comes
/// after all that was ever committed before it, unless a forced primary lost that.
pub(in crate::driver) fn may_join(ctx: &mut Context, membership: &Membership, view: Seqno) -> bool {
    let applied = membership.database_seqno(ctx);
    let fits = applied < view;
    if !fits {
        stop_with_lost_actions(ctx, view, applied);
    }
    fits
}

fn stop_with_lost_actions(ctx: &mut Context, first: Seqno, last: Seqno) {
    let place = ctx.links.host.consequence(Consequence::LostActionsPlace);
    let remedy = ctx.links.host.consequence(Consequence::LostActionsRemedy);
    ctx.fail(&format!(
        "the group was ordered to continue without a majority, or most of its logs have lost \
         their end: it continues without actions from {first} to {last} that are in this member's \
         {place}. If others stop with this line, too, keep all data: they may be the last copy. \
         Compare them by hand if they matter; then {remedy} and start it again"
    ));
}
