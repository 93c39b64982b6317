//! Configurations, and what members say to join one, as bytes.
//!
//! Members ascend by id, so a configuration has exactly one encoding; any other order is refused.

use std::collections::BTreeMap;

use synod_consensus::{
    Config, ConfigAt, GroupId, LogIndex, Member, MemberId, Role, Seqno, SessionId, VersionRange,
    Writers,
};

use crate::codec::{Reader, Writer};
use crate::consensus_codec::{read_entry_id, write_entry_id};
use crate::error::{DecodeError, EncodeError};
use crate::message::{IntroducedMember, Introduction, Join, JoinRefusal, JoinReply};

pub(crate) const NAME_MAX: usize = 512;
const SUBJECT_MAX: usize = 1024;
pub(crate) const MEMBERS_MAX: u32 = 1024;
/// Id, role, has_data, two empty strings, the versions, and no certificate.
const MEMBER_BYTES_MIN: usize = 8 + 1 + 1 + 2 + 2 + 4 + 1;
/// Bytes of an [`IntroducedMember`] without address and certificate.
const INTRODUCED_BYTES_MIN: usize = 8 + 2 + 1;

pub(crate) fn write_config_at(w: &mut Writer, at: &ConfigAt) -> Result<(), EncodeError> {
    w.u64(at.index.0);
    w.u16(at.config.protocol);
    write_writers(w, at.config.writers);
    w.bool(at.config.protocol_is_held);
    w.count("members", at.config.members.len(), MEMBERS_MAX)?;
    for (id, member) in &at.config.members {
        w.u64(id.0);
        w.u8(member.role as u8);
        w.bool(member.has_data);
        w.string("name", &member.name, NAME_MAX)?;
        w.string("address", &member.address, NAME_MAX)?;
        w.u16(member.versions.min);
        w.u16(member.versions.max);
        write_certificate(w, member.certificate.as_deref())?;
    }
    Ok(())
}

pub(crate) fn read_config_at(r: &mut Reader) -> Result<ConfigAt, DecodeError> {
    let index = LogIndex(r.u64()?);
    let protocol = r.u16()?;
    let writers = read_writers(r)?;
    let protocol_is_held = r.bool()?;
    let count = r.count("members", MEMBER_BYTES_MIN, MEMBERS_MAX)?;
    let mut members: BTreeMap<MemberId, Member> = BTreeMap::new();
    for _ in 0..count {
        let id = MemberId(r.u64()?);
        if members
            .last_key_value()
            .is_some_and(|(last, _)| *last >= id)
        {
            return Err(DecodeError::NotAscending { what: "members" });
        }
        members.insert(id, read_member(r)?);
    }
    Ok(ConfigAt {
        index,
        config: Config {
            protocol,
            protocol_is_held,
            writers,
            members,
        },
    })
}

pub(crate) fn write_writers(w: &mut Writer, writers: Writers) {
    w.u8(writers as u8);
}

pub(crate) fn read_writers(r: &mut Reader) -> Result<Writers, DecodeError> {
    let code = r.u8()?;
    Writers::from_code(code).ok_or(DecodeError::unknown("writers", code))
}

fn write_certificate(w: &mut Writer, subject: Option<&str>) -> Result<(), EncodeError> {
    w.bool(subject.is_some());
    match subject {
        Some(subject) => w.string("certificate", subject, SUBJECT_MAX),
        None => Ok(()),
    }
}

fn read_certificate(r: &mut Reader) -> Result<Option<String>, DecodeError> {
    let is_bound = r.bool()?;
    is_bound
        .then(|| r.string("certificate", SUBJECT_MAX))
        .transpose()
}

fn read_member(r: &mut Reader) -> Result<Member, DecodeError> {
    let role = match r.u8()? {
        0 => Role::Voter,
        1 => Role::Learner,
        code => return Err(DecodeError::unknown("role", code)),
    };
    Ok(Member {
        role,
        has_data: r.bool()?,
        name: r.string("name", NAME_MAX)?,
        address: r.string("address", NAME_MAX)?,
        versions: VersionRange {
            min: r.u16()?,
            max: r.u16()?,
        },
        certificate: read_certificate(r)?,
    })
}

