//! Scenes: faults of several steps, each at the worst moment for one rule of the protocol.
//!
//! Faults that are drawn one by one hardly ever combine like this. In production, once is enough.
//! A profile (`profile.rs`) gives a seed its scenes, and options under which they matter.

use rand::Rng;
use synod_consensus::{Body, MemberId};
use synod_wire::PeerMessage;

use crate::expected::SCENE;
use crate::trace::What;
use crate::world::messages::protocol;
use crate::world::peers::decode;
use crate::world::{Event, MS, World};

/// A fault of several steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// The leader dies. One of two candidates has a slow disk, so that it asks for votes late. The
    /// other candidate wins and dies, and its voters restart within milliseconds.
    SplitVote,
    /// A voter hears nothing of the leader until it becomes a candidate. Then no member hears the
    /// leader, and all members but the candidate restart within milliseconds.
    IsolatedLeader,
    /// The leader pauses while answers to it are under way, until it is replaced.
    LateAnswers,
    /// Leadership moves every few milliseconds.
    LeaderTransfers,
    /// All messages of the leader arrive late, so that it is replaced while it still refuses
    /// proposals.
    LateLeader,
    /// A member is unreachable while so much is written that the others purge what it lacks.
    LongAbsence,
    /// All logs purge as much as they may, again and again.
    ShortLogs,
    /// A sync fails, and right after it the power.
    FailedSync,
}

/// One step of a scene.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SceneStep {
    /// The process ends, and starts again after `down_us`.
    Restart { member: MemberId, down_us: u64 },
    /// Two members cannot send to each other.
    Separate { a: MemberId, b: MemberId },
    /// No other member can exchange messages with this one.
    Isolate { member: MemberId },
    /// All of the network works again.
    Heal,
    /// The member pauses for `pause_us` as soon as an answer is under way to it. Without an answer
    /// before `before_us` (world time), nothing happens.
    PauseBeforeAnswer {
        member: MemberId,
        pause_us: u64,
        before_us: u64,
    },
    /// The leader gets the order to hand leadership over.
    TransferLeadership,
    /// All logs purge as much as they may.
    PurgeLogs,
    /// Clients only read for `us`.
    Quiet { us: u64 },
    /// The next sync of this member fails.
    FailSync { member: MemberId },
    /// The power of this member fails.
    PowerCut { member: MemberId },
    /// Messages of this member take `us` longer from now on; zero is normal.
    Delay { member: MemberId, us: u64 },
}

/// A candidate that asks for votes late; the scene waits for another one to win.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LateCandidate {
    /// The late candidate, which the scene does not restart.
    member: MemberId,
    /// The end of the scene, in world time.
    until_us: u64,
}

