//! Whether the storage engine runs in this process, by the files that it holds open.
//!
//! The server tells its provider neither when InnoDB starts nor when it has closed. But InnoDB
//! keeps its system tablespace and its log open for as long as it runs.

use std::path::Path;

/// Links to what this process has open.
const OPEN_FILES: &str = "/proc/self/fd";

/// Whether InnoDB has a file open. True, too, if that cannot be found out: neither may its files be
/// touched then, nor may it be taken for closed.
pub(crate) fn are_open() -> bool {
    let Ok(entries) = std::fs::read_dir(OPEN_FILES) else {
        return true;
    };
    // A file that is closed meanwhile has no link any more.
    let links = entries
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.into_iter().any(|file| is_engine_file(&file))
}

fn is_engine_file(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| {
        name.starts_with("ib_logfile") || name.starts_with("ibdata") || name.ends_with(".ibd")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
