//! Configurations, and what members say to join one, as bytes.
//!
//! Members ascend by id, so a configuration has exactly one encoding; any other order is refused.

use std::collections::BTreeMap;

use synod_consensus::{Config, ConfigAt, Member, MemberId, Role};

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, EncodeError};
use crate::layout::{
    ADDRESS, CERTIFICATE, Codec, Each, List, MEMBERS_MAX, Maybe, NAME, Name, Text, Wire, coded,
    record,
};
use crate::message::{IntroducedMember, Introduction, Join, JoinRefusal, JoinReply};

pub(crate) const CLIENT_ADDRESS: Name = Name::of("client address");
/// Id, role, has_data, two empty strings, the versions, and no certificate.
const MEMBER_BYTES_MIN: usize = 8 + 1 + 1 + 2 + 2 + 4 + 1;
/// Bytes of an [`IntroducedMember`] without address and certificate.
const INTRODUCED_BYTES_MIN: usize = 8 + 2 + 1;

record! {
    ConfigAt { index, config }
    Config { protocol, settings, protocol_is_held, members: Configured }
    Member {
        role, has_data, name: NAME, address: ADDRESS, versions, certificate: Maybe(CERTIFICATE)
    }
    Join {
        session, name: NAME, address: ADDRESS, incoming: CLIENT_ADDRESS, has_data, group, db_group,
        db_seqno, last, versions, has_joined
    }
    Introduction { index, members: Introduced }
    IntroducedMember { member, address: ADDRESS, certificate: Maybe(CERTIFICATE) }
}
coded! { "role": Role {
    0 () [Role::Voter]
    1 () [Role::Learner]
} }
coded! { "answer to a join": JoinReply {
    0 (group) [JoinReply::Accepted { group }]
    1 (leader: Maybe(MemberAt)) [JoinReply::NotLeader { leader }]
    2 (reason, text: Text) [JoinReply::Refused { reason, text }]
    3 (text: Text) [JoinReply::Retry { text }]
} }
coded! { "refusal of a join": JoinRefusal {
    0 () [JoinRefusal::WrongGroup]
    1 () [JoinRefusal::NameTaken]
    2 () [JoinRefusal::UnknownVersion]
    3 () [JoinRefusal::GroupFull]
    4 () [JoinRefusal::CertificateMismatch]
    5 () [JoinRefusal::Removed]
} }

struct Configured;

impl Codec<BTreeMap<MemberId, Member>> for Configured {
    fn write(
        &self,
        members: &BTreeMap<MemberId, Member>,
        w: &mut Writer,
    ) -> Result<(), EncodeError> {
        w.count("members", members.len(), MEMBERS_MAX)?;
        members.iter().try_for_each(|(id, member)| {
            id.write(w)?;
            member.write(w)
        })
    }

    fn read(&self, r: &mut Reader) -> Result<BTreeMap<MemberId, Member>, DecodeError> {
        let count = r.count("members", MEMBER_BYTES_MIN, MEMBERS_MAX)?;
        let mut members = BTreeMap::new();
        for _ in 0..count {
            let id = MemberId::read(r)?;
            if members
                .last_key_value()
                .is_some_and(|(last, _)| *last >= id)
            {
                return Err(DecodeError::NotAscending { what: "members" });
            }
            members.insert(id, Member::read(r)?);
        }
        Ok(members)
    }
}

struct Introduced;

const INTRODUCED: List<Each> = List {
    what: "members",
    bytes_min: INTRODUCED_BYTES_MIN,
    each: Each,
};

impl Codec<Vec<IntroducedMember>> for Introduced {
    fn write(&self, members: &Vec<IntroducedMember>, w: &mut Writer) -> Result<(), EncodeError> {
        INTRODUCED.write(members, w)
    }

    fn read(&self, r: &mut Reader) -> Result<Vec<IntroducedMember>, DecodeError> {
        let members: Vec<IntroducedMember> = INTRODUCED.read(r)?;
        if members.is_sorted_by(|one, next| one.member < next.member) {
            return Ok(members);
        }
        Err(DecodeError::NotAscending { what: "members" })
    }
}

struct MemberAt;

impl Codec<(MemberId, String)> for MemberAt {
    fn write(&self, (id, address): &(MemberId, String), w: &mut Writer) -> Result<(), EncodeError> {
        id.write(w)?;
        ADDRESS.write(address, w)
    }

    fn read(&self, r: &mut Reader) -> Result<(MemberId, String), DecodeError> {
        Ok((MemberId::read(r)?, ADDRESS.read(r)?))
    }
}
