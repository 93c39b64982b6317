//! Leaving in good order: hand over leadership, get out of the voters, then go.

use std::time::Duration;

use synod_consensus::{ConfigChange, MemberId, Role, SessionId, Time};
use synod_wire::PeerMessage;

use super::{Driver, LeaveDone};
use crate::host::Level;

/// A leaver does not wait longer than this for the group: it may be the group that is going.
pub(super) const LEAVE_LIMIT: Duration = Duration::from_secs(4);

/// This member is on its way out.
pub(super) struct Leaving {
    done: LeaveDone,
    /// When it goes without the group's consent; never, if there is none.
    deadline: Option<Time>,
    /// As a leader it stays until then: others may be about to ask for leave, or on their way out with
    /// an answer that is not sent yet.
    stay_until: Time,
}

impl Driver {
    /// Begins to go. Somebody who has all the time does not take the place of somebody in a hurry;
    /// otherwise who comes last is told, and who came before at once.
    pub(super) fn begin_leave(&mut self, done: LeaveDone, limit: Option<Duration>) {
        if limit.is_none() && self.leaving.is_some() {
            return;
        }
        self.leaving = Some(Leaving {
            done,
            deadline: limit.map(|limit| self.now.plus(limit)),
            stay_until: self.now,
        });
        self.leave_tick();
    }

    /// A leaver does not go, nor hand leadership over, for a moment. If it has just come to lead, it was
    /// probably handed leadership by another leaver, which would get it back at once. If it has just
    /// let somebody go, the answer must get out.
    pub(super) fn stay_for_leavers(&mut self) {
        if let Some(leaving) = &mut self.leaving {
            leaving.stay_until = self.now.plus(self.tuning.slow_tick * 2);
        }
    }

    /// Asks again, or gives up.
    pub(super) fn leave_tick(&mut self) {
        let Some(leaving) = &self.leaving else { return };
        if leaving.deadline.is_some_and(|at| self.now >= at) {
            self.log(
                Level::Info,
                "leaving without the group's consent: it did not answer in time",
            );
            self.finish_leave();
            return;
        }
        let voters = &self.core.config().config;
        let others_vote = voters
            .members
            .iter()
            .any(|(id, member)| *id != self.me.member && member.role == Role::Voter);
        let stays = self.now < leaving.stay_until || !self.presence.leaving.is_empty();
        if self.core.is_leader() && stays {
            return;
        }
        if !others_vote {
            self.finish_leave();
        } else if self.core.is_leader() {
            // Refused while one is under way, or nobody is fit: asked again at the next tick.
            let _ = self.core.transfer_leadership(self.now(), None);
        } else if let Some(leader) = self.core.leader() {
            self.send(
                leader,
                PeerMessage::Leave {
                    session: self.me.session,
                },
            );
        }
    }

    /// The group has let this member go, or it goes without.
    pub(super) fn finish_leave(&mut self) {
        if let Some(leaving) = self.leaving.take() {
            (leaving.done.0)();
            // Stays "leaving" in effect: the caller stops this thread next.
            self.stopped = true;
        }
    }

    /// A member goes.
    pub(super) fn handle_leave(&mut self, from: MemberId, session: SessionId) {
        if !self.core.is_ready_leader() {
            return;
        }
        if self
            .presence
            .get(from)
            .is_some_and(|present| present.session != session)
        {
            // A late word of a former life: the member is back.
            return;
        }
        if self.presence.exit(from, session) {
            self.log(Level::Info, format!("{} leaves", self.name_of(from)));
            self.core.set_eligible(from, false);
            self.update_view();
        }
        let now = self.now();
        self.presence.leaving.entry(from).or_insert(now);
        self.continue_leaves();
    }

    /// Whether a majority of the voters without this one has answered since then. A configuration is in
    /// force when it is appended: without their majority it could never be committed, nor anything
    /// after it, and the leaver's return would not help. Then it had better go as if it had crashed.
    fn stands_without(&self, leaver: MemberId, since: Time) -> bool {
        let answered: Vec<MemberId> = self
            .core
            .progress()
            .filter(|progress| progress.last_heard.is_some_and(|at| at > since))
            .map(|progress| progress.member)
            .chain([self.me.member])
            .collect();
        let config = &self.core.config().config;
        let (here, gone): (Vec<MemberId>, Vec<MemberId>) = config
            .voters()
            .filter(|id| *id != leaver)
            .partition(|id| answered.contains(id));
        here.len() > gone.len()
    }

    /// Takes leavers out of the voters, one at a time, and lets those go that are out.
    pub(super) fn continue_leaves(&mut self) {
        for (member, asked) in self.presence.leaving.clone() {
            let config = self.core.config();
            let votes = config
                .config
                .members
                .get(&member)
                .is_some_and(|m| m.role == Role::Voter);
            if votes {
                if self.stands_without(member, asked) {
                    // Refused while another change is under way: the next tick tries again.
                    let _ = self
                        .core
                        .change_config(self.now(), ConfigChange::Demote(member));
                }
            } else if config.index <= self.core.commit_index() {
                self.presence.leaving.remove(&member);
                self.stay_for_leavers();
                self.send(member, PeerMessage::LeaveReply);
            }
        }
    }
}
