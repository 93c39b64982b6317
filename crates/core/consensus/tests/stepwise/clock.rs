//! Time in a script: no timer fires by itself.

use synod_consensus::{MemberId, RoleName};

use super::show;
use super::world::{Done, World};
use crate::harness::Seen;

/// A group that is still busy after so many steps will never be quiet.
const STEPS_MAX: usize = 10_000;
/// A member's own timers all fire within this many steps.
const TIMEOUTS_MAX: usize = 20;

impl World {
    /// Time passes for all members, but only this one's timers fire.
    pub(super) fn campaign(&mut self, node: MemberId) -> Done {
        self.up(node)?;
        if self.sim.core(node).is_leader() {
            return Err(format!("{} leads", show::member(node)));
        }
        let before = (self.sim.core(node).term(), self.sim.core(node).role());
        for _ in 0..TIMEOUTS_MAX {
            let Some(at) = self.sim.node(node).tick_at else {
                break;
            };
            self.sim.now = self.sim.now.max(at);
            self.sim.with(node, |core, now| core.handle_tick(now));
            let core = self.sim.core(node);
            if core.role() != RoleName::Follower && self.asked(node) {
                return Ok(());
            }
        }
        let core = self.sim.core(node);
        if (core.term(), core.role()) == before {
            self.output
                .push(format!("{} is no candidate", show::member(node)));
        }
        Ok(())
    }

    /// Two candidacies suffice: the first may only raise the term.
    pub(super) fn lead(&mut self, node: MemberId) -> Done {
        for _ in 0..2 {
            self.campaign(node)?;
            self.deliver_all(false)?;
            if self.sim.core(node).is_ready_leader() {
                let (term, commit) = (
                    self.sim.core(node).term(),
                    self.sim.core(node).commit_index(),
                );
                let name = show::member(node);
                self.output = vec![format!("{name} leads term {term}, commit {commit}")];
                return Ok(());
            }
        }
        Err(format!("{} does not win", show::member(node)))
    }

    /// Whether it has asked for votes since the last output, or needed no others.
    fn asked(&self, node: MemberId) -> bool {
        let seen = self.sim.seen.as_deref().unwrap_or_default();
        self.sim.core(node).is_leader()
            || seen.iter().any(|seen| match seen {
                Seen::Sent { event, .. } => matches!(
                    show::route(event),
                    Some((from, _, "pre-vote" | "vote")) if from == node
                ),
                Seen::Effect(..) | Seen::ProposalDedup(..) | Seen::Resolved { .. } => false,
            })
    }

    pub(super) fn run(&mut self, us: u64) -> Done {
        let end = self.sim.now + us;
        for _ in 0..STEPS_MAX {
            self.deliver_all(false)?;
            let ticks = self.sim.nodes.iter();
            let tick = ticks
                .filter_map(|(id, node)| Some((node.tick_at?, *id)))
                .min();
            let later = self.deliverable().filter(|(at, _)| *at > self.sim.now);
            let later = later.map(|(at, _)| at).min();
            let at = tick.map(|(at, _)| at).into_iter().chain(later).min();
            let Some(at) = at.filter(|at| *at <= end) else {
                self.sim.now = end;
                return Ok(());
            };
            self.sim.now = self.sim.now.max(at);
            if let Some((_, node)) = tick.filter(|(due, _)| *due <= at) {
                self.sim.with(node, |core, now| core.handle_tick(now));
            }
        }
        Err(format!("more than {STEPS_MAX} steps"))
    }
}