pub(crate) fn write_join(w: &mut Writer, join: &Join) -> Result<(), EncodeError> {
    w.u64(join.session.0);
    w.string("name", &join.name, NAME_MAX)?;
    w.string("address", &join.address, NAME_MAX)?;
    w.string("client address", &join.incoming, NAME_MAX)?;
    w.bool(join.has_data);
    w.bytes(&join.group.0);
    w.bytes(&join.db_group.0);
    w.i64(join.db_seqno.0);
    write_entry_id(w, join.last);
    w.u16(join.versions.min);
    w.u16(join.versions.max);
    w.bool(join.has_joined);
    Ok(())
}

pub(crate) fn read_join(r: &mut Reader) -> Result<Join, DecodeError> {
    Ok(Join {
        session: SessionId(r.u64()?),
        name: r.string("name", NAME_MAX)?,
        address: r.string("address", NAME_MAX)?,
        incoming: r.string("client address", NAME_MAX)?,
        has_data: r.bool()?,
        group: GroupId(r.array()?),
        db_group: GroupId(r.array()?),
        db_seqno: Seqno(r.i64()?),
        last: read_entry_id(r)?,
        versions: VersionRange {
            min: r.u16()?,
            max: r.u16()?,
        },
        has_joined: r.bool()?,
    })
}

pub(crate) fn write_join_reply(w: &mut Writer, reply: &JoinReply) -> Result<(), EncodeError> {
    match reply {
        JoinReply::Accepted { group } => {
            w.u8(0);
            w.bytes(&group.0);
        }
        JoinReply::NotLeader { leader } => {
            w.u8(1);
            w.bool(leader.is_some());
            if let Some((member, address)) = leader {
                w.u64(member.0);
                w.string("address", address, NAME_MAX)?;
            }
        }
        JoinReply::Refused { reason, text } => {
            w.u8(2);
            w.u8(*reason as u8);
            w.text(text);
        }
        JoinReply::Retry { text } => {
            w.u8(3);
            w.text(text);
        }
    }
    Ok(())
}

pub(crate) fn read_join_reply(r: &mut Reader) -> Result<JoinReply, DecodeError> {
    Ok(match r.u8()? {
        0 => JoinReply::Accepted {
            group: GroupId(r.array()?),
        },
        1 => {
            let leader = if r.bool()? {
                Some((MemberId(r.u64()?), r.string("address", NAME_MAX)?))
            } else {
                None
            };
            JoinReply::NotLeader { leader }
        }
        2 => JoinReply::Refused {
            reason: read_join_refusal(r)?,
            text: r.text()?,
        },
        3 => JoinReply::Retry { text: r.text()? },
        code => return Err(DecodeError::unknown("answer to a join", code)),
    })
}

fn read_join_refusal(r: &mut Reader) -> Result<JoinRefusal, DecodeError> {
    Ok(match r.u8()? {
        0 => JoinRefusal::WrongGroup,
        1 => JoinRefusal::NameTaken,
        2 => JoinRefusal::UnknownVersion,
        3 => JoinRefusal::GroupFull,
        4 => JoinRefusal::CertificateMismatch,
        5 => JoinRefusal::Removed,
        code => return Err(DecodeError::unknown("refusal of a join", code)),
    })
}

pub(crate) fn write_introduction(
    w: &mut Writer,
    introduction: &Introduction,
) -> Result<(), EncodeError> {
    w.u64(introduction.index.0);
    w.count("members", introduction.members.len(), MEMBERS_MAX)?;
    for introduced in &introduction.members {
        w.u64(introduced.member.0);
        w.string("address", &introduced.address, NAME_MAX)?;
        write_certificate(w, introduced.certificate.as_deref())?;
    }
    Ok(())
}

pub(crate) fn read_introduction(r: &mut Reader) -> Result<Introduction, DecodeError> {
    let index = LogIndex(r.u64()?);
    let count = r.count("members", INTRODUCED_BYTES_MIN, MEMBERS_MAX)?;
    let mut members: Vec<IntroducedMember> = Vec::with_capacity(count);
    for _ in 0..count {
        let introduced = IntroducedMember {
            member: MemberId(r.u64()?),
            address: r.string("address", NAME_MAX)?,
            certificate: read_certificate(r)?,
        };
        if members
            .last()
            .is_some_and(|last| last.member >= introduced.member)
        {
            return Err(DecodeError::NotAscending { what: "members" });
        }
        members.push(introduced);
    }
    Ok(Introduction { index, members })
}
