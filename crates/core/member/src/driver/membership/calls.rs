//! Findings of this member's calls to the addresses of others. A member that all others refuse
//! hears none of them, as one does whose group is lost. The two differ in what is at the addresses
//! of the others, and only the caller knows that.

use std::collections::{BTreeMap, BTreeSet};

use synod_consensus::{MemberId, Time};

use crate::driver::event::{FailedCall, SignOfLife};

#[derive(Default)]
pub(in crate::driver) struct Calls {
    linked: BTreeSet<MemberId>,
    /// Findings at members without a connection.
    members: BTreeMap<MemberId, Finding>,
    /// Findings at the addresses of this member's own list, until the group is found there.
    listed: BTreeMap<String, Finding>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::driver) struct Finding {
    pub(in crate::driver) sign: SignOfLife,
    /// Its reason: the rest of a sentence that begins with the address.
    pub(in crate::driver) why: String,
    /// When a call last found a program.
    pub(in crate::driver) answered: Option<Time>,
}

impl Calls {
    pub(in crate::driver) fn link_up(&mut self, member: MemberId) {
        self.members.remove(&member);
        self.linked.insert(member);
    }

    pub(in crate::driver) fn link_down(&mut self, member: MemberId) {
        self.linked.remove(&member);
    }

    pub(super) fn found(&mut self, address: &str) {
        self.listed.remove(address);
    }

    pub(super) fn failed(&mut self, now: Time, call: FailedCall) {
        let former = match call.member {
            Some(member) => self.members.get(&member),
            None => self.listed.get(&call.address),
        };
        let answered = match call.sign {
            SignOfLife::NoneListens => None,
            SignOfLife::Silence => former.and_then(|former| former.answered),
            _ => Some(now),
        };
        let finding = Finding {
            sign: call.sign,
            why: call.why,
            answered,
        };
        match call.member {
            Some(member) => self.members.insert(member, finding),
            None => self.listed.insert(call.address, finding),
        };
    }

    pub(in crate::driver) fn refused(&mut self, now: Time, by: MemberId, why: &str) {
        let finding = Finding {
            sign: SignOfLife::RefusedForGood,
            why: format!("refuses this member: {why}"),
            answered: Some(now),
        };
        self.members.insert(by, finding);
    }

    pub(in crate::driver) fn forget_listed(&mut self) {
        self.listed.clear();
    }

    pub(in crate::driver) fn keep_only(&mut self, is_called: impl Fn(MemberId) -> bool) {
        self.members.retain(|member, _| is_called(*member));
    }

    pub(in crate::driver) fn is_linked(&self, member: MemberId) -> bool {
        self.linked.contains(&member)
    }

    /// Finding of the last call to this member; none: it is connected, or no call has ended.
    pub(in crate::driver) fn finding(&self, member: MemberId) -> Option<&Finding> {
        self.members.get(&member)
    }

    /// Addresses of this member's own list that lead to no member, and why.
    pub(in crate::driver) fn listed(&self) -> impl Iterator<Item = (&str, &Finding)> {
        let listed = self.listed.iter();
        listed.map(|(address, finding)| (address.as_str(), finding))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DB1: MemberId = MemberId(1);

    fn call(member: Option<MemberId>, sign: SignOfLife) -> FailedCall {
        FailedCall {
            address: "db1:4567".to_owned(),
            member,
            why: "does not answer".to_owned(),
            sign,
        }
    }

    #[test]
    fn silence_is_no_sign_that_the_program_has_ended() {
        let mut calls = Calls::default();
        let mut found = |at, sign| {
            calls.failed(Time(at), call(Some(DB1), sign));
            calls.finding(DB1).unwrap().answered
        };
        assert_eq!(found(5, SignOfLife::Silence), None);
        assert_eq!(found(7, SignOfLife::Listens), Some(Time(7)));
        assert_eq!(found(9, SignOfLife::Silence), Some(Time(7)));
        assert_eq!(found(11, SignOfLife::NoneListens), None);
    }

    #[test]
    fn connection_ends_what_a_call_has_found() {
        let mut calls = Calls::default();
        calls.failed(Time(5), call(Some(DB1), SignOfLife::NoneListens));
        calls.link_up(DB1);
        assert!(calls.is_linked(DB1) && calls.finding(DB1).is_none());
        calls.link_down(DB1);
        assert!(!calls.is_linked(DB1) && calls.finding(DB1).is_none());
        calls.failed(Time(5), call(None, SignOfLife::Distrust));
        assert_eq!(calls.listed().count(), 1);
        calls.found("db1:4567");
        assert_eq!(calls.listed().count(), 0);
    }
}
