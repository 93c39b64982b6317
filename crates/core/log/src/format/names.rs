//! The names of the files in a log directory, and which of them are there. Every name matches
//! `synod-*.log`; no other file is ever touched. The number in a segment's name is 16 hexadecimal
//! digits, so that names sort as the segments do.

use std::path::{Path, PathBuf};

use crate::LogError;
use crate::files::Files;

const SET_ASIDE_PREFIX: &str = "synod-damaged-";

pub(crate) fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("synod-{number:016x}.log"))
}

pub(crate) fn control_path(dir: &Path) -> PathBuf {
    dir.join("synod-control.log")
}

pub(crate) fn control_temp_path(dir: &Path) -> PathBuf {
    dir.join("synod-control-new.log")
}

pub(crate) fn lock_path(dir: &Path) -> PathBuf {
    dir.join("synod-lock.log")
}

pub(crate) fn spare_path(dir: &Path) -> PathBuf {
    dir.join("synod-spare.log")
}

/// `repair` is the id of the new segment.
pub(crate) fn set_aside_path(dir: &Path, number: u64, repair: u64) -> PathBuf {
    dir.join(format!("{SET_ASIDE_PREFIX}{number:016x}-{repair:016x}.log"))
}

fn is_set_aside(name: &str) -> bool {
    name.starts_with(SET_ASIDE_PREFIX) && name.ends_with(".log")
}

fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("synod-")?.strip_suffix(".log")?;
    let lower = digits
        .bytes()
        .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if digits.len() != 16 || !lower {
        return None;
    }
    u64::from_str_radix(digits, 16)
        .ok()
        .filter(|number| *number != 0)
}

pub(crate) fn list_segments(files: &dyn Files, dir: &Path) -> Result<Vec<u64>, LogError> {
    let names = files
        .list(dir)
        .map_err(|error| LogError::io("list", dir, 0, error))?;
    let mut numbers: Vec<u64> = names
        .iter()
        .filter_map(|name| segment_number(name))
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

pub(crate) fn set_aside_files(files: &dyn Files, dir: &Path) -> Result<Vec<PathBuf>, LogError> {
    let names = files
        .list(dir)
        .map_err(|error| LogError::io("list", dir, 0, error))?;
    let aside = names.iter().filter(|name| is_set_aside(name));
    Ok(aside.map(|name| dir.join(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_segments_have_a_number() {
        assert_eq!(segment_number("synod-00000000000000ff.log"), Some(255));
        let path = segment_path(Path::new("d"), 255);
        assert_eq!(path, Path::new("d/synod-00000000000000ff.log"));
        for other in [
            "synod-control.log",
            "synod-damaged-00000000000000ff-0000000000000001.log",
            "synod-00000000000000FF.log",
            "synod-0000000000000000.log",
            "synod-ff.log",
            "ib_logfile0",
            "synod-00000000000000ff.log.bak",
        ] {
            assert_eq!(segment_number(other), None, "{other}");
        }
    }
}
