//! What a state of the whole group consists of.

use crate::bounds::MEMBERS_MAX;
use crate::log::Log;
use crate::voters::Voters;

/// Everything: the members, what they have said, and what clients were told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State {
    /// By number.
    pub members: Vec<Member>,
    /// What is in the network, by term; the first is term 1.
    pub terms: Vec<Term>,
    /// What clients were told.
    pub settled: Settled,
    /// What may still happen.
    pub left: Left,
    /// What went wrong; with correct rules, nothing.
    pub broken: Broken,
}

/// One member.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// Current term.
    pub term: u8,
    /// Vote in it.
    pub vote: Option<u8>,
    /// Its role in it.
    pub role: Role,
    /// Its log, as far as memory goes.
    pub log: Log,
    /// The log up to here is known to be that of the current term's leader. Zero for leaders.
    pub matched: u8,
    /// Entries up to here are known to be committed.
    pub commit: u8,
    /// What a crash leaves.
    pub disk: Disk,
}

/// What a member finds after a crash.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Disk {
    /// Term.
    pub term: u8,
    /// Vote in that term.
    pub vote: Option<u8>,
    /// Log.
    pub log: Log,
}

/// The part a member plays in its term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Follows, or waits. Learners, too.
    #[default]
    Follower,
    /// Stands for election.
    Candidate {
        /// Whose vote is on its way. Contains the candidate once its own is durable: before that, it
        /// has not asked anybody.
        granted: Voters,
    },
    /// Leads.
    Leader,
}

/// What the members have said in one term. Nothing said is ever taken back.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term {
    /// Who was elected.
    pub leader: Option<u8>,
    /// What the leader has sent: its whole log, of which members take what they like, when they like.
    pub sent: Log,
    /// The highest commit index the leader has told.
    pub told: u8,
    /// By member: "the log of this term's leader is durable here up to this position".
    pub durable: [u8; MEMBERS_MAX],
}

/// What clients were told is done: by the leader's count, or by an origin's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Settled {
    /// The entries.
    pub log: Log,
    /// By position: the term in which it was counted first. Zero after the end.
    pub by: [u8; crate::log::LOG_MAX],
    /// Up to here a leader has counted; beyond, only origins.
    pub by_leaders: u8,
}

/// What may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Left {
    /// Actions.
    pub entries: u8,
    /// Configurations.
    pub changes: u8,
    /// Crashes.
    pub crashes: u8,
}

/// What must not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Broken {
    /// Two leaders in one term.
    pub two_leaders: bool,
    /// A leader lacks, or others replaced, what a leader had counted.
    pub committed_lost: bool,
    /// The same for what only an origin had counted.
    pub acknowledged_lost: bool,
    /// Something was counted that no majority had on disk.
    pub not_durable: bool,
    /// A member was told to cut what it knows to be committed.
    pub committed_cut: bool,
}

impl Broken {
    /// Whether the rest is of no interest. Something that was counted too early may still be lost.
    pub(crate) fn is_final(self) -> bool {
        let Broken {
            two_leaders,
            committed_lost,
            acknowledged_lost,
            not_durable: _,
            committed_cut,
        } = self;
        two_leaders || committed_lost || acknowledged_lost || committed_cut
    }
}

impl Role {
    /// For comparisons that do not depend on what members are called.
    pub(crate) fn rank(self) -> u8 {
        match self {
            Role::Follower => 0,
            Role::Candidate { .. } => 1,
            Role::Leader => 2,
        }
    }
}

impl State {
    /// The record of a term.
    pub(crate) fn term(&self, term: u8) -> &Term {
        &self.terms[usize::from(term) - 1]
    }

    /// The record of a term.
    pub(crate) fn term_mut(&mut self, term: u8) -> &mut Term {
        &mut self.terms[usize::from(term) - 1]
    }

    /// A member.
    pub(crate) fn member(&self, id: u8) -> &Member {
        &self.members[usize::from(id)]
    }

    /// A member.
    pub(crate) fn member_mut(&mut self, id: u8) -> &mut Member {
        &mut self.members[usize::from(id)]
    }

    /// Numbers of all members.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u8> + use<> {
        // At most MEMBERS_MAX.
        0..self.members.len() as u8
    }
}

impl Member {
    /// How much of its log its disk has. (Memory may have cut and written again what the disk still
    /// has of old; equal entries are the same entry, so only the common part counts.)
    pub(crate) fn durable(&self) -> u8 {
        self.log.common(&self.disk.log)
    }

    /// Whether it leads.
    pub(crate) fn leads(&self) -> bool {
        self.role == Role::Leader
    }

    /// Follows in this term, which is not below its own.
    pub(crate) fn follow(&mut self, term: u8) {
        if term > self.term {
            self.term = term;
            self.vote = None;
            self.matched = 0;
        }
        self.role = Role::Follower;
    }
}
