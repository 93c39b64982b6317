//! ReadIndex: the group's position, for reads that must not be stale.
//!
//! Source: Ongaro's dissertation, section 6.4 (steps 1 to 4: a leader that has committed in its
//! term notes its commit index and has its leadership confirmed by a quorum). Confirmation is by
//! numbered rounds that every heartbeat carries. A reply to round r confirms all rounds up to r, so
//! the next regular heartbeat makes up for a lost message. There are no leases (section 6.4.1):
//! where a leader's clock stands still, as in a paused virtual machine, a lease makes reads stale.
//!
//! Members other than the leader ask the leader. All reads that wait at a member share one
//! question.

use std::collections::VecDeque;

use rand::Rng;
use rand::rngs::SmallRng;
use synod_planted::Bug;

use crate::core::Core;
use crate::effect::Effect;
use crate::message::Body;
use crate::types::{LogIndex, MemberId, Seqno, Time};

/// Most questions of other members that wait at the leader. Members ask further ones again.
const REMOTE_READS_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    /// This member's driver, with the caller's id.
    Local(u64),
    /// Another member, with its number for the question.
    Remote(MemberId, u64),
}

#[derive(Clone, Copy, Debug)]
struct PendingRead {
    asker: Asker,
    index: LogIndex,
    seqno: Seqno,
    round: u64,
}

#[derive(Debug, Default)]
pub(crate) struct LeaderReads {
    /// Latest round started; heartbeats carry it. Zero: none.
    round: u64,
    confirmed: u64,
    pending: VecDeque<PendingRead>,
    early: Vec<Asker>,
}

impl LeaderReads {
    pub(crate) fn round(&self) -> u64 {
        self.round
    }

    pub(crate) fn forget_member(&mut self, member: MemberId) {
        let keep = |asker: &Asker| !matches!(asker, Asker::Remote(id, _) if *id == member);
        self.early.retain(keep);
        self.pending.retain(|read| keep(&read.asker));
    }

    fn cancel(&mut self, id: u64) {
        let keep = |asker: &Asker| *asker != Asker::Local(id);
        self.early.retain(keep);
        self.pending.retain(|read| keep(&read.asker));
    }

    fn len(&self) -> usize {
        self.early.len() + self.pending.len()
    }
}

#[derive(Debug, Default)]
pub(crate) struct FollowerReads {
    /// Reads that no question covers yet.
    waiting: Vec<u64>,
    asked: Option<Question>,
    /// Number of the latest question. Starts at random, so that an answer to a question of an
    /// earlier process of this member is not taken for an answer to this one's.
    last_question: u64,
}

#[derive(Debug)]
struct Question {
    number: u64,
    ids: Vec<u64>,
    at: Time,
}

impl FollowerReads {
    pub(crate) fn seed(&mut self, rng: &mut SmallRng) {
        self.last_question = u64::from(rng.random::<u32>()) << 31;
    }
}

impl Core {
    /// Asks for the group's position. An [`Effect::ReadReady`] with this id will name one at or
    /// after everything acknowledged before now. Without a leader the read waits until there is
    /// one.
    pub fn read(&mut self, now: Time, id: u64) {
        self.observe(now);
        if synod_planted::is(Bug::LocalRead) {
            let index = self.commit;
            let header = self.log.header(index);
            let seqno = header.map_or(self.log.base().seqno, |header| header.seqno);
            self.emit(Effect::ReadReady { id, index, seqno });
        } else if self.is_leader() {
            self.leader_read(Asker::Local(id));
        } else {
            self.reads.waiting.push(id);
            self.ask();
        }
    }

    pub fn cancel_read(&mut self, id: u64) {
        self.reads.waiting.retain(|waiting| *waiting != id);
        if let Some(asked) = &mut self.reads.asked {
            asked.ids.retain(|waiting| *waiting != id);
        }
        if let Some(leading) = self.leading_mut() {
            leading.reads.cancel(id);
        }
    }

    // --- at the leader ----------------------------------------------------------------------

    /// Another member asks. A member that does not lead gives no answer, and the other asks again.
    pub(crate) fn handle_read(&mut self, from: MemberId, id: u64) {
        let waiting = self
            .leading()
            .map_or(usize::MAX, |leading| leading.reads.len());
        if waiting < REMOTE_READS_MAX {
            self.leader_read(Asker::Remote(from, id));
        }
    }

    fn leader_read(&mut self, asker: Asker) {
        if !self.is_ready_leader() {
            // The commit index may be below what earlier leaders acknowledged (6.4, step 1).
            if let Some(leading) = self.leading_mut() {
                leading.reads.early.push(asker);
            }
            return;
        }
        let index = self.commit;
        let seqno = self
            .log
            .seqno_at(index)
            .expect("the header at the commit index is kept");
        if synod_planted::is(Bug::UnconfirmedRead) {
            return self.answer_read(asker, index, seqno);
        }
        let Some(leading) = self.leading_mut() else {
            return;
        };
        let reads = &mut leading.reads;
        // A round that has begun does not confirm this read: wait for the next one.
        let round = reads.round + 1;
        reads.pending.push_back(PendingRead {
            asker,
            index,
            seqno,
            round,
        });
        self.start_read_round();
    }

