//! The leader's plan for an order about the group's protocol version. The version goes up only:
//! entries in the logs of all members may be written as only programs of the present version read
//! them, for days, and so may the logs themselves.

use synod_consensus::ConfigChange;
use synod_wire::{CommandRefusal, RefusalReason};

use super::plan::{Facts, Plan, refuse};

/// Plans the steps for an order that the group speak this version, or, with none, that its version
/// rise by itself.
pub(super) fn set_protocol(
    facts: &Facts,
    version: Option<u16>,
    force: bool,
) -> Result<Plan, CommandRefusal> {
    let Some(version) = version else {
        return release(facts, force);
    };
    let (present, is_held) = (facts.config.protocol, facts.config.protocol_is_held);
    if version < present {
        let text = format!(
            "the group speaks protocol version {present}, and no group goes back: logs of its \
             members hold what programs of version {version} do not read. Going back to an older \
             program is possible only before the version is raised. To undo an upgrade now, \
             restore a backup of before it"
        );
        return Err(refuse(RefusalReason::ProtocolFell, text));
    }
    if version == present && is_held {
        let text = format!("the group is held at version {version} already: nothing is changed");
        return Err(refuse(RefusalReason::AlreadySo, text));
    }
    check_spoken(facts, version)?;
    if version > present && !force {
        check_all_answer(facts, version)?;
    }
    Ok(Plan::Change(vec![ConfigChange::HoldProtocol(version)]))
}

fn release(facts: &Facts, force: bool) -> Result<Plan, CommandRefusal> {
    if !facts.config.protocol_is_held {
        let text = "the group's protocol version rises by itself already: nothing is changed";
        return Err(refuse(RefusalReason::AlreadySo, text));
    }
    match facts.config.newer_protocol() {
        Some(newer) if !force => check_all_answer(facts, newer)?,
        _ => {}
    }
    Ok(Plan::Change(vec![ConfigChange::ReleaseProtocol]))
}

fn check_spoken(facts: &Facts, version: u16) -> Result<(), CommandRefusal> {
    let members = facts.config.members.values();
    let unable = members.filter(|member| !member.versions.contains(version));
    let unable: Vec<String> = unable
        .map(|member| format!("{} ({})", member.name, member.versions))
        .collect();
    if unable.is_empty() {
        return Ok(());
    }
    let text = format!(
        "these members run programs that do not speak protocol version {version}: {}. Upgrade them \
         first, or remove members that are gone",
        unable.join(", ")
    );
    Err(refuse(RefusalReason::NotSpoken, text))
}

/// A member that is stopped may come back with an older program, which would then be refused.
fn check_all_answer(facts: &Facts, version: u16) -> Result<(), CommandRefusal> {
    let silent = facts.config.members.keys();
    let silent: Vec<String> = silent
        .filter(|id| !facts.answers(**id))
        .map(|id| facts.name(*id))
        .collect();
    if silent.is_empty() {
        return Ok(());
    }
    let text = format!(
        "these members do not answer: {}. Should they come back with a program that does not speak \
         protocol version {version}, they would be refused. Start them first",
        silent.join(", ")
    );
    Err(refuse(RefusalReason::MemberSilent, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use synod_consensus::{Config, Member, MemberId, Role, VersionRange};

    /// Members db1, db2 and so on speak version 1 to these.
    fn config(protocol: u16, is_held: bool, newest: &[u16]) -> Config {
        let member = |(place, newest): (usize, &u16)| {
            let member = Member {
                role: Role::Voter,
                has_data: true,
                name: format!("db{}", place + 1),
                address: format!("db{}:1", place + 1),
                versions: VersionRange {
                    min: 1,
                    max: *newest,
                },
                certificate: None,
            };
            (MemberId(place as u64 + 1), member)
        };
        Config {
            protocol,
            protocol_is_held: is_held,
            members: newest.iter().enumerate().map(member).collect(),
            ..Config::default()
        }
    }

    fn ask(
        config: &Config,
        answering: &[u64],
        version: Option<u16>,
        force: bool,
    ) -> Result<Plan, CommandRefusal> {
        let answering: BTreeSet<MemberId> = answering.iter().map(|id| MemberId(*id)).collect();
        let facts = Facts {
            config,
            answering: &answering,
            is_caught_up: &|_| true,
            is_whole: &|_| true,
        };
        set_protocol(&facts, version, force)
    }

    fn refused(config: &Config, version: Option<u16>) -> (RefusalReason, String) {
        let refusal = ask(config, &[1, 2], version, false).expect_err("a refusal");
        (refusal.reason, refusal.text)
    }

    fn held(version: u16) -> Result<Plan, CommandRefusal> {
        Ok(Plan::Change(vec![ConfigChange::HoldProtocol(version)]))
    }

    #[test]
    fn present_version_is_held_and_a_newer_one_is_reached_by_order() {
        let new = config(5, false, &[6, 6]);
        assert_eq!(ask(&new, &[1, 2], Some(5), false), held(5));
        assert_eq!(ask(&new, &[1, 2], Some(6), false), held(6));
        let (reason, _) = refused(&config(5, true, &[6, 6]), Some(5));
        assert_eq!(reason, RefusalReason::AlreadySo);
    }

    #[test]
    fn version_never_goes_back() {
        let (reason, text) = refused(&config(6, true, &[6, 6]), Some(5));
        assert_eq!(reason, RefusalReason::ProtocolFell);
        assert!(text.contains("only before the version is raised"), "{text}");
    }

    #[test]
    fn members_that_do_not_speak_the_version_are_named() {
        let (reason, text) = refused(&config(5, true, &[6, 5]), Some(6));
        assert_eq!(reason, RefusalReason::NotSpoken);
        assert!(text.contains("db2 (versions 1 to 5)"), "{text}");
        assert!(!text.contains("db1"), "{text}");
    }

    #[test]
    fn silent_member_may_have_another_program_by_now() {
        let held_at_5 = config(5, true, &[6, 6]);
        let refusal = ask(&held_at_5, &[1], Some(6), false).expect_err("db2 is silent");
        assert_eq!(refusal.reason, RefusalReason::MemberSilent);
        assert!(refusal.text.contains("db2"), "{}", refusal.text);
        assert_eq!(ask(&held_at_5, &[1], Some(6), true), held(6));
        let risen = config(5, false, &[6, 6]);
        assert_eq!(
            ask(&risen, &[1], Some(5), false),
            held(5),
            "nothing is lost"
        );
    }

    #[test]
    fn version_is_released_once() {
        let released = Ok(Plan::Change(vec![ConfigChange::ReleaseProtocol]));
        assert_eq!(ask(&config(5, true, &[5, 5]), &[1], None, false), released);
        let silent = ask(&config(5, true, &[6, 6]), &[1], None, false);
        assert!(silent.is_err_and(|refusal| refusal.reason == RefusalReason::MemberSilent));
        assert_eq!(ask(&config(5, true, &[6, 6]), &[1], None, true), released);
        let (reason, _) = refused(&config(5, false, &[5]), None);
        assert_eq!(reason, RefusalReason::AlreadySo);
    }
}
