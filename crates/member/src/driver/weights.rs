//! Who should rather lead: every member reports its weight to the leader, whose status tells it to all.

use std::collections::BTreeMap;

use synod_consensus::{LeaderPreference, LeaderWeight, MemberId};
use synod_wire::{DataState, Report};

use super::Driver;
use crate::host::Level;

impl Driver {
    /// This member's own preference.
    pub(super) fn prefer(&mut self, preference: LeaderPreference) {
        if preference != self.core.leader_preference() {
            self.core.set_leader_preference(preference);
            self.publish_members();
            self.send_report();
        }
    }

    /// By the leader's own reports.
    pub(super) fn weigh_reports(&mut self) {
        let weights = self.weights(self.membership.presence.reports());
        self.weigh(weights);
    }

    /// By the leader's word.
    pub(super) fn weigh_status(&mut self, members: &[Report]) {
        let weights = self.weights(members.iter());
        self.weigh(weights);
    }

    fn weigh(&mut self, weights: BTreeMap<MemberId, LeaderWeight>) {
        if self.core.set_leader_weights(weights) {
            self.publish_members();
        }
    }

    /// The weights of those that are fit to lead. A member whose database is not in step is busy, with its
    /// disk among other things; one without a database never is.
    fn weights<'a>(
        &self,
        reports: impl Iterator<Item = &'a Report>,
    ) -> BTreeMap<MemberId, LeaderWeight> {
        let configured = &self.core.config().config.members;
        let is_fit = |report: &&Report| {
            let has_data = configured.get(&report.member).map(|m| m.has_data);
            report.state == DataState::Synced || has_data == Some(false)
        };
        let fit = reports.filter(is_fit);
        fit.map(|report| (report.member, report.weight)).collect()
    }

    /// Says once that leadership is being handed over, and to whom.
    pub(super) fn tell_handover(&mut self) {
        let to = self.core.leader_transfer_target();
        if self.told_handover == to {
            return;
        }
        self.told_handover = to;
        if let Some(to) = to {
            let name = self.name_of(to);
            let own = self.core.leader_preference().weight;
            let heavier = self.core.weight_of(to).filter(|weight| *weight > own);
            let weights = heavier.map_or_else(String::new, |weight| {
                format!(", whose weight is {weight}; that of this member is {own}")
            });
            self.log(
                Level::Info,
                format!("handing leadership over to {name}{weights}"),
            );
        }
    }
}
