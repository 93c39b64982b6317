//! The model: the steps, and what each does.
//!
//! [`Group`] gives the checker the initial state, the steps that are possible in a state, and the
//! state after a step. The rules themselves are in `rules`, the conditions in `properties`.

use stateright::{Model, Property};

use crate::bounds::{Bounds, BoundsError};
use crate::mistake::Mistake;
use crate::rules::{disk, election, membership, network, replication};
use crate::state::{Broken, Left, Member, State, Term};
use crate::symmetry::Renamings;

/// A group of members within bounds, perhaps with a rule broken.
#[derive(Clone, Debug)]
pub struct Group {
    pub(crate) bounds: Bounds,
    pub(crate) mistake: Option<Mistake>,
    renamings: Option<Renamings>,
}

/// One step of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A voter becomes a candidate in the next term.
    Stand(u8),
    Vote {
        voter: u8,
        candidate: u8,
    },
    /// A candidate has the votes, and begins to lead.
    Lead(u8),
    /// A leader appends an action of a client.
    Propose(u8),
    /// A leader appends a configuration.
    Change {
        leader: u8,
        /// The member that becomes a voter, or ceases to be one.
        who: u8,
    },
    /// A follower learns up to which position its log is that of a term's leader.
    Match {
        member: u8,
        /// The term whose leader it is of.
        term: u8,
    },
    /// A follower takes the next entry of a term's leader.
    Take {
        member: u8,
        /// The term whose leader it is of.
        term: u8,
    },
    /// A leader counts a majority up to here.
    Commit {
        leader: u8,
        index: u8,
    },
    /// A follower takes over the leader's commit index. Only with a mistake; otherwise it does so
    /// at once.
    LearnCommit(u8),
    /// A member's disk stores what was written.
    Sync(u8),
    /// A member loses what is not on disk, and restarts.
    Crash(u8),
}

impl Step {
    /// The member that writes something other than an entry of its own as a leader.
    fn writer(self) -> Option<u8> {
        match self {
            Step::Stand(id)
            | Step::Vote { voter: id, .. }
            | Step::Match { member: id, .. }
            | Step::Take { member: id, .. } => Some(id),
            Step::Lead(_)
            | Step::Propose(_)
            | Step::Change { .. }
            | Step::Commit { .. }
            | Step::LearnCommit(_)
            | Step::Sync(_)
            | Step::Crash(_) => None,
        }
    }
}

impl Group {
    /// A group within these bounds, if they make sense, perhaps with a rule broken.
    pub fn new(bounds: Bounds, mistake: Option<Mistake>) -> Result<Group, BoundsError> {
        Ok(Group {
            bounds: bounds.validate()?,
            mistake,
            renamings: None,
        })
    }

    /// Makes states that differ only in the members' numbers one state. Steps of a counterexample
    /// then name members of the state before, as it was renamed.
    #[must_use]
    pub fn with_symmetry(self) -> Group {
        let renamings = Some(Renamings::of(&self.bounds));
        Group { renamings, ..self }
    }

    pub(crate) fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// Whether followers may know less than the leader has sent. Only one mistake needs that;
    /// otherwise to know more only adds checks.
    pub(crate) fn learns_commits_late(&self) -> bool {
        self.has(Mistake::ConfigWhenCommitted)
    }

    /// Whether what a member did not append as a leader may be written and not synced.
    fn syncs_late(&self) -> bool {
        self.bounds.every_sync || self.has(Mistake::AckBeforeSync)
    }

    fn steps_of(&self, state: &State, id: u8, steps: &mut Vec<Step>) {
        let member = state.member(id);
        if election::may_stand(self, state, id) {
            steps.push(Step::Stand(id));
        }
        for candidate in state.ids() {
            if election::may_vote(self, state, id, candidate) {
                let voter = id;
                steps.push(Step::Vote { voter, candidate });
            }
        }
        if election::may_lead(self, state, id) {
            steps.push(Step::Lead(id));
        }
        if member.leads() && state.left.entries > 0 {
            steps.push(Step::Propose(id));
        }
        for who in state.ids() {
            if membership::may_change(self, state, id, who) {
                steps.push(Step::Change { leader: id, who });
            }
        }
        for term in member.term.max(1)..=self.bounds.terms {
            if replication::may_match(state, id, term) {
                steps.push(Step::Match { member: id, term });
            }
            if replication::may_take(state, id, term) {
                steps.push(Step::Take { member: id, term });
            }
        }
        if let Some(index) = replication::countable(self, state, id) {
            steps.push(Step::Commit { leader: id, index });
        }
        if self.learns_commits_late() && network::learnable(state, id).is_some() {
            steps.push(Step::LearnCommit(id));
        }
        if disk::may_sync(state, id) {
            steps.push(Step::Sync(id));
        }
        if disk::may_crash(state, id) {
            steps.push(Step::Crash(id));
        }
    }

    fn perform(&self, state: &mut State, step: Step) {
        match step {
            Step::Stand(id) => election::stand(state, id),
            Step::Vote { voter, candidate } => election::vote(self, state, voter, candidate),
            Step::Lead(id) => election::lead(state, id),
            Step::Propose(id) => replication::propose(state, id),
            Step::Change { leader, who } => membership::change(self, state, leader, who),
            Step::Match { member, term } => replication::learn_match(state, member, term),
            Step::Take { member, term } => replication::take(state, member, term),
            Step::Commit { leader, index } => replication::commit(self, state, leader, index),
            Step::LearnCommit(id) => network::learn_commit(state, id),
            Step::Sync(id) => disk::sync(self, state, id),
            Step::Crash(id) => disk::crash(state, id),
        }
        if let Some(id) = step.writer()
            && !self.syncs_late()
        {
            disk::sync(self, state, id);
        }
        network::speak(self, state);
    }
}

impl Model for Group {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            members: vec![Member::default(); self.bounds.servers],
            terms: vec![Term::default(); usize::from(self.bounds.terms)],
            settled: Default::default(),
            left: Left {
                entries: self.bounds.entries,
                changes: self.bounds.changes,
                crashes: self.bounds.crashes,
            },
            broken: Broken::default(),
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if state.broken.is_final() {
            return;
        }
        for id in state.ids() {
            self.steps_of(state, id, steps);
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        self.perform(&mut next, step);
        Some(match &self.renamings {
            Some(renamings) => renamings.canonical(next),
            None => next,
        })
    }

    fn properties(&self) -> Vec<Property<Group>> {
        crate::properties::properties(&self.bounds)
    }

    fn format_action(&self, step: &Step) -> String {
        format!("{step:?}")
    }
}
