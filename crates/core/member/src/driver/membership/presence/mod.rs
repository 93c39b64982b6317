//! Presence: the one place that knows which members live. It keeps, of each member, when it was
//! heard, by this member and by leaders; what calls to its address have found (`calls`); and, for a
//! leader, in which session it is present and what it has reported (`sessions`). Every member notes
//! what it hears; only a leader uses sessions, grace periods and the silence that has consequences.

mod calls;
mod sessions;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use synod_consensus::{MemberId, Term, Time};
use synod_wire::{PresenceReport, Report, SurvivorReport};

use crate::payload::view::ViewMember;
pub(in crate::driver) use calls::Finding;

/// Most members that are remembered. More than a group has: others only pass by, each with an id
/// of its own.
const KNOWN_MAX: usize = 2048;

/// A survivor's report counts for so long. It is repeated much more often.
const SURVIVES_FOR: Duration = Duration::from_secs(3);

/// Signs of life of a member.
#[derive(Default)]
pub(in crate::driver) struct Signs {
    /// Time of its latest message to this process.
    pub(in crate::driver) heard: Option<Time>,
    /// Time of its latest message to a leader, by that leader's word.
    told: Option<Time>,
    /// When its grace period began, if it has sent no message since.
    in_grace: Option<Time>,
    /// Its latest report as a survivor of a lost majority.
    survivor: Option<(Time, SurvivorReport)>,
    /// Whether it takes this member's connections.
    pub(in crate::driver) is_linked: bool,
    /// Finding of the last call to it; none: it is connected, or no call has ended.
    pub(in crate::driver) finding: Option<Finding>,
}

impl Signs {
    /// Its latest message to this member, or to a leader that this member followed.
    pub(in crate::driver) fn last_heard(&self) -> Option<Time> {
        self.heard.max(self.told)
    }
}

/// The component that knows which members live. Invariant: a present member is no leaver.
#[derive(Default)]
pub(in crate::driver) struct Presence {
    known: BTreeMap<MemberId, Signs>,
    /// Findings at the addresses of this member's own list, until the group is found there.
    listed: BTreeMap<String, Finding>,
    /// Members that the leader of this term has listed lately as present.
    told_present: Option<(Term, BTreeSet<MemberId>)>,
    /// Silence before that has no consequences; none before the first look.
    silence_counts_from: Option<Time>,
    last_look: Time,
    present: BTreeMap<MemberId, ViewMember>,
    /// Members that have left this leader, and have not asked to be present again.
    left: BTreeSet<MemberId>,
    reports: BTreeMap<MemberId, Report>,
    /// Members that have reported since this leadership began.
    fresh: BTreeSet<MemberId>,
    /// Members that asked to leave and still vote, and when they asked.
    leavers: BTreeMap<MemberId, Time>,
}

impl Presence {
    pub(in crate::driver) fn heard(&mut self, now: Time, member: MemberId) {
        let signs = self.known.entry(member).or_default();
        (signs.heard, signs.in_grace) = (Some(now), None);
        if self.known.len() > KNOWN_MAX {
            self.forget_the_most_silent();
        }
    }

    /// Its silence is not known any more: none counts from before its last message.
    fn forget_the_most_silent(&mut self) {
        let known = self.known.iter().filter(|(_, signs)| !signs.is_linked);
        let Some((heard, silent)) = known.map(|(id, signs)| (signs.heard, *id)).min() else {
            return;
        };
        self.known.remove(&silent);
        let counted = self.silence_counts_from.zip(heard);
        if let Some((from, heard)) = counted {
            self.silence_counts_from = Some(from.max(heard));
        }
    }

    /// Members that were heard, or are within their grace period.
    pub(in crate::driver) fn heard_members(&self) -> impl Iterator<Item = MemberId> + '_ {
        let is_heard = |signs: &Signs| signs.heard.or(signs.in_grace).is_some();
        let known = self.known.iter();
        known.filter_map(move |(id, signs)| is_heard(signs).then_some(*id))
    }

    /// Signs of life of a member; none: it is not known.
    pub(in crate::driver) fn signs(&self, member: MemberId) -> Option<&Signs> {
        self.known.get(&member)
    }

    /// Forgets members that are neither present nor kept, but for what calls have found.
    pub(in crate::driver) fn forget_others(&mut self, is_kept: impl Fn(MemberId) -> bool) {
        self.left.retain(|id| is_kept(*id));
        let present = &self.present;
        self.known.retain(|id, signs| {
            if !present.contains_key(id) && !is_kept(*id) {
                *signs = Signs {
                    is_linked: signs.is_linked,
                    finding: signs.finding.take(),
                    ..Signs::default()
                };
            }
            signs.is_linked
                || signs.finding.is_some()
                || signs.last_heard().or(signs.in_grace).is_some()
        });
    }

    /// Whether the member is within its grace period: no message from it since this leader was
    /// elected. It may be alive or not.
    pub(super) fn in_grace_period(&self, member: MemberId) -> bool {
        self.signs(member)
            .is_some_and(|signs| signs.in_grace.is_some())
    }

    /// Whether a message of the member came, or its grace period began, within `limit`.
    pub(in crate::driver) fn is_alive(&self, now: Time, member: MemberId, limit: Duration) -> bool {
        let latest = self
            .signs(member)
            .and_then(|signs| signs.heard.max(signs.in_grace));
        latest.is_some_and(|at| now.since(at) < limit)
    }

    pub(in crate::driver) fn survives(
        &mut self,
        now: Time,
        member: MemberId,
        report: SurvivorReport,
    ) {
        self.known.entry(member).or_default().survivor = Some((now, report));
    }

    /// Latest report of a survivor, if it is a moment old at most.
    pub(in crate::driver) fn survivor(
        &self,
        now: Time,
        member: MemberId,
    ) -> Option<SurvivorReport> {
        let (at, report) = self.signs(member)?.survivor?;
        (now.since(at) < SURVIVES_FOR).then_some(report)
    }

    pub(super) fn told(&mut self, now: Time, report: &PresenceReport) {
        for heard in &report.members {
            let silent_us = heard.silent_ms.saturating_mul(1000);
            let at = Time(now.0.saturating_sub(silent_us));
            let signs = self.known.entry(heard.member).or_default();
            signs.told = signs.told.max(Some(at));
        }
        let members = report.members.iter().map(|heard| heard.member).collect();
        self.told_present = Some((report.term, members));
    }

    /// Whether the leader that this member hears counts the member among the absent.
    pub(super) fn is_left_out(&self, term: Term, member: MemberId) -> bool {
        let told = self.told_present.as_ref().filter(|(of, _)| *of == term);
        told.is_some_and(|(_, members)| !members.contains(&member))
    }

    /// Looks at the silence of members, periodically. Its consequences (a voter loses its vote, a
    /// learner is forgotten) are rare and can wait: so it counts from when this leader came to lead
    /// at the earliest. After a pause of more than `pause_max` this process stood still: messages
    /// may wait to be handled, so no member counts as silent.
    pub(super) fn look(&mut self, now: Time, pause_max: Duration) {
        let last_look = std::mem::replace(&mut self.last_look, now);
        let stood_still = now.since(last_look) > pause_max;
        let counted = self.silence_counts_from.filter(|_| !stood_still);
        self.silence_counts_from = counted.or(Some(now));
    }

    pub(super) fn silence(&self, now: Time, member: MemberId) -> Duration {
        let Some(from) = self.silence_counts_from else {
            return Duration::ZERO;
        };
        let heard = self.signs(member).and_then(|signs| signs.heard);
        now.since(heard.map_or(from, |heard| heard.max(from)))
    }
}
