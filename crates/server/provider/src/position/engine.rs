//! The storage engine of this process: whether it runs, on which file systems it is, and how often
//! it flushes.
//!
//! The server tells its provider neither when InnoDB starts nor when it has closed, nor where all
//! its files are. But InnoDB keeps its system tablespace and its log open for as long as it runs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::api::{Callbacks, LogLevel};
use crate::server_program::Settings;

const OPEN_FILES: &str = "/proc/self/fd";

/// Whether InnoDB has a file open. True, too, if that cannot be found out: neither may its files be
/// touched then, nor may it be taken for closed.
pub(super) fn are_open() -> bool {
    open_files().is_none_or(|files| !files.is_empty())
}

/// Writes to the disks what any process has written to the data directory and to where the engine's
/// open files are. Returns once it is durable.
pub(super) fn sync_file_systems(data_dir: &Path) -> Result<(), (PathBuf, io::Error)> {
    let mut places = open_files().unwrap_or_default();
    places.push(data_dir.to_owned());
    let mut file_systems = BTreeMap::new();
    for place in places {
        // A file may have been removed while it is open: then there is nothing to keep.
        if let Ok(metadata) = place.metadata() {
            file_systems.insert(metadata.dev(), place);
        }
    }
    for place in file_systems.into_values() {
        let synced = File::open(&place).and_then(|file| Ok(rustix::fs::syncfs(file)?));
        synced.map_err(|error| (place, error))?;
    }
    Ok(())
}

fn open_files() -> Option<Vec<PathBuf>> {
    let entries = std::fs::read_dir(OPEN_FILES).ok()?;
    // A file that is closed meanwhile has no link any more.
    let links = entries
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok());
    Some(links.filter(|file| is_engine_file(file)).collect())
}

fn is_engine_file(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| {
        name.starts_with("ib_logfile") || name.starts_with("ibdata") || name.ends_with(".ibd")
    })
}

/// The variable of the period, as `mariadbd --help` lists it.
const VARIABLE: &str = "innodb-flush-log-at-timeout";
/// Taken where the server's program does not say: longer than is usual.
const UNKNOWN: Duration = Duration::from_secs(60);

/// Period in which the engine flushes what it has applied, at the server's start: an action is kept
/// in the log for so long after it was applied ([`synod_node::NodeConfig::flush_period`]). A change
/// while the server runs is not seen.
pub(crate) fn flush_period(settings: &Settings, callbacks: &Callbacks) -> Duration {
    if let Some(seconds) = settings.number(VARIABLE) {
        return Duration::from_secs(seconds);
    }
    let text = format!(
        "innodb_flush_log_at_timeout is not known, so it is taken for {UNKNOWN:?}: the log keeps \
         actions for so long after they were applied (mariadbd --help --verbose does not say it)"
    );
    callbacks.log(LogLevel::Info, &text);
    UNKNOWN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_are_synced_or_the_place_is_named() {
        let dir = std::env::temp_dir();
        assert!(sync_file_systems(&dir).is_ok());
        // The kernel's own file systems have nothing to sync, and let it be done.
        assert!(sync_file_systems(Path::new("/proc")).is_ok());
    }

    #[test]
    fn log_tablespaces_and_tables_are_the_engines() {
        for file in [
            "/d/ib_logfile0",
            "/d/ibdata1",
            "/d/mysql/gtid_slave_pos.ibd",
        ] {
            assert!(is_engine_file(Path::new(file)), "{file}");
        }
        for file in [
            "/d/synod-0000000000000001.log",
            "socket:[1]",
            "/d/ib_buffer_pool",
            "/",
        ] {
            assert!(!is_engine_file(Path::new(file)), "{file}");
        }
    }
}
