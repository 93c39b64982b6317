//! The record of a member about its database: all that the database itself does not say.
//!
//! A storage engine's position is no proof: a server moves it over an action that failed there, and
//! half a copy has a position, too. So what makes it wrong is noted beside the log, before anything
//! depends on it.
//!
//! The file has one sector, made when the member starts and overwritten in place since: that works
//! on a full disk, and a disk writes a sector whole or not at all. It is text, for operators:
//!
//! ```text
//! synod database record 1
//! group 6b1a2c3d-0102-11ef-8a3b-0242ac120002
//! behind 41 42 1114 1
//! again 41
//! crc32c 8e1f0a77
//! ```

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use synod_consensus::{GroupId, MemberId, Seqno, SessionId};
use synod_planted::planted;

use crate::LogError;
use crate::files::{File, FileLock, Files, OpenMode, read_full_at, write_all_at};
use crate::recovery::open::lock;

pub(crate) const RECORD_BYTES: usize = 512;
const HEAD: &str = "synod database record 1";
pub(crate) const CHECK: &str = "crc32c ";
/// Most streamed transactions that are noted.
pub const STREAMS_MAX: usize = 5;
pub const SETTLED_MAX: usize = 32;
/// Room for them. They lie close together: clients sent them while a decision was open.
const SETTLED_BYTES: usize = 96;

#[must_use]
pub fn database_record_path(dir: &Path) -> PathBuf {
    dir.join("synod-database.log")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind {
    /// The last action that the database has. The next one failed, or was not let in.
    pub at: Seqno,
    /// The highest position that the engine may give without having what comes after `at`.
    pub engine_says: Seqno,
    /// The server's number of the error; zero: not known, or none.
    pub error: u32,
    /// Failures of the action after `at` here; zero: it was not let in.
    pub failures: u32,
    /// The action after this one was applied again, or may have been, and the engine may not have
    /// flushed it: a position up to `engine_says` does not tell whether the database has it.
    pub applied_again_after: Option<Seqno>,
}

impl fmt::Display for Behind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, next) = (self.at, self.at.0.saturating_add(1));
        write!(f, "The data have all actions up to {at}; action {next} ")?;
        match (self.failures, self.error) {
            (0, _) => write!(f, "was not let in")?,
            (1, error) => write!(f, "has failed here, with error {error}")?,
            (many, error) => write!(f, "has failed here {many} times, last with error {error}")?,
        }
        write!(f, ", and is applied again")
    }
}

/// A statement in total order (TOI) that the server executes. If it fails, the server moves its
/// engine's position over it before it tells the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutingStatement {
    pub seqno: Seqno,
    /// The run of the operating system (its boot id). The note outlives a kill and not, for sure, a
    /// loss of power, after which it may be older than the engine's position.
    pub boot: u32,
}

/// Commits of streamed transactions that were rolled back here, and may be in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoubtfulStreams {
    pub member: MemberId,
    pub session: SessionId,
    pub transactions: Vec<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseRecord {
    pub group: GroupId,
    pub behind: Option<Behind>,
    /// The latest actions, ascending, at most [`SETTLED_MAX`], that failed here, and have ended
    /// since as on the other servers. Decisions about all may stand in the log behind the last of
    /// them. The file has those for which there is room, the latest first.
    pub settled: Vec<Seqno>,
    pub executing: Option<ExecutingStatement>,
    pub doubtful: Option<DoubtfulStreams>,
    /// A full copy was asked for: the data may be half of a copy.
    pub is_copying: bool,
    pub unusable: Option<String>,
    /// An operator has the data used as they are, whatever else says that they must not be.
    pub is_accepted: bool,
}

impl DatabaseRecord {
    #[must_use]
    pub fn needs_copy(&self) -> bool {
        self.is_copying || self.unusable.is_some()
    }

