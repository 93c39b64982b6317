//! The control file: small state that changes rarely, replaced as a whole. Replacing it takes four
//! steps: write a new file, sync it, rename it over the old one, sync the directory. After a crash
//! there is the old state or the new one. It is never on the commit path: threads of their own
//! replace it when the next segment is ready and for a purge, the writer for a reset, a group, a
//! jump of the term, and a clean end.

use std::path::Path;

use synod_consensus::{EntryId, GroupId, LogBase, MemberId, Term};

use crate::LogError;
use crate::files::{Files, OpenMode, read_full_at, replace_file};
use crate::format::codec::{Fields, OtherVersion, PutFields, Unreadable, put_base, take_base};
use crate::format::names::{control_path, control_temp_path};
use crate::format::record::Mismatch;
use crate::format::segment::{SegmentHeader, USED_BYTES};
use crate::format::version::{LogFormat, NEXT_MARK};

const MAGIC: &[u8; 8] = b"SYNODCTL";
/// Magic, version, checksum, body length.
const PREFIX_BYTES: usize = 20;
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A vote whose term is this far above the term noted in the control file is written only after its
/// term is noted. Elections never get there. Terms jump in two cases only: an operator forces a
/// primary without a majority, or a member is repaired that does not know its promises.
pub(crate) const TERMS_NOTED: u64 = 1 << 31;
const NOTED_TERM_BYTES: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The member; a random number from when the log was created.
    pub member: MemberId,
    pub group: GroupId,
}

/// A position in the stream of records. Segment zero: before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamPosition {
    pub(crate) segment: u64,
    pub(crate) offset: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    pub(crate) format: LogFormat,
    pub(crate) identity: Identity,
    /// Lowest segment that belongs to the log; lower ones are leftovers of a purge. Zero: the first
    /// segment does not exist yet.
    pub(crate) first_segment: u64,
    /// Everything before this was durable when the file was written.
    pub(crate) floor: StreamPosition,
    /// The highest segment made, used or not: a start notices if its file is lost. Zero: none.
    pub(crate) newest_segment: u64,
    /// Start of the log, unless the stream holds a reset: the base of a reset is as new or newer.
    /// (A purge that moves the base beyond that of a reset removes the segment with the reset.)
    pub(crate) base: LogBase,
    /// Under repair until the log reaches this entry again.
    pub(crate) repair_until: Option<EntryId>,
    /// All terms that the member has ever been in are less than [`TERMS_NOTED`] above this one.
    pub(crate) noted_term: Term,
    /// A repair was decided and is to be carried out: what follows the good part of the log is set
    /// aside, and the stream continues in this segment.
    pub(crate) repair_segment: Option<Box<SegmentHeader>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ControlFile {
    Absent,
    Valid(Control),
    OtherVersion(OtherVersion),
    Damaged(Mismatch),
}