impl World {
    /// Begins a scene if this run has any. Returns its length in microseconds.
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
        self.coverage.count_kind(SCENE, scene.name());
        self.note(leader, What::Fault { name: scene.name() });
        Some(match scene {
            Scene::SplitVote => self.split_vote(leader, &others),
            Scene::IsolatedLeader => self.isolated_leader(leader, &others),
            Scene::LateAnswers => self.late_answers(leader),
            Scene::LeaderTransfers => self.leader_transfers(),
            Scene::LateLeader => self.late_leader(leader),
            Scene::LongAbsence => self.long_absence(leader),
            Scene::ShortLogs => self.short_logs(),
            Scene::FailedSync => self.failed_sync(&others),
        })
    }

    fn step_after(&mut self, after_us: u64, step: SceneStep) {
        self.schedule(after_us, Event::SceneStep(step));
    }

    // --- the scenes -------------------------------------------------------------------------

    fn split_vote(&mut self, leader: MemberId, others: &[MemberId]) -> u64 {
        let promise_us = self.options.timing.promise_us;
        let late = others[self.rng.random_range(0..others.len())];
        // Its vote for itself is durable late, so its request is late. Promises have ended by then.
        self.node_mut(late).slow_disk = self.draw((3 * promise_us / 2, 2 * promise_us));
        let until_us = self.now_us + 4 * promise_us;
        self.late_candidate = Some(LateCandidate {
            member: late,
            until_us,
        });
        let down_us = self.draw((0, MS));
        let member = leader;
        self.step_after(1, SceneStep::Restart { member, down_us });
        let length_us = 8 * promise_us;
        self.step_after(length_us, SceneStep::Heal);
        length_us + self.options.timing.election_timeout_max_us
    }

    /// A member has won an election while a late candidate is about to ask: the winner dies, and
    /// its voters restart and lose what they had in memory.
    pub(crate) fn restart_early_winner(&mut self, winner: MemberId) {
        let Some(LateCandidate {
            member: late,
            until_us,
        }) = self.late_candidate
        else {
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

    fn isolated_leader(&mut self, leader: MemberId, others: &[MemberId]) -> u64 {
        let timing = self.options.timing.clone();
        let candidate = others[self.rng.random_range(0..others.len())];
        // No client writes. Otherwise the candidate's log would be too short to get votes.
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

    fn leader_transfers(&mut self) -> u64 {
        let mut at_us = 0;
        for _ in 0..12 {
            at_us += self.draw((5 * MS, 50 * MS));
            self.step_after(at_us, SceneStep::TransferLeadership);
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

    fn long_absence(&mut self, leader: MemberId) -> u64 {
        let timing = self.options.timing.clone();
        let with_data: Vec<MemberId> = self
            .up()
            .into_iter()
            .filter(|id| *id != leader && self.node(*id).has_data)
            .collect();
        let Some(member) = self.pick(&with_data) else {
            return 0;
        };
        // First the member hears no results of its proposals; then the proposals do not arrive.
        let all: Vec<MemberId> = self.nodes.keys().copied().collect();
        for other in all.into_iter().filter(|other| *other != member) {
            self.net.block(other, member);
        }
        self.step_after(20 * MS, SceneStep::Isolate { member });
        self.step_after(2 * timing.promise_us, SceneStep::TransferLeadership);
        // The member is back before it gives up its proposals.
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
            // Databases have applied everything, but not flushed it.
            let us = heartbeat_us;
            self.step_after(part * 3 * heartbeat_us, SceneStep::Quiet { us });
        }
        60 * heartbeat_us
    }

    fn failed_sync(&mut self, others: &[MemberId]) -> u64 {
        let member = others[self.rng.random_range(0..others.len())];
        self.step_after(0, SceneStep::FailSync { member });
        let longest_us = 2 * self.options.sync_us.1;
        let after_us = self.draw((0, longest_us));
        self.step_after(after_us, SceneStep::PowerCut { member });
        longest_us + self.options.timing.election_timeout_min_us
    }

    // --- the steps --------------------------------------------------------------------------

    /// Performs the next step of a scene.
    pub(crate) fn perform_step(&mut self, step: SceneStep) {
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
            } => self.pause_before_answer(member, pause_us, before_us),
            SceneStep::TransferLeadership => {
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

    fn pause_before_answer(&mut self, member: MemberId, pause_us: u64, before_us: u64) {
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
            self.pause_until(member, self.now_us + pause_us);
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
    pub(crate) const ALL: [Scene; 8] = [
        Scene::SplitVote,
        Scene::IsolatedLeader,
        Scene::LateAnswers,
        Scene::LeaderTransfers,
        Scene::LateLeader,
        Scene::LongAbsence,
        Scene::ShortLogs,
        Scene::FailedSync,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Scene::SplitVote => "split vote",
            Scene::IsolatedLeader => "leader cut off",
            Scene::LateAnswers => "late answers",
            Scene::LeaderTransfers => "leadership to and fro",
            Scene::LateLeader => "late leader",
            Scene::LongAbsence => "away for long",
            Scene::ShortLogs => "short logs",
            Scene::FailedSync => "bad sync",
        }
    }
}
