//! Scenes: troubles of several steps, each at the worst moment for one rule of the protocol. Troubles drawn
//! one by one hardly ever come together like this; in production they need to only once.

use rand::Rng;
use synod_consensus::{Body, MemberId};
use synod_wire::PeerMessage;

use crate::trace::What;
use crate::world::messages::protocol;
use crate::world::peers::decode;
use crate::world::{Event, MS, World};

/// See each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// The leader dies. Of two candidates one has a slow disk, so that it asks for votes late. The other wins, and dies; everybody who voted for it restarts within milliseconds.
    SplitVote,
    /// A voter does not hear the leader until it wants to stand. Then nobody hears the leader, and
    /// everybody who does not stand restarts within milliseconds.
    CutOff,
    /// The leader stands still while answers to it are on their way, for so long that it is replaced.
    LateAnswers,
    /// Leadership goes to and fro.
    HandOvers,
    /// What the leader says arrives late, all of it, so that it is replaced while it goes on refusing.
    LateLeader,
    /// A member is away while so much is written that the others drop what it lacks from their logs.
    Away,
    /// All logs drop whatever they may, again and again.
    ShortLogs,
    /// A sync fails, and the power right after it.
    BadSync,
}

/// One step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SceneStep {
    /// The process ends, and starts again so much later.
    Restart { member: MemberId, down_us: u64 },
    /// Two members do not hear each other.
    Separate { a: MemberId, b: MemberId },
    /// Nobody hears this member, nor it anybody.
    Isolate { member: MemberId },
    /// The network works again, all of it.
    Heal,
    /// Stands still as soon as an answer is on its way to it, if that is before then.
    PauseBeforeAnswer {
        member: MemberId,
        pause_us: u64,
        before_us: u64,
    },
    /// Whoever leads hands over.
    HandOver,
    /// All logs drop whatever they may.
    PurgeLogs,
    /// Nobody writes for so long.
    Quiet { us: u64 },
    /// Its next sync fails.
    FailSync { member: MemberId },
    /// Its power fails.
    PowerCut { member: MemberId },
    /// What this member sends takes so much longer; back to normal at zero.
    Delay { member: MemberId, us: u64 },
}

/// Waits for the winner of an election.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LateCandidate {
    /// Asks for votes late, and is left alone.
    late: MemberId,
    until_us: u64,
}

impl World {
    /// Begins a scene, if this run has any; answers how long it takes.
    pub(crate) fn begin_scene(&mut self) -> Option<u64> {
        let scenes = self.options.scenes.clone();
        if scenes.is_empty() || !self.chance(0.8) {
            return None;
        }
        let (scene, leader) = (self.pick(&scenes)?, self.ready_leader()?);
        let config = self.core(leader).config().config.clone();
        let others: Vec<MemberId> = config
            .voters()
            .filter(|id| *id != leader && self.is_up(*id))
            .collect();
        if others.len() < 2 {
            return None;
        }
        self.coverage.count(scene.name());
        self.note(leader, What::Fault { name: scene.name() });
        Some(match scene {
            Scene::SplitVote => self.split_vote(leader, &others),
            Scene::CutOff => self.cut_off(leader, &others),
            Scene::LateAnswers => self.late_answers(leader),
            Scene::HandOvers => self.hand_overs(),
            Scene::LateLeader => self.late_leader(leader),
            Scene::Away => self.away(leader),
            Scene::ShortLogs => self.short_logs(),
            Scene::BadSync => self.bad_sync(&others),
        })
    }

    fn step_after(&mut self, after_us: u64, step: SceneStep) {
        self.schedule(after_us, Event::SceneStep(step));
    }

    // --- the scenes -------------------------------------------------------------------------

    fn split_vote(&mut self, leader: MemberId, others: &[MemberId]) -> u64 {
        let promise_us = self.options.timing.promise_us;
        let late = others[self.rng.random_range(0..others.len())];
        // Its vote for itself, and so its question, is late; its voters have kept their promises by then.
        self.node_mut(late).slow_disk = self.draw((3 * promise_us / 2, 2 * promise_us));
        let until_us = self.now_us + 4 * promise_us;
        self.late_candidate = Some(LateCandidate { late, until_us });
        let down_us = self.draw((0, MS));
        let member = leader;
        self.step_after(1, SceneStep::Restart { member, down_us });
        let length_us = 8 * promise_us;
        self.step_after(length_us, SceneStep::Heal);
        length_us + self.options.timing.election_timeout_max_us
    }