impl Control {
    pub(crate) fn unstarted(member: MemberId) -> Control {
        Control {
            format: LogFormat::default(),
            identity: Identity {
                member,
                group: GroupId::NONE,
            },
            first_segment: 0,
            floor: StreamPosition::default(),
            newest_segment: 0,
            base: LogBase::default(),
            repair_until: None,
            noted_term: Term(0),
            repair_segment: None,
        }
    }

    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        body.put_u64(self.identity.member.0);
        body.extend_from_slice(&self.identity.group.0);
        body.put_u64(self.first_segment);
        body.put_u64(self.floor.segment);
        body.put_u64(self.floor.offset);
        body.put_u64(self.newest_segment);
        if self.format.has_next_mark() {
            body.extend_from_slice(NEXT_MARK);
        }
        put_base(&mut body, &self.base)?;
        body.put_id(self.repair_until.unwrap_or_default());
        if self.noted_term != Term(0) {
            body.put_u64(self.noted_term.0);
        }
        if let Some(segment) = &self.repair_segment {
            body.extend_from_slice(&segment.encode());
        }
        let mut rest = u32::try_from(body.len()).ok()?.to_le_bytes().to_vec();
        rest.append(&mut body);
        let mut out = MAGIC.to_vec();
        out.put_u32(self.format.number());
        out.put_u32(self.format.checksum(&rest));
        out.append(&mut rest);
        Some(out)
    }

    pub(crate) fn decode(bytes: &[u8]) -> ControlFile {
        let mismatch = |found: &str| ControlFile::Damaged(Mismatch::new("a control file", found));
        let mut fields = Fields::new(bytes);
        if fields.bytes(8) != Some(MAGIC) {
            return mismatch("other bytes");
        }
        let (Some(version), Some(crc), Some(len)) = (fields.u32(), fields.u32(), fields.u32())
        else {
            return mismatch("a shorter file");
        };
        let Some(format) = LogFormat::read(version) else {
            return ControlFile::OtherVersion(OtherVersion::of_format(version));
        };
        let body = &bytes[PREFIX_BYTES..];
        if body.len() as u64 != u64::from(len) {
            return mismatch("another length");
        }
        let found = format.checksum(&bytes[PREFIX_BYTES - 4..]);
        if found != crc {
            return mismatch(&format!("checksum {found:08x} instead of {crc:08x}"));
        }
        match decode_body(&mut fields, format) {
            Ok(control) if fields.is_empty() => ControlFile::Valid(control),
            Err(Unreadable::Version(other)) => ControlFile::OtherVersion(other),
            Ok(_) | Err(Unreadable::Fields) => mismatch("fields that do not fit"),
        }
    }

    /// Whether no segment was ever made: so nothing was written, purged, reset or damaged.
    pub(crate) fn is_unstarted(&self) -> bool {
        self.first_segment == 0
            && self.floor == StreamPosition::default()
            && self.newest_segment == 0
            && self.base == LogBase::default()
            && self.repair_until.is_none()
            && self.repair_segment.is_none()
    }

    pub(crate) fn read(files: &dyn Files, dir: &Path) -> Result<ControlFile, LogError> {
        let path = control_path(dir);
        let file = match files.open(&path, OpenMode::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(ControlFile::Absent);
            }
            Err(error) => return Err(LogError::io("open", &path, 0, error)),
        };
        let read = file.len().and_then(|len| {
            let mut bytes = vec![0; len.min(FILE_BYTES_MAX) as usize]; // at most 1 MiB
            let found = read_full_at(&*file, &mut bytes, 0)?;
            bytes.truncate(found);
            Ok(bytes)
        });
        let bytes = read.map_err(|error| LogError::io("read", &path, 0, error))?;
        Ok(Control::decode(&bytes))
    }

    /// Replaces the control file; durable on return.
    pub(crate) fn write(&self, files: &dyn Files, dir: &Path) -> Result<(), LogError> {
        let bytes = self.encode().ok_or(LogError::TooLarge {
            index: self.base.last.index,
            bytes: FILE_BYTES_MAX,
            max: FILE_BYTES_MAX,
        })?;
        let (temp, path) = (control_temp_path(dir), control_path(dir));
        replace_file(files, &temp, &path, &bytes)
            .map_err(|error| LogError::io("replace", &path, bytes.len() as u64, error))
    }
}

fn decode_body(fields: &mut Fields<'_>, format: LogFormat) -> Result<Control, Unreadable> {
    let start = decode_start(fields, format).ok_or(Unreadable::Fields)?;
    let base = take_base(fields)?;
    decode_end(fields, format, start, base).ok_or(Unreadable::Fields)
}

struct Start {
    identity: Identity,
    first_segment: u64,
    floor: StreamPosition,
    newest_segment: u64,
}

fn decode_start(fields: &mut Fields<'_>, format: LogFormat) -> Option<Start> {
    let identity = Identity {
        member: MemberId(fields.u64()?),
        group: fields.group()?,
    };
    let first_segment = fields.u64()?;
    let floor = StreamPosition {
        segment: fields.u64()?,
        offset: fields.u64()?,
    };
    let newest_segment = fields.u64()?;
    if format.has_next_mark() && fields.bytes(NEXT_MARK.len())? != NEXT_MARK {
        return None;
    }
    Some(Start {
        identity,
        first_segment,
        floor,
        newest_segment,
    })
}

