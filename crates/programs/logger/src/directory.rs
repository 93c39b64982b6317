//! Whether a directory may be that of a logger's log.
//!
//! Whose log is in it, the node finds out; here only what the node does not look at: files of a
//! database, and permissions, which a service's user often lacks.

use std::path::{Path, PathBuf};

use rustix::fs::Access;

const OF_SERVERS: [&str; 5] = [
    "ibdata1",
    "grastate.dat",
    "aria_log_control",
    "mysql",
    "mysql.ibd",
];

#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error(
        "{} is the data directory of a database server ({found} is there): a logger needs a \
         directory of its own. Name another one with synod.log_dir",
        dir.display()
    )]
    OfServer { dir: PathBuf, found: &'static str },
    /// The directory does not exist, or files cannot be made in it.
    #[error(
        "the log cannot be written to {}: {source}. Make it a directory of the user that runs the \
         logger (install -d -o synod-logger -g synod-logger -m 700 {}), or name another one with \
         synod.log_dir",
        dir.display(), dir.display()
    )]
    Unwritable {
        dir: PathBuf,
        source: std::io::Error,
    },
}

/// Makes the directory if it is not there; an error if it is a server's, or cannot be written.
pub fn prepare(dir: &Path) -> Result<(), DirectoryError> {
    if let Some(found) = OF_SERVERS.into_iter().find(|name| dir.join(name).exists()) {
        let dir = dir.to_owned();
        return Err(DirectoryError::OfServer { dir, found });
    }
    let made = std::fs::create_dir_all(dir);
    let writable = || Ok(rustix::fs::access(dir, Access::WRITE_OK | Access::EXEC_OK)?);
    made.and_then(|()| writable())
        .map_err(|source| DirectoryError::Unwritable {
            dir: dir.to_owned(),
            source,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_of_a_server_is_refused_and_a_missing_one_is_made() {
        let temp = tempfile::tempdir().unwrap();
        let own = temp.path().join("a/b");
        prepare(&own).unwrap();
        prepare(&own).unwrap();
        std::fs::write(own.join("ibdata1"), "").unwrap();
        let text = prepare(&own).unwrap_err().to_string();
        assert!(
            text.contains("data directory of a database server (ibdata1"),
            "{text}"
        );
    }

    #[test]
    fn directory_that_cannot_be_made_is_refused_with_what_to_do() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("file");
        std::fs::write(&file, "").unwrap();
        for dir in [file.clone(), file.join("below")] {
            let text = prepare(&dir).unwrap_err().to_string();
            assert!(text.contains("install -d -o"), "{text}");
        }
    }
}