    /// Somebody has won an election while an ambush is laid: it dies, and so does what its voters have in mind.
    pub(crate) fn restart_early_winner(&mut self, winner: MemberId) {
        let Some(LateCandidate { late, until_us }) = self.late_candidate else {
            return;
        };
        if winner == late || self.now_us > until_us {
            return;
        }
        self.late_candidate = None;
        let down_us = 10 * self.options.timing.promise_us;
        let member = winner;
        self.step_after(1, SceneStep::Restart { member, down_us });
        for member in self.up() {
            if member != winner && member != late {
                let down_us = self.draw((0, MS));
                self.step_after(2, SceneStep::Restart { member, down_us });
            }
        }
    }

    fn cut_off(&mut self, leader: MemberId, others: &[MemberId]) -> u64 {
        let timing = self.options.timing.clone();
        let candidate = others[self.rng.random_range(0..others.len())];
        // Nobody writes, or the others would not vote for it: its log would be shorter than theirs.
        let quiet_us = 2 * timing.promise_us + timing.election_timeout_max_us;
        self.step_after(0, SceneStep::Quiet { us: quiet_us });
        let (a, b) = (leader, candidate);
        self.step_after(timing.promise_us, SceneStep::Separate { a, b });
        let until_us = timing.promise_us + timing.election_timeout_max_us;
        let then_us = self.draw((until_us, until_us + 2 * timing.heartbeat_us));
        self.step_after(then_us, SceneStep::Isolate { member: leader });
        for member in self.up() {
            if member != leader && member != candidate {
                let down_us = self.draw((0, MS));
                self.step_after(then_us, SceneStep::Restart { member, down_us });
            }
        }
        let length_us = then_us + 2 * timing.promise_us;
        self.step_after(length_us, SceneStep::Heal);
        length_us + timing.election_timeout_max_us
    }

    fn late_answers(&mut self, leader: MemberId) -> u64 {
        let timing = self.options.timing.clone();
        let longest_us = timing.election_timeout_max_us;
        let pause_us = self.draw((longest_us, 2 * longest_us));
        let before_us = self.now_us + 4 * timing.heartbeat_us;
        let member = leader;
        let step = SceneStep::PauseBeforeAnswer {
            member,
            pause_us,
            before_us,
        };
        self.step_after(0, step);
        pause_us + longest_us / 2
    }

    fn hand_overs(&mut self) -> u64 {
        let mut at_us = 0;
        for _ in 0..12 {
            at_us += self.draw((5 * MS, 50 * MS));
            self.step_after(at_us, SceneStep::HandOver);
        }
        at_us
    }

    fn late_leader(&mut self, leader: MemberId) -> u64 {
        let longest_us = self.options.timing.election_timeout_max_us;
        let us = self.draw((3 * longest_us / 5, 9 * longest_us / 10));
        let member = leader;
        self.step_after(0, SceneStep::Delay { member, us });
        self.step_after(2 * longest_us, SceneStep::Delay { member, us: 0 });
        3 * longest_us
    }

    fn away(&mut self, leader: MemberId) -> u64 {
        let timing = self.options.timing.clone();
        let with_data: Vec<MemberId> = self
            .up()
            .into_iter()
            .filter(|id| *id != leader && self.node(*id).has_data)
            .collect();
        let Some(member) = self.pick(&with_data) else {
            return 0;
        };
        // First it does not hear what becomes of its proposals, then they do not arrive either.
        let all: Vec<MemberId> = self.nodes.keys().copied().collect();
        for other in all.into_iter().filter(|other| *other != member) {
            self.net.block(other, member);
        }
        self.step_after(20 * MS, SceneStep::Isolate { member });
        self.step_after(2 * timing.promise_us, SceneStep::HandOver);
        // Back before it gives up its proposals.
        let length_us = self.draw((
            timing.election_timeout_min_us,
            2 * timing.election_timeout_min_us,
        ));
        self.step_after(length_us, SceneStep::Heal);
        length_us + timing.promise_us
    }

