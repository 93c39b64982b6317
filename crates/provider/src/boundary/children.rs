//! Programs that the server has started: while it takes a full copy (SST), its copy script.
//!
//! The server waits for its script to end, also when it aborts its start, and the script waits for
//! a donor. So an order to end that reaches the server alone has to be passed on.

use std::collections::BTreeSet;
use std::fs;

/// Sends SIGTERM to the children of this process, and to theirs. Returns how many there were.
pub(crate) fn end_children() -> usize {
    let own = std::process::id().cast_signed();
    let all = parents();
    let mut found = BTreeSet::from([own]);
    loop {
        let known = found.len();
        let children = all.iter().filter(|(_, parent)| found.contains(parent));
        let children: Vec<i32> = children.map(|(process, _)| *process).collect();
        found.extend(children);
        if found.len() == known {
            break;
        }
    }
    found.remove(&own);
    for process in &found {
        // SAFETY: no memory is involved. A process that has ended since is no error: its number is
        // not given again before all others were.
        unsafe { libc::kill(*process, libc::SIGTERM) };
    }
    found.len()
}

/// All processes, each with its parent.
fn parents() -> Vec<(i32, i32)> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let process = |entry: fs::DirEntry| {
        let process: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        Some((process, parent(&stat)?))
    };
    entries.flatten().filter_map(process).collect()
}

/// The parent in `/proc/PID/stat`: the second field after the name, which is in parentheses and may
/// contain some.
fn parent(stat: &str) -> Option<i32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    #[test]
    fn parent_is_found_behind_any_name() {
        assert_eq!(parent("12 (sh) S 7 12 12 0"), Some(7));
        assert_eq!(parent("12 (a) b) 9 (c) R 8 12 12"), Some(8));
        assert_eq!(parent("nonsense"), None);
    }

    #[test]
    fn children_are_ended() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        assert!(end_children() >= 1);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    }
}