fn decode_end(
    fields: &mut Fields<'_>,
    format: LogFormat,
    start: Start,
    base: LogBase,
) -> Option<Control> {
    let until = fields.id()?;
    let rest = fields.rest();
    // A segment header is much longer.
    let (noted_term, rest) = match rest.len() % USED_BYTES {
        NOTED_TERM_BYTES => rest.split_at(NOTED_TERM_BYTES),
        _ => (&[][..], rest),
    };
    let noted_term = if noted_term.is_empty() {
        0
    } else {
        // Zero has no encoding.
        Fields::new(noted_term).u64().filter(|term| *term > 0)?
    };
    let repair_segment = if rest.is_empty() {
        None
    } else {
        Some(Box::new(take_segment_header(rest)?))
    };
    let Start {
        identity,
        first_segment,
        floor,
        newest_segment,
    } = start;
    Some(Control {
        format,
        identity,
        first_segment,
        floor,
        newest_segment,
        base,
        repair_until: (until != EntryId::default()).then_some(until),
        noted_term: Term(noted_term),
        repair_segment,
    })
}

fn take_segment_header(bytes: &[u8]) -> Option<SegmentHeader> {
    let header = SegmentHeader::decode(bytes).ok()?;
    (header.encode() == bytes).then_some(header)
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_consensus::{
        Config, ConfigAt, EntryId, GroupId, LogIndex, Member, Role, Seqno, Term, VersionRange,
    };

    #[test]
    fn a_control_file_with_any_history_is_started() {
        let unstarted = Control::unstarted(MemberId(7));
        let mut with_segment = unstarted.clone();
        with_segment.first_segment = 1;
        let mut with_floor = unstarted.clone();
        with_floor.floor.segment = 2;
        let mut with_base = unstarted.clone();
        with_base.base.last.index = LogIndex(100);
        let mut with_repair = unstarted.clone();
        with_repair.repair_until = Some(EntryId::new(Term(1), LogIndex(1)));
        assert!(unstarted.is_unstarted());
        for control in [with_segment, with_floor, with_base, with_repair] {
            assert!(!control.is_unstarted(), "{control:?}");
        }
    }

    #[test]
    fn control_comes_back_and_every_flipped_bit_is_detected() {
        let member = Member {
            role: Role::Learner,
            has_data: true,
            name: "n1".into(),
            address: "h:4567".into(),
            versions: VersionRange { min: 1, max: 1 },
            certificate: None,
        };
        let config = Config {
            protocol: 1,
            members: [(MemberId(7), member)].into(),
            ..Config::default()
        };
        let base = LogBase {
            last: EntryId::new(Term(1), LogIndex(2)),
            seqno: Seqno(2),
            config: ConfigAt {
                index: LogIndex(1),
                config,
            },
        };
        let control = Control {
            format: LogFormat::default(),
            identity: Identity {
                member: MemberId(7),
                group: GroupId([1; 16]),
            },
            first_segment: 3,
            floor: StreamPosition {
                segment: 4,
                offset: 5000,
            },
            newest_segment: 5,
            base,
            repair_until: None,
            noted_term: Term(0),
            repair_segment: None,
        };
        let bytes = control.encode().unwrap();
        assert_eq!(Control::decode(&bytes), ControlFile::Valid(control.clone()));
        // The configuration follows the identity, four numbers and the position of the base.
        let mut newer = bytes.clone();
        newer[PREFIX_BYTES + 56 + 36] = 9;
        let crc = control.format.checksum(&newer[16..]);
        newer[12..16].copy_from_slice(&crc.to_le_bytes());
        let ControlFile::OtherVersion(other) = Control::decode(&newer) else {
            panic!("a configuration of another version is not damage");
        };
        assert_eq!((other.what, other.found), ("configuration", 9));
        let segment = SegmentHeader {
            format: LogFormat::default(),
            number: 4,
            id: 9,
            size: 65536,
            member: MemberId(7),
            group: GroupId([1; 16]),
            predecessor: None,
            last: EntryId::default(),
            seqno: Seqno(0),
            vote: Default::default(),
            first_batch: 1,
            created_ms: 0,
            open: false,
        };
        let control = Control {
            repair_until: Some(EntryId::new(Term(4), LogIndex(70))),
            repair_segment: Some(Box::new(segment)),
            ..control
        };
        let mut bytes = control.encode().unwrap();
        assert_eq!(Control::decode(&bytes), ControlFile::Valid(control));
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(
                !matches!(Control::decode(&bytes), ControlFile::Valid(_)),
                "bit {bit}"
            );
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
