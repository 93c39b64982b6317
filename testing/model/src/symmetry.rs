//! Symmetry: members differ only in their numbers.
//!
//! A step of one member is possible for any other. States that differ only in the members' numbers
//! count as one state, and the checker visits only their representative.

use crate::bounds::{Bounds, MEMBERS_MAX};
use crate::log::{Entry, Kind, Log};
use crate::state::{Member, Role, State, Term};

/// All ways to rename the members that keep the initial configuration.
#[derive(Clone, Debug)]
pub(crate) struct Renamings {
    /// `to[old]` is the new number.
    all: Vec<Vec<u8>>,
    /// The initial voters have the numbers below this one, the learners the others.
    voters: usize,
}

impl Renamings {
    pub(crate) fn of(bounds: &Bounds) -> Renamings {
        let mut all = Vec::new();
        permute(&mut (0..bounds.servers as u8).collect(), 0, &mut all);
        all.retain(|to| bounds.initial().renamed(to) == bounds.initial());
        let voters = bounds.voters;
        Renamings { all, voters }
    }

    /// The representative: the least of the renamed states in which members are in order of what
    /// does not depend on names.
    pub(crate) fn canonical(&self, state: State) -> State {
        let keys: Vec<_> = state.members.iter().map(key).collect();
        let in_order = |to: &&Vec<u8>| {
            let mut ordered = [None; MEMBERS_MAX];
            for (old, new) in to.iter().enumerate() {
                ordered[usize::from(*new)] = Some(&keys[old]);
            }
            (1..to.len()).all(|i| i == self.voters || ordered[i - 1] <= ordered[i])
        };
        let renamed = self.all.iter().filter(in_order);
        renamed.map(|to| rename(&state, to)).min().unwrap_or(state)
    }
}

/// A member's properties that do not depend on the members' numbers.
fn key(member: &Member) -> impl Ord + use<> {
    let roles = (
        member.term,
        member.role.rank(),
        member.matched,
        member.commit,
    );
    let logs = (member.log.last(), member.disk.log.last());
    (roles, logs, member.disk.term, member.vote.is_some())
}

fn rename(state: &State, to: &[u8]) -> State {
    let mut members = state.members.clone();
    for (old, member) in state.members.iter().enumerate() {
        members[usize::from(to[old])] = rename_member(member, to);
    }
    let mut renamed = State {
        members,
        terms: state
            .terms
            .iter()
            .map(|said| rename_term(said, to))
            .collect(),
        ..state.clone()
    };
    renamed.settled.log = rename_log(&state.settled.log, to);
    renamed
}

fn rename_member(member: &Member, to: &[u8]) -> Member {
    let mut renamed = member.clone();
    renamed.vote = member.vote.map(|id| to[usize::from(id)]);
    renamed.disk.vote = member.disk.vote.map(|id| to[usize::from(id)]);
    renamed.log = rename_log(&member.log, to);
    renamed.disk.log = rename_log(&member.disk.log, to);
    if let Role::Candidate { granted } = &mut renamed.role {
        *granted = granted.renamed(to);
    }
    renamed
}

fn rename_term(said: &Term, to: &[u8]) -> Term {
    let mut renamed = Term {
        leader: said.leader.map(|id| to[usize::from(id)]),
        sent: rename_log(&said.sent, to),
        ..said.clone()
    };
    for (old, new) in to.iter().enumerate() {
        renamed.durable[usize::from(*new)] = said.durable[old];
    }
    renamed
}

fn rename_log(log: &Log, to: &[u8]) -> Log {
    log.map(|entry| match entry.kind {
        Kind::Config(voters) => Entry {
            kind: Kind::Config(voters.renamed(to)),
            ..entry
        },
        Kind::NoOp | Kind::Action => entry,
    })
}

/// All permutations of `items[from..]`.
fn permute(items: &mut Vec<u8>, from: usize, all: &mut Vec<Vec<u8>>) {
    if from == items.len() {
        return all.push(items.clone());
    }
    for i in from..items.len() {
        items.swap(from, i);
        permute(items, from + 1, all);
        items.swap(from, i);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::Group;
    use crate::voters::Voters;
    use stateright::Model;

    #[test]
    fn renamed_states_have_one_representative() {
        let bounds = Bounds {
            servers: 4,
            voters: 3,
            changes: 1,
            ..Bounds::default()
        };
        let renamings = Renamings::of(&bounds);
        assert_eq!(renamings.all.len(), 6, "three voters in any order");
        let group = Group::new(bounds, None).expect("sensible");
        let mut state = group.init_states().remove(0);
        for _ in 0..60 {
            let mut steps = Vec::new();
            group.actions(&state, &mut steps);
            let Some(step) = steps.get(steps.len() / 2) else {
                break;
            };
            state = group.next_state(&state, *step).expect("possible");
            let representative = renamings.canonical(state.clone());
            for to in &renamings.all {
                assert_eq!(renamings.canonical(rename(&state, to)), representative);
            }
        }
        let led = state.terms.iter().any(|said| said.leader.is_some());
        assert!(led, "went nowhere: {state:?}");
    }

    #[test]
    fn learners_are_not_taken_for_voters() {
        let bounds = Bounds {
            servers: 3,
            voters: 1,
            ..Bounds::default()
        };
        let renamings = Renamings::of(&bounds);
        assert!(renamings.all.iter().all(|to| to[0] == 0));
        assert_eq!(bounds.initial(), Voters::first(1));
    }
}