    #[must_use]
    pub fn defects(&self) -> Vec<String> {
        let mut defects = Vec::new();
        if let Some(why) = &self.unusable {
            defects.push(format!("Marked as not to be used: {why}."));
        }
        if self.is_copying {
            defects.push(
                "A full copy was asked for and did not end: part of the files may be another \
                 server's, and the server may not start with them."
                    .to_owned(),
            );
        }
        if let Some(behind) = self.behind {
            defects.push(format!("{behind}."));
        }
        if let Some(streams) = &self.doubtful {
            defects.push(format!(
                "The data lack {} streamed transactions that the group may have committed.",
                streams.transactions.len()
            ));
        }
        defects
    }

    fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut text = format!("{HEAD}\ngroup {}\n", self.group);
        if let Some(behind) = self.behind {
            let Behind {
                at,
                engine_says,
                error,
                failures,
                applied_again_after,
            } = behind;
            text += &format!("behind {} {} {error} {failures}\n", at.0, engine_says.0);
            if let Some(seqno) = applied_again_after {
                text += &format!("again {}\n", seqno.0);
            }
        }
        if let Some(settled) = encode_settled(&self.settled) {
            text += &settled;
        }
        if let Some(ExecutingStatement { seqno, boot }) = self.executing {
            text += &format!("executing {} {boot:x}\n", seqno.0);
        }
        if let Some(streams) = &self.doubtful {
            let (member, session) = (streams.member.0, streams.session.0);
            text += &format!("doubtful {member:x} {session:x}");
            for transaction in streams.transactions.iter().take(STREAMS_MAX) {
                text += &format!(" {transaction}");
            }
            text.push('\n');
        }
        if self.is_copying {
            text += "copying\n";
        }
        if self.is_accepted {
            text += "accepted\n";
        }
        if let Some(why) = &self.unusable {
            let why = why.replace(['\n', '\r'], " ");
            let room = RECORD_BYTES - text.len() - "unusable \n".len() - CHECK.len() - 10;
            text += &format!("unusable {}\n", &why[..why.floor_char_boundary(room)]);
        }
        sealed(&text)
    }

    /// A record is overwritten at each start, and must lose nothing by that: `None` if the bytes
    /// are damaged, or say more than would be written again.
    fn decode(bytes: &[u8; RECORD_BYTES]) -> Option<DatabaseRecord> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (body, check) = text.split_once(&format!("\n{CHECK}"))?;
        let body = text.get(..=body.len())?;
        let crc = u32::from_str_radix(check.trim_end(), 16).ok()?;
        if crc != crc32c::crc32c(body.as_bytes()) {
            return None;
        }
        let mut lines = body.lines();
        if lines.next()? != HEAD {
            return None;
        }
        let mut record = DatabaseRecord::default();
        for line in lines {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            match name {
                "group" => record.group = value.parse().ok()?,
                "behind" => record.behind = Some(decode_behind(value)?),
                "again" => {
                    let seqno = Seqno(value.parse().ok()?);
                    record.behind.as_mut()?.applied_again_after = Some(seqno);
                }
                "settled" => record.settled = decode_settled(value)?,
                "executing" => record.executing = Some(decode_executing(value)?),
                "doubtful" => record.doubtful = Some(decode_doubtful(value)?),
                "copying" => record.is_copying = true,
                "accepted" => record.is_accepted = true,
                "unusable" => record.unusable = Some(value.to_owned()),
                _ => return None,
            }
        }
        (record.encode() == *bytes).then_some(record)
    }
}

pub(crate) fn sealed(lines: &str) -> [u8; RECORD_BYTES] {
    let crc = crc32c::crc32c(lines.as_bytes());
    let text = format!("{lines}{CHECK}{crc:08x}\n");
    let mut bytes = [b' '; RECORD_BYTES];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    bytes[RECORD_BYTES - 1] = b'\n';
    bytes
}

fn decode_behind(value: &str) -> Option<Behind> {
    let mut words = value.split(' ');
    let behind = Behind {
        at: Seqno(words.next()?.parse().ok()?),
        engine_says: Seqno(words.next()?.parse().ok()?),
        error: words.next()?.parse().ok()?,
        failures: words.next()?.parse().ok()?,
        applied_again_after: None,
    };
    words.next().is_none().then_some(behind)
}

