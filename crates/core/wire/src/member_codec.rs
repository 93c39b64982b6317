//! Configurations, and the names and addresses in them, as bytes.
//!
//! Members ascend by id, so a configuration has exactly one encoding; any other order is refused.

use std::collections::BTreeMap;

use synod_consensus::{Config, ConfigAt, LogIndex, Member, MemberId, Role, VersionRange, Writers};

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, EncodeError};
use crate::version::{VERSION_2, VERSION_5};

/// Longest name or address in bytes.
pub(crate) const NAME_MAX: usize = 512;
/// Longest subject of a certificate in bytes.
const SUBJECT_MAX: usize = 1024;
/// Most members in a list.
pub(crate) const MEMBERS_MAX: u32 = 1024;
/// Id, role, has_data, two empty strings, and the versions.
const MEMBER_BYTES_MIN: usize = 8 + 1 + 1 + 2 + 2 + 4;

pub(crate) fn write_config_at(w: &mut Writer, at: &ConfigAt) -> Result<(), EncodeError> {
    w.u64(at.index.0);
    w.u16(at.config.protocol);
    if w.version() >= VERSION_5 {
        write_writers(w, at.config.writers);
        w.bool(at.config.protocol_is_held);
    }
    w.count("members", at.config.members.len(), MEMBERS_MAX)?;
    for (id, member) in &at.config.members {
        w.u64(id.0);
        w.u8(member.role as u8);
        w.bool(member.has_data);
        w.string("name", &member.name, NAME_MAX)?;
        w.string("address", &member.address, NAME_MAX)?;
        w.u16(member.versions.min);
        w.u16(member.versions.max);
        if w.version() >= VERSION_2 {
            write_certificate(w, member.certificate.as_deref())?;
        }
    }
    Ok(())
}

pub(crate) fn read_config_at(r: &mut Reader) -> Result<ConfigAt, DecodeError> {
    let index = LogIndex(r.u64()?);
    let protocol = r.u16()?;
    let writers = if r.version() >= VERSION_5 {
        read_writers(r)?
    } else {
        Writers::Any
    };
    let protocol_is_held = r.version() >= VERSION_5 && r.bool()?;
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
    Writers::from_code(code).ok_or(DecodeError::UnknownCode {
        what: "writers",
        code,
    })
}

pub(crate) fn write_certificate(w: &mut Writer, subject: Option<&str>) -> Result<(), EncodeError> {
    w.bool(subject.is_some());
    match subject {
        Some(subject) => w.string("certificate", subject, SUBJECT_MAX),
        None => Ok(()),
    }
}

pub(crate) fn read_certificate(r: &mut Reader) -> Result<Option<String>, DecodeError> {
    if r.version() < VERSION_2 || !r.bool()? {
        return Ok(None);
    }
    r.string("certificate", SUBJECT_MAX).map(Some)
}

fn read_member(r: &mut Reader) -> Result<Member, DecodeError> {
    let role = match r.u8()? {
        0 => Role::Voter,
        1 => Role::Learner,
        code => return Err(DecodeError::UnknownCode { what: "role", code }),
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
