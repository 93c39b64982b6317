//! Applied everywhere: one component, [`CommitWaits`], answers up to which action every present
//! database that follows the group has applied what is ordered.
//!
//! A member whose clients wait for that ([`CommitWait::Applied`]) asks the others (decision 020),
//! again with each slow tick. So a commit costs one small message of each other member, and nothing
//! while no member asks.
//!
//! ```text
//! the asking member   others    positions of the other databases, and which are waited for
//! every member        askers    members that want to know, and their actions
//! ```
//!
//! A database that lacks an action of this member for the suspect timeout is excluded: it is not
//! waited for until it has what was committed by then, and keeps up again.

mod askers;
mod others;

use synod_consensus::{EntryHeader, EntryKind, MemberId, Seqno, SessionId};
use synod_wire::{AppliedPosition, PeerMessage};

use super::context::Context;
use super::flow_control::FlowControl;
use crate::host::{Level, Topic};
use crate::shared::lock;
use askers::Askers;
use others::{Others, Question};

/// State that the host waits for before it tells its client that an action is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitWait {
    /// A majority of the voters has it on disk.
    #[default]
    Durable,
    /// All present databases that follow the group have applied it, too.
    Applied,
}

const NO_WAIT: Seqno = Seqno(i64::MAX);

/// The component that knows where others' databases are, and who wants to know it of this one.
pub(super) struct CommitWaits {
    wanted: CommitWait,
    others: Others,
    askers: Askers,
    told: Seqno,
}

impl Default for CommitWaits {
    fn default() -> CommitWaits {
        CommitWaits {
            wanted: CommitWait::default(),
            others: Others::default(),
            askers: Askers::default(),
            told: NO_WAIT,
        }
    }
}

impl CommitWaits {
    pub(super) fn log_reset(&mut self) {
        self.others.forget();
        self.askers.forget_targets();
    }

    pub(super) fn excluded(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.others.excluded()
    }

    fn is_on(&self) -> bool {
        self.wanted == CommitWait::Applied
    }
}

impl CommitWaits {
    pub(super) fn set_commit_wait(&mut self, ctx: &Context, wanted: CommitWait) {
        self.wanted = wanted;
        if self.is_on() {
            ctx.log(
                Level::Info,
                "commits wait until all synced servers have applied them",
            );
        }
        self.everywhere_tick(ctx);
    }

    pub(super) fn everywhere_tick(&mut self, ctx: &Context) {
        self.askers.expire(ctx.turns.now);
        self.ask_for_positions(ctx);
        self.publish_everywhere(ctx);
    }

    /// Asks the others where they are. What they have said may be lost, or be too old.
    pub(super) fn ask_for_positions(&self, ctx: &Context) {
        if self.is_on() {
            let others = other_databases(ctx);
            others
                .iter()
                .for_each(|(member, _)| self.ask_for_position(ctx, *member));
        }
    }

    pub(super) fn ask_for_position(&self, ctx: &Context, member: MemberId) {
        let is_wanted = |(other, _): &(MemberId, SessionId)| *other == member;
        if self.is_on() && other_databases(ctx).iter().any(is_wanted) {
            let session = ctx.identity.me.session;
            ctx.send(member, PeerMessage::AppliedQuery { session });
        }
    }

    pub(super) fn position_told(
        &mut self,
        ctx: &Context,
        from: MemberId,
        position: AppliedPosition,
    ) {
        if self.is_on() {
            self.others.note(ctx.turns.now, from, position);
            self.publish_everywhere(ctx);
        }
    }

    pub(super) fn publish_everywhere(&mut self, ctx: &Context) {
        let is_on = self.is_on() && ctx.links.shared.is_primary();
        let everywhere = if is_on {
            self.look_everywhere(ctx)
        } else {
            NO_WAIT
        };
        if self.told != everywhere {
            self.told = everywhere;
            ctx.links.host.applied_everywhere(everywhere);
        }
    }

    fn look_everywhere(&mut self, ctx: &Context) -> Seqno {
        let patience = ctx.identity.config.suspect;
        let (everywhere, excluded) = self.others.everywhere(Question {
            now: ctx.turns.now,
            present: other_databases(ctx).into_iter(),
            patience,
            committed: ctx.links.shared.commit_seqno(),
        });
        for member in excluded {
            let text = format!(
                "commits do not wait for {} any more: it has lacked one for {patience:?}. They \
                 will again when it has caught up",
                ctx.name_of(member)
            );
            ctx.note(Topic::Pace, Level::Warning, text);
        }
        everywhere
    }

    pub(super) fn publish_commit_wait(&self, ctx: &Context) {
        let excluded = self.excluded();
        let excluded: Vec<String> = excluded.map(|member| ctx.name_of(member)).collect();
        let mut status = lock(&ctx.links.shared.status);
        let shown = &mut status.commit_wait;
        shown.in_force = self.wanted;
        shown.excluded = excluded;
        shown.exclusions = self.others.exclusions();
    }

    pub(super) fn handle_applied_query(
        &mut self,
        ctx: &Context,
        flow_control: &FlowControl,
        from: MemberId,
        session: SessionId,
    ) {
        self.askers.ask(ctx.turns.now, from, session);
        send_position(ctx, flow_control, from);
    }

    /// An entry is committed: an asker, or this member's own host, may wait for it.
    pub(super) fn awaited_committed(&mut self, ctx: &Context, header: &EntryHeader) {
        if header.kind != EntryKind::Action {
            return;
        }
        let (now, seqno, is_own) = (ctx.turns.now, header.seqno, ctx.is_own_action(header));
        self.askers.committed(seqno, &header.origin);
        if self.is_on() && is_own {
            self.others.own_committed(now, seqno, self.told);
        }
    }

    /// Tells the askers whose actions are finished here. The host will wake the driver
    /// ([`crate::Event::Applied`]) when the first of the others is.
    pub(super) fn tell_askers(&mut self, ctx: &Context, flow_control: &FlowControl) {
        while let Some(target) = self.askers.next_target() {
            // Before the position is read: the host must not get past it unnoticed.
            ctx.links.shared.call_when_applied(target);
            let applied = ctx.links.shared.applied();
            if applied < target {
                return;
            }
            for member in self.askers.reached(applied) {
                send_position(ctx, flow_control, member);
            }
        }
    }

    pub(super) fn tell_all_askers(&self, ctx: &Context, flow_control: &FlowControl) {
        let askers: Vec<MemberId> = self.askers.members().collect();
        for member in askers {
            send_position(ctx, flow_control, member);
        }
    }
}

fn other_databases(ctx: &Context) -> Vec<(MemberId, SessionId)> {
    let me = ctx.identity.me.member;
    let view = ctx.views.committed();
    let others = view.members.iter().filter(|present| present.member != me);
    others.map(|p| (p.member, p.session)).collect()
}

fn send_position(ctx: &Context, flow_control: &FlowControl, member: MemberId) {
    let position = flow_control.applied_position(ctx);
    ctx.send(member, PeerMessage::AppliedPosition(position));
}
