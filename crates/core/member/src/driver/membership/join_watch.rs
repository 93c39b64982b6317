//! Log line of a member that has not joined yet, each minute: what it waits for. A server may wait
//! for its group without end, so its error log has to say which servers it lacks. See
//! `driver/repeated_warning.rs` for when.

use std::time::Duration;

use synod_consensus::{GroupId, Member, MemberId, Role, Time};

use super::Membership;
use crate::driver::context::Context;
use crate::driver::repeated_warning::{Lasting, seconds};
use crate::host::Level;
use crate::setting::Setting;

#[derive(Default)]
pub(in crate::driver) struct JoinWatch {
    lasting: Lasting,
}

impl JoinWatch {
    /// How long this member has waited to join, if that is to be logged now.
    fn look(&mut self, now: Time, has_joined: bool) -> Option<Duration> {
        if has_joined {
            self.lasting.ends();
            return None;
        }
        self.lasting.holds(now)
    }
}

impl Membership {
    /// Logs what the join waits for, if it has lasted. `unheard`: why the group may run anyway,
    /// see `recovery/unheard.rs`.
    pub(in crate::driver) fn watch_join(&mut self, ctx: &Context, unheard: &[String]) {
        // A member without a database that has lost its group waits for it: no host of its own
        // tells its operator.
        let is_lost = !ctx.identity.config.has_data && !ctx.links.shared.is_primary();
        let has_joined = self.join.has_joined() && !is_lost || self.leave.is_under_way();
        let Some(lasted) = self.join_watch.look(ctx.turns.now, has_joined) else {
            return;
        };
        let missing = match (ctx.core.leader(), ctx.identity.group) {
            (Some(leader), _) => self.missing_admission(ctx, leader),
            (None, GroupId::NONE) => self.missing_group(ctx, unheard),
            (None, _) => self.missing_majority(ctx, unheard),
        };
        let text = format!("waiting to join for {}: {missing}", seconds(lasted));
        ctx.log(Level::Info, text);
    }

    fn missing_admission(&self, ctx: &Context, leader: MemberId) -> String {
        let answer = self.join.last_answer();
        format!(
            "the leader is {}; {answer}; this member's log ends with entry {}. If that lasts, see \
             the leader's error log",
            ctx.name_of(leader),
            ctx.core.last_id(),
        )
    }

    fn missing_group(&self, ctx: &Context, unheard: &[String]) -> String {
        let name = |setting| ctx.links.host.setting_name(setting);
        if let Some(text) = self.join.taken() {
            return text.to_owned();
        }
        if self.join.has_contacts() {
            return format!(
                "members were found, but no leader calls back. A majority of them must run, and \
                 reach this member at {} ({}): see that this is its own address, that no \
                 firewall is between, and that it listens there",
                ctx.identity.config.address,
                name(Setting::MemberAddress),
            );
        }
        let setting = name(Setting::GroupAddress);
        let text = format!(
            "no address in {setting} leads to a member of a group that lets this one in. Start one \
             there, or correct the addresses"
        );
        with_lines(text, unheard)
    }

    fn missing_majority(&self, ctx: &Context, unheard: &[String]) -> String {
        let me = ctx.identity.me.member;
        let members = &ctx.core.config().config.members;
        let voters = members
            .iter()
            .filter(|(_, member)| member.role == Role::Voter);
        let (present, absent): (Vec<_>, Vec<_>) =
            voters.partition(|(id, _)| **id == me || self.presence.is_linked(**id));
        let all = present.len() + absent.len();
        let text = format!(
            "no leader is heard. {} of {all} voters are connected, and {} must be",
            present.len(),
            all / 2 + 1,
        );
        if !unheard.is_empty() {
            return with_lines(text, unheard);
        }
        let absent: Vec<String> = absent
            .iter()
            .map(|(id, member)| self.absent(**id, member))
            .collect();
        match absent.as_slice() {
            [] => format!("{text}: an election is under way"),
            absent => format!(
                "{text}; missing: {}. Start those servers, or see why they cannot be reached. If \
                 they are lost for good: 'synod recover --plan'",
                absent.join(", ")
            ),
        }
    }

    /// A voter that is not connected, with what the last call to it has found.
    fn absent(&self, id: MemberId, member: &Member) -> String {
        let found = self.presence.finding(id);
        let why = found.map(|found| format!(": {}", found.why));
        format!(
            "{} ({}{})",
            member.name,
            member.address,
            why.unwrap_or_default()
        )
    }
}

fn with_lines(text: String, lines: &[String]) -> String {
    match lines {
        [] => text,
        lines => format!("{text}. {}", lines.join(". ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_is_logged_until_the_member_has_joined() {
        let mut watch = JoinWatch::default();
        let at = |seconds| Time(7).plus(Duration::from_secs(seconds));
        assert_eq!(watch.look(at(0), false), None);
        assert_eq!(watch.look(at(5), false), Some(Duration::from_secs(5)));
        assert_eq!(watch.look(at(6), true), None);
        assert_eq!(watch.look(at(100), true), None);
    }
}
