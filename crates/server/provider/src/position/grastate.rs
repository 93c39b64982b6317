//! `grastate.dat`: the position at the last clean stop, in Galera's format.
//!
//! A text file in the server's data directory that administrators, start scripts and operators read
//! and edit, and that state transfers leave alone. While the node runs, and after a crash, it says
//! "unknown" (seqno -1): then the engine's own position counts. It is never the source of truth for
//! anything but a clean stop.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use synod_node::{GroupId, RealFiles, replace_file};

pub const FILE_NAME: &str = "grastate.dat";
/// Line of a file whose `safe_to_bootstrap` is no order.
const LAST_MEMBER: &str = "# set by the server: the other members have left";
/// Line of a file that this library has written. Galera's drops comments.
const OWN_MARK: &str = "# written by Synod";
/// Line of a file that was taken over from Galera's library, until the group has the server.
const TAKEN_OVER: &str = "# taken over: the group is the one that Galera's library served";
/// Temporary name for writing a new version before renaming it. The suffix keeps it from being
/// deleted on a joiner.
const TEMPORARY_NAME: &str = "new.grastate.dat";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedPosition {
    /// The group; [`GroupId::NONE`] if never a member of one.
    pub group: GroupId,
    /// Last action in the database at a clean stop; -1: running, crashed, or unknown.
    pub seqno: i64,
    /// Whether Galera's tools may start a group from this node.
    pub safe_to_bootstrap: bool,
    /// Written by the server itself, as the only member left; else by an operator's order.
    pub last_member: bool,
    /// Galera's library, or a person, has written the position, and no group of this library has
    /// had the server since.
    pub is_taken_over: bool,
}

impl SavedPosition {
    pub const UNDEFINED: SavedPosition = SavedPosition {
        group: GroupId::NONE,
        seqno: -1,
        safe_to_bootstrap: false,
        last_member: false,
        is_taken_over: false,
    };
}

#[derive(Debug, thiserror::Error)]
pub enum GrastateError {
    #[error("cannot {action} {}: {source}; the server must own its data directory", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(
        "{} line {line}: {name} cannot be '{value}'. Correct it. To join with a full copy (SST) \
         instead: remove the file, and run 'synod copy --force' before the start",
        path.display()
    )]
    BadValue {
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        name: &'static str,
        value: String,
    },
}

/// Reads the file; `None` if there is none. Order, comments, blank lines and unknown names do not
/// matter; what is missing is undefined.
pub fn read(data_dir: &Path) -> Result<Option<SavedPosition>, GrastateError> {
    let text = text(data_dir)?;
    text.map(|text| parse(&text, &data_dir.join(FILE_NAME)))
        .transpose()
}

/// Whether this library has written the file, and not Galera's or a person; `None` if there is
/// none.
pub fn is_own(data_dir: &Path) -> Result<Option<bool>, GrastateError> {
    let text = text(data_dir)?;
    Ok(text.map(|text| has_line(&text, OWN_MARK)))
}

fn has_line(text: &str, line: &str) -> bool {
    text.lines().any(|found| found.trim_end() == line)
}

fn text(data_dir: &Path) -> Result<Option<String>, GrastateError> {
    let path = data_dir.join(FILE_NAME);
    match fs::read(&path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(GrastateError::Io {
            action: "read",
            path,
            source,
        }),
    }
}

/// Replaces the file: after a crash there is the old one or the new one. Durable when it returns.
pub fn write(data_dir: &Path, position: &SavedPosition) -> Result<(), GrastateError> {
    let path = data_dir.join(FILE_NAME);
    let new = data_dir.join(TEMPORARY_NAME);
    let written = replace_file(&RealFiles, &new, &path, format(position).as_bytes());
    written.map_err(|source| GrastateError::Io {
        action: "replace",
        path,
        source,
    })
}

pub(crate) fn format(position: &SavedPosition) -> String {
    let SavedPosition {
        group,
        seqno,
        safe_to_bootstrap,
        last_member,
        is_taken_over,
    } = position;
    let safe = u8::from(*safe_to_bootstrap);
    let remarks = [(*last_member, LAST_MEMBER), (*is_taken_over, TAKEN_OVER)];
    let remarks = remarks.iter().filter(|(holds, _)| *holds);
    let remarks: String = remarks.map(|(_, line)| format!("{line}\n")).collect();
    format!(
        "# GALERA saved state\n\
         version: 2.1\n\
         uuid:    {group}\n\
         seqno:   {seqno}\n\
         safe_to_bootstrap: {safe}\n\
         {OWN_MARK}\n\
         {remarks}"
    )
}

