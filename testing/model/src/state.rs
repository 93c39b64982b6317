//! State of the whole group.

use crate::bounds::MEMBERS_MAX;
use crate::log::Log;
use crate::voters::Voters;

/// The members, the messages that they have sent, and the entries that are settled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State {
    /// The members, by number.
    pub members: Vec<Member>,
    /// Messages in the network, by term; the first is term 1.
    pub terms: Vec<Term>,
    /// Entries that clients have an answer for.
    pub settled: Settled,
    /// Steps that are left of the bounds.
    pub left: Left,
    /// Violations; none with correct rules.
    pub broken: Broken,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    pub term: u8,
    /// The member's vote in that term.
    pub vote: Option<u8>,
    /// The member's role in that term.
    pub role: Role,
    /// Its log, as far as memory goes.
    pub log: Log,
    /// The log up to here is known to be that of the current term's leader. Zero for leaders.
    pub matched: u8,
    /// Entries up to here are known to be committed.
    pub commit: u8,
    /// State on disk, which survives a crash.
    pub disk: Disk,
}

/// State that a member finds on disk after a crash.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Disk {
    pub term: u8,
    /// Vote in that term.
    pub vote: Option<u8>,
    pub log: Log,
}

/// The part a member plays in its term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Follows a leader, or waits for one. Learners, too.
    #[default]
    Follower,
    Candidate {
        /// Members whose votes have left. Contains the candidate once its own vote is durable:
        /// before that, it has asked no member.
        granted: Voters,
    },
    Leader,
}

/// Messages that the members have sent in one term. A message can be taken at any later time.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term {
    /// The member that was elected; `None`: no member yet.
    pub leader: Option<u8>,
    /// The log that the leader has sent. Members take any part of it, at any time.
    pub sent: Log,
    /// The highest commit index that the leader has sent.
    pub commit_sent: u8,
    /// Position, by member, up to which it has acknowledged the log of this term's leader.
    pub durable: [u8; MEMBERS_MAX],
}

/// Entries that clients have an answer for: by the leader's count, or by an origin's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Settled {
    /// The entries that were counted.
    pub log: Log,
    /// Term, by position, in which the entry was counted first. Zero after the end.
    pub by: [u8; crate::log::LOG_MAX],
    /// Position up to which a leader has counted; beyond it, only origins have.
    pub by_leaders: u8,
}

/// Steps that are left of the bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Left {
    /// Actions that leaders may still order.
    pub entries: u8,
    /// Changes of the configuration that leaders may still make.
    pub changes: u8,
    /// Crashes that may still happen.
    pub crashes: u8,
}

/// Violations of the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Broken {
    /// Two leaders in one term.
    pub two_leaders: bool,
    /// A leader lacks, or others replaced, what a leader had counted.
    pub committed_lost: bool,
    /// A leader lacks, or others replaced, what only an origin had counted.
    pub acknowledged_lost: bool,
    /// A leader or an origin counted an entry that no majority had on disk.
    pub not_durable: bool,
    /// A member truncated what it knows to be committed.
    pub committed_truncated: bool,
}

impl Broken {
    /// Whether the check need not continue from here. Something that was counted too early may
    /// still be lost, so that alone is not final.
    pub(crate) fn is_final(self) -> bool {
        let Broken {
            two_leaders,
            committed_lost,
            acknowledged_lost,
            not_durable: _,
            committed_truncated,
        } = self;
        two_leaders || committed_lost || acknowledged_lost || committed_truncated
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

    pub(crate) fn member(&self, id: u8) -> &Member {
        &self.members[usize::from(id)]
    }

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
    /// The position up to which the disk has the member's log. (Memory may have truncated and
    /// replaced what the disk still has; equal entries are the same entry, so only the common part
    /// counts.)
    pub(crate) fn durable(&self) -> u8 {
        self.log.common(&self.disk.log)
    }

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
