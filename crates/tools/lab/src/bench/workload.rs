//! The loads, as sysbench knows them: some it brings, some are the lab's own scripts.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use super::sysbench::Script;
use crate::error::{IoContext, Result};
use crate::workload;

/// The loads, by the names that the command line takes.
pub const NAMES: [&str; 5] = [
    "oltp_write_only",
    "oltp_read_write",
    "oltp_read_only",
    "oltp_update_index",
    "hot-rows",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload(&'static str);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    pub tables: u32,
    pub table_rows: u32,
    pub hot_rows: u32,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes {
            tables: 4,
            table_rows: 100_000,
            hot_rows: 1_000,
        }
    }
}

impl Workload {
    /// Arguments of sysbench for this load; a script of the lab's own is written into `dir`.
    pub fn script(self, sizes: &Sizes, dir: &Path) -> Result<Script> {
        let own = workload::Script::of(self.0);
        let checks = own.is_some();
        let script = match own {
            Some(own) => own
                .write_to(dir)
                .context("write into", dir)?
                .into_os_string(),
            None => OsString::from(self.0),
        };
        let options = match self.0 {
            "hot-rows" => vec![format!("--rows={}", sizes.hot_rows)],
            _ => vec![
                format!("--tables={}", sizes.tables),
                format!("--table-size={}", sizes.table_rows),
            ],
        };
        Ok(Script {
            script,
            options,
            checks,
        })
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Workload, String> {
        let known = NAMES.into_iter().find(|name| *name == text);
        known
            .map(Workload)
            .ok_or_else(|| format!("'{text}' is none of {}", NAMES.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_has_its_sizes_and_own_scripts_are_files() {
        let dir = tempfile::tempdir().unwrap();
        for name in NAMES {
            let workload: Workload = name.parse().unwrap();
            let script = workload.script(&Sizes::default(), dir.path()).unwrap();
            assert!(!script.options.is_empty());
            let is_own = !name.starts_with("oltp_");
            assert_eq!(Path::new(&script.script).is_file(), is_own, "{name}");
            assert_eq!(script.checks, is_own, "{name}");
        }
        assert!("oltp".parse::<Workload>().is_err());
    }
}
