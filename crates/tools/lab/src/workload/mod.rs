//! Loads that sysbench does not bring: its scripts in Lua, embedded.
//!
//! Each script knows the commands `prepare`, `run`, `check` and `cleanup`. `check` runs after the
//! load and fails if what the servers hold is not what transactions may leave: a fast server that
//! loses updates must not look good. What the scripts do is at their beginnings.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Errors of the server that a client answers by trying again: deadlock or lost certification,
/// changed since it was read, lock wait timeout. For sysbench's `--mysql-ignore-errors`.
pub const TOLERATED_ERRORS: &str = "1213,1020,1205";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Script {
    pub name: &'static str,
    /// Its file's name, which sysbench wants to end in `.lua`.
    file: &'static str,
    source: &'static str,
}

/// Transactions that meet on few rows. Option: `--rows`.
pub const HOT_ROWS: Script = Script {
    name: "hot-rows",
    file: "hot_rows.lua",
    source: include_str!("hot_rows.lua"),
};

impl Script {
    pub fn of(workload: &str) -> Option<Script> {
        (workload == HOT_ROWS.name).then_some(HOT_ROWS)
    }

    /// Writes the script into `dir` and gives its path, which is sysbench's first argument.
    pub fn write_to(&self, dir: &Path) -> io::Result<PathBuf> {
        let path = dir.join(self.file);
        fs::write(&path, self.source)?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workload_is_found_by_its_name() {
        assert_eq!(Script::of("hot-rows"), Some(HOT_ROWS));
        assert_eq!(Script::of("oltp_write_only"), None);
    }

    #[test]
    fn script_is_written_as_it_is_embedded() {
        let dir = tempfile::tempdir().unwrap();
        let path = HOT_ROWS.write_to(dir.path()).unwrap();
        assert!(path.ends_with("hot_rows.lua"));
        assert_eq!(fs::read_to_string(path).unwrap(), HOT_ROWS.source);
    }
}
