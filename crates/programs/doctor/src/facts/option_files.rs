//! The files that a server of this machine reads at its start.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Files that are read, and directories whose `*.cnf` are.
const FILES: [&str; 2] = ["/etc/my.cnf", "/etc/mysql/my.cnf"];
const DIRECTORIES: [&str; 2] = ["/etc/mysql/conf.d", "/etc/mysql/mariadb.conf.d"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    pub path: PathBuf,
    /// Time since the change.
    pub age: Duration,
}

pub(super) fn changed_last() -> Option<ChangedFile> {
    let listed = DIRECTORIES
        .into_iter()
        .filter_map(|dir| fs::read_dir(dir).ok());
    let listed = listed
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()));
    let in_directories = listed.filter(|path| path.extension().is_some_and(|end| end == "cnf"));
    let files = FILES.into_iter().map(PathBuf::from).chain(in_directories);
    let changed = files.filter_map(|path| {
        Some(ChangedFile {
            age: age(&path)?,
            path,
        })
    });
    changed.min_by_key(|file| file.age)
}

fn age(path: &Path) -> Option<Duration> {
    let changed = fs::metadata(path).ok()?.modified().ok()?;
    SystemTime::now().duration_since(changed).ok()
}