pub(crate) fn parse(text: &str, path: &Path) -> Result<SavedPosition, GrastateError> {
    let mut position = SavedPosition::UNDEFINED;
    position.is_taken_over = !has_line(text, OWN_MARK) || has_line(text, TAKEN_OVER);
    for (i, line) in text.lines().enumerate() {
        position.last_member |= line.trim_end() == LAST_MEMBER;
        let line = line.split('#').next().unwrap_or_default();
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim();
        let bad = |name| GrastateError::BadValue {
            path: path.to_owned(),
            line: i + 1,
            name,
            value: value.to_owned(),
        };
        match name.trim() {
            "uuid" => position.group = value.parse().map_err(|_| bad("uuid"))?,
            "seqno" => position.seqno = parse_seqno(value).ok_or_else(|| bad("seqno"))?,
            "safe_to_bootstrap" => {
                let safe = parse_flag(value);
                position.safe_to_bootstrap = safe.ok_or_else(|| bad("safe_to_bootstrap"))?;
            }
            _ => {}
        }
    }
    Ok(position)
}

fn parse_seqno(text: &str) -> Option<i64> {
    text.parse().ok().filter(|seqno| *seqno >= -1)
}

fn parse_flag(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "6b1a2c3d-0102-11ef-8a3b-0242ac120002";

    fn position(seqno: i64, safe_to_bootstrap: bool) -> SavedPosition {
        SavedPosition {
            group: UUID.parse().unwrap(),
            seqno,
            safe_to_bootstrap,
            last_member: false,
            is_taken_over: false,
        }
    }

    /// Writes the position as another program would.
    fn foreign(saved: SavedPosition) -> SavedPosition {
        SavedPosition {
            is_taken_over: true,
            ..saved
        }
    }

    fn parsed(text: &str) -> Result<SavedPosition, String> {
        parse(text, Path::new("/d/grastate.dat")).map_err(|error| error.to_string())
    }

    /// A directory of this test, removed with it.
    struct TestDir(PathBuf);

    impl TestDir {
        fn new(name: &str) -> TestDir {
            let dir = std::env::temp_dir().join(format!("synod-{name}-{}", std::process::id()));
            fs::create_dir_all(&dir).unwrap();
            TestDir(dir)
        }
    }

    impl Drop for TestDir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn file_has_galeras_format() {
        let expected = format!(
            "# GALERA saved state\nversion: 2.1\nuuid:    {UUID}\nseqno:   42\n\
             safe_to_bootstrap: 1\n# written by Synod\n"
        );
        assert_eq!(format(&position(42, true)), expected);
    }

    #[test]
    fn what_was_written_is_read() {
        let dir = TestDir::new("grastate-round-trip");
        assert_eq!(read(&dir.0).unwrap(), None);
        for saved in [
            SavedPosition::UNDEFINED,
            position(7, false),
            position(8, true),
            SavedPosition {
                last_member: true,
                ..position(9, true)
            },
            foreign(position(10, false)),
        ] {
            write(&dir.0, &saved).unwrap();
            assert_eq!(read(&dir.0).unwrap(), Some(saved));
        }
        let names: Vec<_> = fs::read_dir(&dir.0)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(names, [FILE_NAME], "no temporary file stays");
    }

    #[test]
    fn order_comments_and_unknown_names_do_not_matter() {
        let text = format!(
            "seqno: 5 # edited\n\n  uuid :{UUID}\r\nversion: 9\ncert_index:\nnonsense\n#uuid: x\n"
        );
        assert_eq!(parsed(&text), Ok(foreign(position(5, false))));
    }

    #[test]
    fn empty_file_is_an_undefined_position() {
        assert_eq!(parsed(""), Ok(foreign(SavedPosition::UNDEFINED)));
    }

    #[test]
    fn bad_values_name_file_line_and_value() {
        for (text, part) in [
            ("uuid: x", "grastate.dat line 1: uuid cannot be 'x'"),
            ("\nseqno: -2", "line 2: seqno cannot be '-2'"),
            ("seqno: 99999999999999999999", "seqno"),
            (
                "safe_to_bootstrap: yes",
                "safe_to_bootstrap cannot be 'yes'",
            ),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn unwritable_directory_is_named() {
        let dir = std::env::temp_dir().join("synod-there-is-no-such-directory");
        let error = write(&dir, &SavedPosition::UNDEFINED)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("synod-there-is-no-such-directory"),
            "{error}"
        );
    }
}