    fn start_read_round(&mut self) {
        let Some(leading) = self.leading_mut() else {
            return;
        };
        let reads = &mut leading.reads;
        let wanted = reads
            .pending
            .back()
            .is_some_and(|read| read.round > reads.round);
        if wanted && reads.confirmed == reads.round {
            reads.round += 1;
            self.send_heartbeats();
            self.answer_confirmed_reads();
        }
    }

    /// The first commit of the term: starts the reads that waited for it.
    pub(crate) fn start_waiting_reads(&mut self) {
        if !self.is_ready_leader() {
            return;
        }
        let Some(leading) = self.leading_mut() else {
            return;
        };
        for asker in std::mem::take(&mut leading.reads.early) {
            self.leader_read(asker);
        }
    }

    pub(crate) fn answer_confirmed_reads(&mut self) {
        let Some(leading) = self.leading() else {
            return;
        };
        let (config, round) = (&self.log.config().config, leading.reads.round);
        let confirmed = leading.quorum(self.id, config, round, |peer| peer.read_round);
        let Some(leading) = self.leading_mut() else {
            return;
        };
        let reads = &mut leading.reads;
        reads.confirmed = reads.confirmed.max(confirmed);
        let confirmed = reads.confirmed;
        let split = reads
            .pending
            .partition_point(|read| read.round <= confirmed);
        let answered: Vec<PendingRead> = reads.pending.drain(..split).collect();
        for PendingRead {
            asker,
            index,
            seqno,
            ..
        } in answered
        {
            self.answer_read(asker, index, seqno);
        }
        self.start_read_round();
    }

    fn answer_read(&mut self, asker: Asker, index: LogIndex, seqno: Seqno) {
        match asker {
            Asker::Local(id) => self.emit(Effect::ReadReady { id, index, seqno }),
            Asker::Remote(to, id) => self.send(to, Body::ReadReply { id, index, seqno }),
        }
    }

    /// This member leads now: starts its own reads that have no answer.
    pub(crate) fn adopt_reads(&mut self) {
        for id in self.take_reads() {
            self.leader_read(Asker::Local(id));
        }
    }

    /// This member no longer leads: the next leader answers its own reads, and the others ask
    /// again.
    pub(crate) fn reclaim_reads(&mut self, reads: LeaderReads) {
        let pending = reads.pending.into_iter().map(|read| read.asker);
        for asker in reads.early.into_iter().chain(pending) {
            match asker {
                Asker::Local(id) => self.reads.waiting.push(id),
                Asker::Remote(..) => {}
            }
        }
    }

    // --- at a follower ----------------------------------------------------------------------

    fn take_reads(&mut self) -> Vec<u64> {
        let asked = self.reads.asked.take().map(|question| question.ids);
        let mut ids = asked.unwrap_or_default();
        ids.append(&mut self.reads.waiting);
        ids
    }

    /// Asks the leader, if there is one, about all reads that wait, unless a question has no answer
    /// yet.
    fn ask(&mut self) {
        let Some(leader) = self.leader else { return };
        if self.is_leader() || self.reads.asked.is_some() || self.reads.waiting.is_empty() {
            return;
        }
        self.reads.last_question += 1;
        let number = self.reads.last_question;
        let ids = std::mem::take(&mut self.reads.waiting);
        self.reads.asked = Some(Question {
            number,
            ids,
            at: self.now,
        });
        self.send(leader, Body::Read { id: number });
    }

    /// The leader changed, or the answer is overdue: asks again, about all reads.
    pub(crate) fn ask_again(&mut self) {
        self.reads.waiting = self.take_reads();
        self.ask();
    }

    pub(crate) fn handle_read_reply(
        &mut self,
        from: MemberId,
        number: u64,
        index: LogIndex,
        seqno: Seqno,
    ) {
        if self.leader != Some(from) {
            // Only a leader that is confirmed by a majority knows the group's position.
            self.counters.malformed += 1;
            return;
        }
        let Some(question) = self
            .reads
            .asked
            .take_if(|question| question.number == number)
        else {
            return;
        };
        for id in question.ids {
            self.emit(Effect::ReadReady { id, index, seqno });
        }
        self.ask();
    }

    pub(crate) fn tick_reads(&mut self) {
        if self
            .reads_deadline()
            .is_some_and(|deadline| deadline <= self.now)
        {
            self.ask_again();
        }
    }

    pub(crate) fn reads_deadline(&self) -> Option<Time> {
        let asked = self.reads.asked.as_ref();
        asked.map(|question| question.at.plus_us(self.timing.retry_us))
    }
}