    fn short_logs(&mut self) -> u64 {
        let heartbeat_us = self.options.timing.heartbeat_us;
        for part in 0..20 {
            self.step_after(part * 3 * heartbeat_us, SceneStep::PurgeLogs);
            // Databases have come as far as logs, but not on their disks.
            let us = heartbeat_us;
            self.step_after(part * 3 * heartbeat_us, SceneStep::Quiet { us });
        }
        60 * heartbeat_us
    }

    fn bad_sync(&mut self, others: &[MemberId]) -> u64 {
        let member = others[self.rng.random_range(0..others.len())];
        self.step_after(0, SceneStep::FailSync { member });
        let longest_us = 2 * self.options.sync_us.1;
        let after_us = self.draw((0, longest_us));
        self.step_after(after_us, SceneStep::PowerCut { member });
        longest_us + self.options.timing.election_timeout_min_us
    }

    // --- the steps --------------------------------------------------------------------------

    /// The next step of a scene.
    pub(crate) fn make(&mut self, step: SceneStep) {
        if self.is_liveness_phase {
            return;
        }
        match step {
            SceneStep::Restart { member, down_us } => self.restart_after(member, down_us),
            SceneStep::Separate { a, b } => {
                self.net.block(a, b);
                self.net.block(b, a);
            }
            SceneStep::Isolate { member } => {
                let all: Vec<MemberId> = self.nodes.keys().copied().collect();
                for other in all.into_iter().filter(|other| *other != member) {
                    self.net.block(member, other);
                    self.net.block(other, member);
                }
            }
            SceneStep::Heal => {
                self.late_candidate = None;
                for id in self.up() {
                    self.node_mut(id).slow_disk = 0;
                }
                self.heal_network();
            }
            SceneStep::PauseBeforeAnswer {
                member,
                pause_us,
                before_us,
            } => self.stand_still(member, pause_us, before_us),
            SceneStep::HandOver => {
                if let Some(leader) = self.ready_leader() {
                    self.transfer_from(leader);
                }
            }
            SceneStep::PurgeLogs => {
                for node in self.nodes.values_mut() {
                    node.wall_ahead = true;
                }
            }
            SceneStep::FailSync { member } => {
                if self.is_up(member) {
                    self.fail_sync(member, 1);
                }
            }
            SceneStep::PowerCut { member } => self.power_cut(member),
            SceneStep::Quiet { us } => self.quiet_until_us = self.now_us + us,
            SceneStep::Delay { member, us } => self.net.delay(member, us),
        }
    }

    fn restart_after(&mut self, id: MemberId, down_us: u64) {
        if !self.is_up(id) {
            return;
        }
        self.note(id, What::Crashed);
        self.end_process(id);
        self.database_after_crash(id);
        let epoch = self.node(id).epoch;
        self.schedule(down_us, Event::Start { node: id, epoch });
    }

    fn stand_still(&mut self, member: MemberId, pause_us: u64, before_us: u64) {
        let is_answer = |message: &PeerMessage| {
            let body = protocol(message).map(|message| &message.body);
            matches!(
                body,
                Some(Body::HeartbeatReply { .. } | Body::AppendReply(_))
            )
        };
        let answered = self
            .frames_to(member)
            .filter_map(|frame| decode(frame).ok())
            .any(|message| is_answer(&message));
        if answered && self.is_up(member) {
            let until_us = self.now_us + pause_us;
            self.node_mut(member).paused_until_us = until_us;
            self.note(member, What::Paused { until_us });
        } else if self.now_us < before_us {
            let step = SceneStep::PauseBeforeAnswer {
                member,
                pause_us,
                before_us,
            };
            self.step_after(100, step);
        }
    }
}

impl Scene {
    fn name(self) -> &'static str {
        match self {
            Scene::SplitVote => "split vote",
            Scene::CutOff => "leader cut off",
            Scene::LateAnswers => "late answers",
            Scene::HandOvers => "leadership to and fro",
            Scene::LateLeader => "late leader",
            Scene::Away => "away for long",
            Scene::ShortLogs => "short logs",
            Scene::BadSync => "bad sync",
        }
    }
}
