//! A configuration file with the settings that should be changed.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::checks::{wrong_mysql_settings, wrong_settings};
use crate::facts::ServerFacts;

#[derive(Debug, thiserror::Error)]
pub enum FixError {
    #[error(
        "{} is there already, and is not overwritten: move it away, or name another file",
        .0.display()
    )]
    Exists(PathBuf),
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// The file's content; none: no setting has to be changed.
pub fn configuration(server: &ServerFacts) -> Option<String> {
    let (section, lines): (_, Vec<String>) = match server.is_mysql() {
        true => {
            let wrong = wrong_mysql_settings(server);
            ("mysqld", wrong.map(|setting| setting.line()).collect())
        }
        false => {
            let wrong = wrong_settings(server);
            let lines = wrong.map(|setting| setting.line.to_owned());
            ("mariadbd", lines.collect())
        }
    };
    if lines.is_empty() {
        return None;
    }
    let head = "# Written by 'synod doctor --fix-config'. The server reads it at its next start.";
    Some(format!("{head}\n[{section}]\n{}\n", lines.join("\n")))
}

/// Writes a new file; an error if it is there.
pub fn write(path: &Path, content: &str) -> Result<(), FixError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => FixError::Exists(path.to_owned()),
        _ => FixError::Write {
            path: path.to_owned(),
            source,
        },
    };
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = file.map_err(failed)?;
    file.write_all(content.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wrong_is_written_and_nothing_is_overwritten() {
        let mut server = ServerFacts::default();
        assert_eq!(configuration(&server), None);
        server
            .variables
            .insert("binlog_format".to_owned(), "MIXED".to_owned());
        server
            .variables
            .insert("innodb_autoinc_lock_mode".to_owned(), "2".to_owned());
        let content = configuration(&server).unwrap();
        assert!(
            content.ends_with("[mariadbd]\nbinlog_format = ROW\n"),
            "{content}"
        );
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("70-synod-doctor.cnf");
        write(&path, &content).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        assert!(matches!(write(&path, "other"), Err(FixError::Exists(_))));
        let missing = directory.path().join("missing/file");
        assert!(matches!(write(&missing, ""), Err(FixError::Write { .. })));
    }
}