fn decode_executing(value: &str) -> Option<ExecutingStatement> {
    let (seqno, boot) = value.split_once(' ')?;
    Some(ExecutingStatement {
        seqno: Seqno(seqno.parse().ok()?),
        boot: u32::from_str_radix(boot, 16).ok()?,
    })
}

/// The latest one, and from there the distance of each to the one before it.
fn encode_settled(settled: &[Seqno]) -> Option<String> {
    let mut later = settled.last()?.0;
    let mut line = format!("settled {later}");
    for seqno in settled.iter().rev().take(SETTLED_MAX).skip(1) {
        let distance = format!(" {}", later - seqno.0);
        if line.len() + distance.len() >= SETTLED_BYTES {
            break;
        }
        line += &distance;
        later = seqno.0;
    }
    line.push('\n');
    Some(line)
}

fn decode_settled(value: &str) -> Option<Vec<Seqno>> {
    let mut words = value.split(' ');
    let mut settled = vec![Seqno(words.next()?.parse().ok()?)];
    for word in words {
        let distance: i64 = word.parse().ok()?;
        let later = settled.last()?.0;
        settled.push(Seqno(later.checked_sub(distance)?));
    }
    settled.reverse();
    Some(settled)
}

fn decode_doubtful(value: &str) -> Option<DoubtfulStreams> {
    let mut words = value.split(' ');
    let mut hex = || u64::from_str_radix(words.next()?, 16).ok();
    let (member, session) = (MemberId(hex()?), SessionId(hex()?));
    let transactions: Result<Vec<u64>, _> = words.map(str::parse).collect();
    Some(DoubtfulStreams {
        member,
        session,
        transactions: transactions.ok()?,
    })
}

#[derive(Debug, thiserror::Error)]
pub enum DatabaseRecordError {
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(
        "{} is damaged, or from a newer version: it says whether the data of this server may be \
         used. Have them replaced: 'synod copy --force --dir {}'. If you know that they are whole, \
         and this was never a server on which an action failed: remove the file",
        path.display(), path.parent().unwrap_or(path).display()
    )]
    Damaged { path: PathBuf },
}

pub struct DatabaseRecordFile {
    path: PathBuf,
    file: Arc<dyn File>,
}

impl DatabaseRecordFile {
    pub fn open(
        files: &dyn Files,
        dir: &Path,
    ) -> Result<(DatabaseRecordFile, DatabaseRecord), DatabaseRecordError> {
        let path = database_record_path(dir);
        let io = |doing: &'static str| {
            let path = path.clone();
            move |source| DatabaseRecordError::Io {
                doing,
                path,
                source,
            }
        };
        let read = |file: Arc<dyn File>| {
            let mut bytes = [0; RECORD_BYTES];
            let read = read_full_at(&*file, &mut bytes, 0).map_err(io("read"))?;
            let record = DatabaseRecord::decode(&bytes);
            // Shorter: it was being made when the member died, and said nothing yet.
            let is_new = read < RECORD_BYTES;
            Ok((file, is_new.then(DatabaseRecord::default).or(record)))
        };
        let (file, record) = match files.open(&path, OpenMode::Write) {
            Ok(file) => read(file)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                files.create_dir(dir).map_err(io("make the directory of"))?;
                let file = files.open(&path, OpenMode::Create).map_err(io("make"))?;
                (file, Some(DatabaseRecord::default()))
            }
            Err(error) => return Err(io("open")(error)),
        };
        let record = record.ok_or_else(|| DatabaseRecordError::Damaged { path: path.clone() })?;
        let opened = DatabaseRecordFile {
            path: path.clone(),
            file,
        };
        // Also where nothing changes: it shows now whether the file can be written.
        opened.write(&record)?;
        opened.file.sync_all().map_err(io("sync"))?;
        files.sync_dir(dir).map_err(io("sync the directory of"))?;
        Ok((opened, record))
    }

    /// Replaces the record, also on a full disk. Durable when it returns. After an error it is not
    /// known what is on the disk.
    pub fn write(&self, record: &DatabaseRecord) -> Result<(), DatabaseRecordError> {
        self.write_unsynced(record)?;
        let synced = planted!(RecordUnsynced, self.file.sync_data(), else Ok(()));
        synced.map_err(|source| self.unwritten(source))
    }

    /// Replaces the record for starts after a kill. A loss of power may leave the former one.
    pub fn write_unsynced(&self, record: &DatabaseRecord) -> Result<(), DatabaseRecordError> {
        let written = write_all_at(&*self.file, &record.encode(), 0);
        written.map_err(|source| self.unwritten(source))
    }

    fn unwritten(&self, source: io::Error) -> DatabaseRecordError {
        DatabaseRecordError::Io {
            doing: "write",
            path: self.path.clone(),
            source,
        }
    }
}

