//! Voters that run, or may run, although this member does not hear them. A member hears no other if
//! its group is lost, and also if the others do not let it in, or cannot call it back: then the
//! group runs, and an order to continue alone would make a second history. So a voter counts as
//! gone only where its machine says that no program listens at its address, or where nothing has
//! answered for minutes. Everything that talks to operators about a recovery follows this one rule:
//! the order, the plan, the status, the log lines.

use std::time::Duration;

use synod_consensus::{Config, Member, MemberId, Time};

use crate::driver::context::Context;
use crate::driver::event::SignOfLife;
use crate::driver::membership::{Finding, Membership, Signs};
use crate::driver::repeated_warning::seconds;
use crate::setting::Setting;

/// A machine from which nothing comes any more may be cut off, and not off: for so long after its
/// last sign of life it counts as running.
const SILENCE_MIN: Duration = Duration::from_secs(120);

#[derive(Debug, PartialEq, Eq)]
enum Doubt {
    /// The voter takes this member's connections, and nothing comes from it.
    Connected,
    /// The first call to it has not ended.
    NotCalled,
    /// Nothing answers, after so long a time since the last sign of life.
    Silent(Duration),
    /// A program is at its address; the rest of a sentence.
    Answers { why: String, is_refusal: bool },
}

impl Doubt {
    /// Whether a program is at the voter's address, and refuses this member, or does not.
    fn answers(&self, refuses: bool) -> bool {
        matches!(self, Doubt::Answers { is_refusal, .. } if *is_refusal == refuses)
    }
}

/// Why a voter that says nothing may run; none: it is gone. `is_member`: a member of the group that
/// is at the address of the voter counts for itself.
fn doubt(now: Time, signs: &Signs, is_member: impl Fn(MemberId) -> bool) -> Option<Doubt> {
    if signs.is_linked {
        return Some(Doubt::Connected);
    }
    let Some(finding) = &signs.finding else {
        return Some(Doubt::NotCalled);
    };
    match finding.sign {
        SignOfLife::NoneListens => None,
        SignOfLife::OtherMember(other) if is_member(other) => None,
        SignOfLife::Silence => {
            let last = now.since(signs.last_heard().max(finding.answered)?);
            (last < SILENCE_MIN).then_some(Doubt::Silent(last))
        }
        SignOfLife::Listens
        | SignOfLife::OtherMember(_)
        | SignOfLife::Distrust
        | SignOfLife::RefusedForGood => Some(Doubt::Answers {
            why: finding.why.clone(),
            is_refusal: finding.sign.is_refusal(),
        }),
    }
}

/// A sentence for each voter, beside this member and those that report, that runs or may run; then
/// what to do about them. Empty: all others are gone. Before this member knows its group: why each
/// address of its list leads to none.
pub(in crate::driver) fn unheard(
    ctx: &Context,
    membership: &Membership,
    reports: impl Fn(MemberId) -> bool,
) -> Vec<String> {
    let config = &ctx.core.config().config;
    let me = ctx.identity.me.member;
    let (now, nothing) = (ctx.turns.now, Signs::default());
    let signs = |id| membership.presence.signs(id).unwrap_or(&nothing);
    let others = config.voters().filter(|id| *id != me && !reports(*id));
    let doubts = others.filter_map(|id| {
        let member = config.members.get(&id)?;
        let doubt = doubt(now, signs(id), |other| config.members.contains_key(&other))?;
        Some((member, doubt))
    });
    let doubts: Vec<(&Member, Doubt)> = doubts.collect();
    let mut lines: Vec<String> = doubts.iter().map(|(m, doubt)| sentence(m, doubt)).collect();
    let listed = others_of_the_list(config, membership);
    lines.extend(listed.iter().map(|(line, _)| line.clone()));
    let is_any = |holds: &dyn Fn(&Doubt) -> bool| doubts.iter().any(|(_, doubt)| holds(doubt));
    let is_connected = is_any(&|doubt| *doubt == Doubt::Connected);
    let is_occupied = is_any(&|doubt| doubt.answers(false));
    let is_refused =
        is_any(&|doubt| doubt.answers(true)) || listed.iter().any(|(_, is_refusal)| *is_refusal);
    let name = |setting| ctx.links.host.setting_name(setting);
    if let Some(wait) = membership.join.wait() {
        lines.push(format!("Their answer to the request to join: {wait}"));
    } else if is_connected {
        lines.push(format!(
            "Either this member was removed from the group, or those that take its connections \
             are unable to call it at {} ({}): 'synod member list' on one of them shows which. If \
             they list it, see that this is its own address, that no other member has it, and \
             that no firewall is between",
            ctx.identity.config.address,
            name(Setting::MemberAddress),
        ));
    }
    if is_refused {
        lines.push(format!(
            "Do what a refusal says. If it names a setting of this member ({}; the cluster's name; \
             {}), correct that and restart this member: it joins by itself. If the one that \
             refuses is no member any more, stop it, or block the way from here to it, so that \
             connections are refused",
            name(Setting::Encryption),
            name(Setting::MemberAddress),
        ));
    }
    if is_occupied {
        lines.push(
            "The program there that does not answer as that member hangs, or is another one: stop \
             it, or cut its machine off; or block the way from here to it, so that connections are \
             refused"
                .to_owned(),
        );
    }
    lines
}

