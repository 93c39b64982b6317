//! Database of a member: the actions that were applied, in order.
//!
//! The database reaches its file late, like one that does not flush at commit. After a kill, the
//! member has to get the unwritten rest from its log again.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use crate::oracle::Content;
use serde::{Deserialize, Serialize};

/// Name of the database's file.
const FILE_NAME: &str = "database.jsonl";
/// Name of the file in which a copy is gathered before it replaces the database's file.
const COPY_NAME: &str = "database.copy";

/// Lines of the file: the first says whose history it is, the last of a copy that it is complete.
#[derive(Debug, Serialize, Deserialize)]
enum Line {
    Group(String),
    At(i64, Content),
    End,
}

/// The history that a member has applied, and its file.
pub(crate) struct Database {
    dir: PathBuf,
    /// The group of the history; empty while there is none.
    group: String,
    history: Vec<Content>,
    /// Position of each row's last write.
    versions: HashMap<u32, i64>,
    /// Number of elements of `history` that are in the file.
    written: usize,
    file: Option<File>,
}

impl Database {
    /// Reads the file in the directory. An incomplete last line, left by a kill, is removed.
    pub(crate) fn open(dir: &Path) -> io::Result<Database> {
        let mut database = Database::empty(dir);
        let path = dir.join(FILE_NAME);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(database),
            Err(error) => return Err(error),
        };
        let whole = bytes
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |last| last + 1);
        for line in bytes[..whole].lines() {
            database.take(serde_json::from_str(&line?)?)?;
        }
        let file = OpenOptions::new().append(true).open(&path)?;
        file.set_len(whole as u64)?;
        database.written = database.history.len();
        database.file = Some(file);
        Ok(database)
    }

    fn empty(dir: &Path) -> Database {
        Database {
            dir: dir.to_owned(),
            group: String::new(),
            history: Vec::new(),
            versions: HashMap::new(),
            written: 0,
            file: None,
        }
    }

    fn take(&mut self, line: Line) -> io::Result<()> {
        match line {
            Line::Group(group) if self.group.is_empty() => self.group = group,
            Line::At(position, content) if position == self.position() + 1 => self.apply(content),
            other => return Err(io::Error::other(format!("{other:?} is out of place"))),
        }
        Ok(())
    }

    /// Begins the file of a database that belongs to this history.
    pub(crate) fn begin(&mut self, group: &str) -> io::Result<()> {
        if self.group.is_empty() {
            let mut file = File::create(self.dir.join(FILE_NAME))?;
            write_line(&mut file, &Line::Group(group.to_owned()))?;
            self.group = group.to_owned();
            self.file = Some(file);
        }
        Ok(())
    }

    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    /// Position of the last content; zero if there is none.
    pub(crate) fn position(&self) -> i64 {
        self.history.len() as i64 // memory ends long before
    }

    /// Position of a row's last write; zero if there is none.
    pub(crate) fn version(&self, row: u32) -> i64 {
        self.versions.get(&row).copied().unwrap_or(0)
    }

    /// Adds the content of the next position.
    pub(crate) fn apply(&mut self, content: Content) {
        let position = self.position() + 1;
        if let Content::Transaction(transaction) = &content {
            let rows = transaction.rows.iter();
            self.versions
                .extend(rows.map(|write| (write.row, position)));
        }
        self.history.push(content);
    }

    pub(crate) fn history(&self) -> impl Iterator<Item = (i64, &Content)> {
        (1..).zip(&self.history)
    }

    /// Writes to the file what it lacks.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let mut bytes = Vec::new();
        for (i, content) in self.history.iter().enumerate().skip(self.written) {
            write_line(&mut bytes, &Line::At(i as i64 + 1, content.clone()))?;
        }
        file.write_all(&bytes)?;
        self.written = self.history.len();
        Ok(())
    }

    /// All of it as a copy for another member.
    pub(crate) fn copy(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        write_line(&mut bytes, &Line::Group(self.group.clone()))?;
        for (position, content) in self.history() {
            write_line(&mut bytes, &Line::At(position, content.clone()))?;
        }
        write_line(&mut bytes, &Line::End)?;
        Ok(bytes)
    }

    /// Replaces the database by a copy. `None`: the copy is not complete.
    pub(crate) fn receive(dir: &Path, from: impl Read) -> io::Result<Option<Database>> {
        let mut database = Database::empty(dir);
        for line in BufReader::new(from).lines() {
            match serde_json::from_str(&line?) {
                Ok(Line::End) => return database.install().map(Some),
                Ok(line) => database.take(line)?,
                Err(_) => return Ok(None),
            }
        }
        Ok(None)
    }

    fn install(mut self) -> io::Result<Database> {
        let path = self.dir.join(COPY_NAME);
        let mut file = File::create(&path)?;
        write_line(&mut file, &Line::Group(self.group.clone()))?;
        self.file = Some(file);
        self.flush()?;
        fs::rename(path, self.dir.join(FILE_NAME))?;
        Ok(self)
    }

    pub(crate) fn wipe(dir: &Path) -> io::Result<()> {
        match fs::remove_file(dir.join(FILE_NAME)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn write_line(to: &mut impl Write, line: &Line) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    to.write_all(&bytes)
}

#[cfg(test)]
mod tests {
    use crate::oracle::{RowWrite, Transaction};

    use super::*;

    fn write(id: u64, row: u32) -> Content {
        let rows = vec![RowWrite { row, seen: 0 }];
        Content::Transaction(Transaction {
            id,
            last_seen: 0,
            rows,
            certified: true,
        })
    }

    #[test]
    fn flushed_content_is_read_again_and_an_incomplete_line_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut database = Database::open(dir.path()).unwrap();
        database.begin("g").unwrap();
        database.apply(write(1, 5));
        database.flush().unwrap();
        database.apply(write(2, 5));
        drop(database);
        let path = dir.path().join(FILE_NAME);
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend_from_slice(b"{\"At\":[2,");
        fs::write(&path, bytes).unwrap();

        let mut again = Database::open(dir.path()).unwrap();
        assert_eq!(
            (again.group(), again.position(), again.version(5)),
            ("g", 1, 1)
        );
        again.apply(write(3, 6));
        again.flush().unwrap();
        let third = Database::open(dir.path()).unwrap();
        assert_eq!((third.position(), third.version(6)), (2, 2));
    }

    #[test]
    fn only_a_complete_copy_replaces_a_database() {
        let dir = tempfile::tempdir().unwrap();
        let mut donor = Database::open(dir.path()).unwrap();
        donor.begin("g").unwrap();
        donor.apply(write(1, 5));
        let copy = donor.copy().unwrap();
        let joiner = tempfile::tempdir().unwrap();
        let incomplete = &copy[..copy.len() - 8];
        assert!(
            Database::receive(joiner.path(), incomplete)
                .unwrap()
                .is_none()
        );
        assert_eq!(Database::open(joiner.path()).unwrap().group(), "");
        assert!(
            Database::receive(joiner.path(), &copy[..])
                .unwrap()
                .is_some()
        );
        assert_eq!(Database::open(joiner.path()).unwrap().position(), 1);
    }
}
