//! Finds the member that an operator means.

use synod_consensus::{Config, MemberId};
use synod_wire::{CommandRefusal, RefusalReason};

use super::plan::refuse;

/// The member that an operator has named: by its id, its address, or its name if that is its alone.
pub(in crate::driver) fn find(config: &Config, text: &str) -> Result<MemberId, CommandRefusal> {
    let members = || config.members.iter();
    let exact = members().find(|(id, member)| member.address == text || id.to_string() == text);
    if let Some((id, _)) = exact {
        return Ok(*id);
    }
    let mut namesakes = members().filter(|(_, member)| member.name == text);
    match (namesakes.next(), namesakes.next()) {
        (Some((id, _)), None) => Ok(*id),
        (Some(_), Some(_)) => Err(refuse(
            RefusalReason::AmbiguousName,
            format!(
                "several members are called '{text}': name it by its address. Members: {}",
                listed(config)
            ),
        )),
        (None, _) => Err(refuse(
            RefusalReason::UnknownMember,
            format!("no member is called '{text}'. Members: {}", listed(config)),
        )),
    }
}

pub(super) fn name_of(config: &Config, id: MemberId) -> String {
    let known = config.members.get(&id);
    known.map_or_else(|| format!("member {id}"), |member| member.name.clone())
}

fn listed(config: &Config) -> String {
    let members = config.members.values();
    let texts: Vec<String> = members
        .map(|member| format!("{} at {}", member.name, member.address))
        .collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::example_groups::{self, voter};

    #[test]
    fn member_is_found_by_name_address_or_id() {
        let members = [(1, "a", "a:1"), (2, "same", "b:1"), (3, "same", "c:1")];
        let config = example_groups::of(members.map(|(id, name, at)| (id, voter(name, at))));
        let find = |text: &str| find(&config, text).map_err(|refusal| refusal.reason);
        assert_eq!(find("a"), Ok(MemberId(1)));
        assert_eq!(find("c:1"), Ok(MemberId(3)));
        assert_eq!(find(&MemberId(2).to_string()), Ok(MemberId(2)));
        assert_eq!(find("same"), Err(RefusalReason::AmbiguousName));
        assert_eq!(find("d"), Err(RefusalReason::UnknownMember));
    }
}