/// Whether no call to some other voter has ended yet: what [`unheard`] says of it is over soon.
pub(in crate::driver) fn is_calling(ctx: &Context, membership: &Membership) -> bool {
    let (config, me) = (&ctx.core.config().config, ctx.identity.me.member);
    let calls = &membership.presence;
    config
        .voters()
        .any(|id| id != me && !calls.is_linked(id) && calls.finding(id).is_none())
}

/// Addresses of this member's own list, beside those of voters, whose members refuse this one: the
/// voters' addresses in its log may be old. All that lead to no member, before it knows its group.
/// With each, whether it refuses.
fn others_of_the_list(config: &Config, membership: &Membership) -> Vec<(String, bool)> {
    let is_voters = |address: &str| {
        let mut voters = config.voters().filter_map(|id| config.members.get(&id));
        voters.any(|voter| voter.address == address)
    };
    let is_refusal = |finding: &Finding| finding.sign.is_refusal();
    let listed = membership.presence.listed();
    let listed = listed.filter(|(address, finding)| {
        config.members.is_empty() || is_refusal(finding) && !is_voters(address)
    });
    let line = |(address, finding): (&str, &Finding)| {
        (format!("{address} {}", finding.why), is_refusal(finding))
    };
    listed.map(line).collect()
}

fn sentence(member: &Member, doubt: &Doubt) -> String {
    let Member { name, address, .. } = member;
    match doubt {
        Doubt::Connected => {
            format!("{name} at {address} runs: it takes connections, and nothing comes from it")
        }
        Doubt::NotCalled => format!("{name} at {address} is being called: ask again in 10 s"),
        Doubt::Silent(for_so_long) => format!(
            "{name} at {address} was there {} ago and does not answer since: a cut network looks \
             the same. If it stays so, it counts as gone in {}",
            seconds(*for_so_long),
            seconds(SILENCE_MIN.saturating_sub(*for_so_long)),
        ),
        Doubt::Answers { why, .. } => format!("{name} at {address} {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(10_000_000_000);

    fn finding(sign: SignOfLife, answered_ago: Option<u64>) -> Finding {
        let ago = |seconds: u64| Time(NOW.0 - seconds * 1_000_000);
        Finding {
            sign,
            why: "says no".to_owned(),
            answered: answered_ago.map(ago),
        }
    }

    fn found(sign: SignOfLife, answered_ago: Option<u64>, silent: Option<u64>) -> Option<Doubt> {
        let mut signs = Signs::default();
        signs.heard = silent.map(|seconds| Time(NOW.0 - seconds * 1_000_000));
        signs.finding = Some(finding(sign, answered_ago));
        doubt(NOW, &signs, |id| id == MemberId(4))
    }

    #[test]
    fn program_at_the_address_is_no_voter_that_is_gone() {
        for (sign, refuses) in [
            (SignOfLife::Listens, false),
            (SignOfLife::OtherMember(MemberId(9)), false),
            (SignOfLife::Distrust, true),
            (SignOfLife::RefusedForGood, true),
        ] {
            let (why, is_refusal) = ("says no".to_owned(), refuses);
            let expected = Some(Doubt::Answers { why, is_refusal });
            assert_eq!(found(sign, Some(0), Some(3600)), expected, "{sign:?}");
        }
    }

    #[test]
    fn address_without_a_program_or_with_another_member_is_that_of_a_lost_one() {
        assert_eq!(found(SignOfLife::NoneListens, None, Some(1)), None);
        let other = SignOfLife::OtherMember(MemberId(4));
        assert_eq!(found(other, Some(0), Some(1)), None);
    }

    #[test]
    fn silence_counts_from_the_last_sign_of_life_of_any_kind() {
        let silent = |answered, heard| found(SignOfLife::Silence, answered, heard);
        let after = |seconds| Some(Doubt::Silent(Duration::from_secs(seconds)));
        assert_eq!(silent(None, None), None, "never there for this process");
        assert_eq!(silent(None, Some(119)), after(119));
        assert_eq!(silent(None, Some(120)), None);
        assert_eq!(silent(Some(7), Some(500)), after(7), "it hung");
        assert_eq!(silent(Some(500), Some(500)), None);
    }

    #[test]
    fn member_that_takes_connections_runs_and_one_not_called_may() {
        let mut signs = Signs::default();
        signs.is_linked = true;
        assert_eq!(doubt(NOW, &signs, |_| true), Some(Doubt::Connected));
        signs.is_linked = false;
        assert_eq!(doubt(NOW, &signs, |_| true), Some(Doubt::NotCalled));
    }
}
