//! Findings of this member's calls to the addresses of others. A member that all others refuse
//! hears none of them, as one does whose group is lost. The two differ in what is at the addresses
//! of the others, and only the caller knows that.

use synod_consensus::{MemberId, Time};

use super::Presence;
use crate::driver::event::{FailedCall, SignOfLife};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::driver) struct Finding {
    pub(in crate::driver) sign: SignOfLife,
    pub(in crate::driver) why: String,
    /// When a call last found a program.
    pub(in crate::driver) answered: Option<Time>,
}

impl Presence {
    pub(in crate::driver) fn link_up(&mut self, member: MemberId) {
        let signs = self.known.entry(member).or_default();
        (signs.is_linked, signs.finding) = (true, None);
    }

    pub(in crate::driver) fn link_down(&mut self, member: MemberId) {
        if let Some(signs) = self.known.get_mut(&member) {
            signs.is_linked = false;
        }
    }

    pub(in crate::driver::membership) fn found(&mut self, address: &str) {
        self.listed.remove(address);
    }

    pub(in crate::driver::membership) fn call_failed(&mut self, now: Time, call: FailedCall) {
        let former = match call.member {
            Some(member) => self.finding(member),
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
            Some(member) => self.known.entry(member).or_default().finding = Some(finding),
            None => drop(self.listed.insert(call.address, finding)),
        }
    }

    pub(in crate::driver) fn refused(&mut self, now: Time, by: MemberId, why: &str) {
        let finding = Finding {
            sign: SignOfLife::RefusedForGood,
            why: format!("refuses this member: {why}"),
            answered: Some(now),
        };
        self.known.entry(by).or_default().finding = Some(finding);
    }

    pub(in crate::driver) fn forget_listed(&mut self) {
        self.listed.clear();
    }

    pub(in crate::driver) fn forget_findings(&mut self, is_called: impl Fn(MemberId) -> bool) {
        for (_, signs) in self.known.iter_mut().filter(|(id, _)| !is_called(**id)) {
            signs.finding = None;
        }
    }

    pub(in crate::driver) fn is_linked(&self, member: MemberId) -> bool {
        self.signs(member).is_some_and(|signs| signs.is_linked)
    }

    pub(in crate::driver) fn finding(&self, member: MemberId) -> Option<&Finding> {
        self.signs(member)?.finding.as_ref()
    }

    /// Addresses of this member's own list that lead to no member, and why.
    pub(in crate::driver) fn listed(&self) -> impl Iterator<Item = (&str, &Finding)> {
        let listed = self.listed.iter();
        listed.map(|(address, finding)| (address.as_str(), finding))
    }
}