/// The record of a member that does not run. It cannot start while this lives.
pub struct StoppedMember<'a> {
    files: &'a dyn Files,
    dir: PathBuf,
    _lock: Box<dyn FileLock>,
}

impl<'a> StoppedMember<'a> {
    /// Locks the log in this directory, which must be there.
    pub fn find(files: &'a dyn Files, dir: &Path) -> Result<StoppedMember<'a>, LogError> {
        let control = crate::format::names::control_path(dir);
        let found = files.open(&control, OpenMode::Read);
        found.map_err(|error| LogError::io("open", &control, 0, error))?;
        Ok(StoppedMember {
            files,
            dir: dir.to_owned(),
            _lock: lock(files, dir)?,
        })
    }

    pub fn record(&self) -> Result<DatabaseRecord, DatabaseRecordError> {
        let opened = DatabaseRecordFile::open(self.files, &self.dir);
        opened.map(|(_, record)| record)
    }

    /// Replaces the record, also a damaged one.
    pub fn write(&self, record: &DatabaseRecord) -> Result<(), DatabaseRecordError> {
        let path = database_record_path(&self.dir);
        let opened = self.files.open(&path, OpenMode::Write);
        let opened = opened.or_else(|_| self.files.open(&path, OpenMode::Create));
        let file = opened.map_err(|source| DatabaseRecordError::Io {
            doing: "open",
            path: path.clone(),
            source,
        })?;
        DatabaseRecordFile { path, file }.write(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::MemoryFiles;

    fn full() -> DatabaseRecord {
        DatabaseRecord {
            group: GroupId([0xab; 16]),
            behind: Some(Behind {
                at: Seqno(i64::MAX - 1),
                engine_says: Seqno(i64::MAX),
                error: u32::MAX,
                failures: u32::MAX,
                applied_again_after: Some(Seqno(i64::MAX)),
            }),
            settled: vec![Seqno(i64::MAX); SETTLED_MAX],
            executing: Some(ExecutingStatement {
                seqno: Seqno(i64::MAX),
                boot: u32::MAX,
            }),
            doubtful: Some(DoubtfulStreams {
                member: MemberId(u64::MAX),
                session: SessionId(u64::MAX),
                transactions: vec![u64::MAX; STREAMS_MAX],
            }),
            is_copying: true,
            unusable: Some("it differs".to_owned()),
            is_accepted: true,
        }
    }

    fn open(files: &MemoryFiles) -> Result<(DatabaseRecordFile, DatabaseRecord), String> {
        DatabaseRecordFile::open(files, Path::new("log")).map_err(|error| error.to_string())
    }

    #[test]
    fn what_was_written_is_read_in_one_sector() {
        let files = MemoryFiles::new(1);
        let (file, record) = open(&files).unwrap();
        assert_eq!(record, DatabaseRecord::default());
        file.write(&full()).unwrap();
        assert_eq!(open(&files).unwrap().1, full());
        assert_eq!(file.file.len().unwrap(), RECORD_BYTES as u64);
        file.write(&DatabaseRecord::default()).unwrap();
        assert_eq!(open(&files).unwrap().1, DatabaseRecord::default());
    }

    #[test]
    fn reason_is_cut_to_the_room_that_is_left() {
        let record = DatabaseRecord {
            unusable: Some("ä\nö".repeat(400)),
            ..full()
        };
        let read = DatabaseRecord::decode(&record.encode()).unwrap();
        assert_eq!(read.doubtful, record.doubtful);
        assert!(read.unusable.unwrap().starts_with("ä öä ö"));
    }

    #[test]
    fn latest_settled_actions_have_room() {
        let read = |settled: Vec<i64>| {
            let record = DatabaseRecord {
                settled: settled.into_iter().map(Seqno).collect(),
                ..DatabaseRecord::default()
            };
            let read = DatabaseRecord::decode(&record.encode()).unwrap().settled;
            read.into_iter().map(|seqno| seqno.0).collect::<Vec<_>>()
        };
        let close: Vec<i64> = (i64::MAX - 31..=i64::MAX).collect();
        assert_eq!(read(close.clone()), close);
        let far = |count: i64| (0..count).map(|i| i * 1_000_000_000_000_000_000);
        assert_eq!(read(far(9).collect()), far(9).skip(5).collect::<Vec<_>>());
    }

    #[test]
    fn any_changed_byte_is_noticed_and_the_remedy_named() {
        let bytes = full().encode();
        let used = bytes.iter().rposition(|byte| byte.is_ascii_hexdigit());
        for at in 0..=used.unwrap() {
            let mut damaged = bytes;
            damaged[at] ^= 1;
            assert_eq!(DatabaseRecord::decode(&damaged), None, "byte {at}");
        }
        let files = MemoryFiles::new(1);
        let (file, _) = open(&files).unwrap();
        file.file.write_at(b"x", 3).unwrap();
        let error = open(&files).map(|_| ()).unwrap_err();
        assert!(
            error.contains("log/synod-database.log is damaged"),
            "{error}"
        );
        assert!(error.contains("synod copy --force --dir log"), "{error}");
    }

    #[test]
    fn record_of_which_a_part_would_be_lost_is_refused_and_not_overwritten() {
        let more = " 6".repeat(STREAMS_MAX + 1);
        for line in [
            format!("settled{}", " 6".repeat(SETTLED_MAX + 1)),
            format!("doubtful 1 2{more}"),
            "unusable it\rdiffers".to_owned(),
            "behind 1 2 3 4\nbehind 5 6 7 8".to_owned(),
            "copying till noon".to_owned(),
        ] {
            let group = GroupId([0xab; 16]);
            let bytes = sealed(&format!("{HEAD}\ngroup {group}\n{line}\n"));
            let files = MemoryFiles::new(1);
            let path = database_record_path(Path::new("log"));
            files.set_content(&path, bytes.to_vec());
            assert!(open(&files).is_err(), "{line}");
            assert_eq!(files.content(&path), Some(bytes.to_vec()), "{line}");
        }
    }

    #[test]
    fn defects_are_told_in_sentences() {
        assert!(DatabaseRecord::default().defects().is_empty());
        let behind = |failures| Behind {
            at: Seqno(41),
            engine_says: Seqno(42),
            error: 1114,
            failures,
            applied_again_after: None,
        };
        let [once, twice, shut_out] = [1, 2, 0].map(|failures| behind(failures).to_string());
        assert!(
            once.contains("42 has failed here, with error 1114"),
            "{once}"
        );
        assert!(twice.contains("2 times, last with error 1114"), "{twice}");
        assert!(shut_out.contains("42 was not let in"), "{shut_out}");
        let all = full().defects();
        assert_eq!(all.len(), 4);
        assert!(all[0].contains("not to be used: it differs"), "{all:?}");
        assert!(all[3].contains("lack 5 streamed"), "{all:?}");
    }

    #[test]
    fn record_that_was_being_made_says_nothing() {
        let files = MemoryFiles::new(1);
        let (file, _) = open(&files).unwrap();
        file.file.set_len(100).unwrap();
        assert_eq!(open(&files).unwrap().1, DatabaseRecord::default());
    }
}
