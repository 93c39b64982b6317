//! Programs that the server has started: while it takes a full copy (SST), its copy script.
//!
//! The server waits for its script to end, also when it aborts its start, and the script waits for
//! a donor. So an order to end that reaches the server alone has to be passed on. A server that was
//! killed could pass on nothing: the next start of its data directory ends what it has left.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Set by the server for its copy scripts, which pass it on to the programs that they run.
const COPY_MARK: &[u8] = b"WSREP_SST_OPT_AUTH=";
const ORDERLY_END: Duration = Duration::from_secs(3);
/// Time limit for the system to remove a killed program.
const KILLED_END: Duration = Duration::from_secs(3);
/// Time between two looks whether they have ended.
const LOOK: Duration = Duration::from_millis(20);

/// Ends the children of this process, and theirs. Returns how many there were.
pub(crate) fn end_children() -> usize {
    end_all(&|| descendants(&parents(), own_pid())).len()
}

/// Ends the programs of a full copy that a killed server of this data directory has left: they
/// write into it, and hold the port of the next copy. Returns the names of the programs.
///
/// Such a program works in the directory, and has the mark of the server's copy scripts. One whose
/// server lives is left alone.
pub(crate) fn end_leftover_copy(data_dir: &Path) -> Vec<String> {
    let Ok(data_dir) = data_dir.canonicalize() else {
        return Vec::new();
    };
    let ended = end_all(&|| leftover_copy(&data_dir));
    ended.into_values().collect()
}

/// Ends the processes that `find` finds, until it finds none; those that do not heed an order are
/// killed. Returns each with its name.
fn end_all(find: &dyn Fn() -> BTreeSet<i32>) -> BTreeMap<i32, String> {
    let mut ended = BTreeMap::new();
    for (signal, limit) in [(libc::SIGTERM, ORDERLY_END), (libc::SIGKILL, KILLED_END)] {
        let deadline = Instant::now() + limit;
        let mut told = BTreeSet::new();
        loop {
            let found = find();
            if found.is_empty() {
                return ended;
            }
            if Instant::now() > deadline {
                break;
            }
            // A program may start another one before it ends.
            for process in found.difference(&told) {
                ended.entry(*process).or_insert_with(|| name(*process));
                // SAFETY: no memory is involved. A process that has ended since is no error: its
                // number is not given again before all others were.
                unsafe { libc::kill(*process, signal) };
            }
            told.extend(found);
            std::thread::sleep(LOOK);
        }
    }
    ended
}

fn own_pid() -> i32 {
    std::process::id().cast_signed()
}

fn descendants(parents: &BTreeMap<i32, i32>, of: i32) -> BTreeSet<i32> {
    let mut found = BTreeSet::from([of]);
    loop {
        let known = found.len();
        let children = parents.iter().filter(|(_, parent)| found.contains(parent));
        let children: Vec<i32> = children.map(|(process, _)| *process).collect();
        found.extend(children);
        if found.len() == known {
            break;
        }
    }
    found.remove(&of);
    found
}

fn leftover_copy(data_dir: &Path) -> BTreeSet<i32> {
    let parents = parents();
    let works_here = |process: i32| directory(process).is_some_and(|dir| dir == data_dir);
    let of_copy: BTreeSet<i32> = parents
        .keys()
        .copied()
        .filter(|process| works_here(*process) && has_copy_mark(*process))
        .collect();
    // The server works in its data directory, too, without the mark.
    let has_server = |process: i32| {
        let parent = ancestors(&parents, process).find(|parent| !of_copy.contains(parent));
        parent.is_some_and(|parent| parent != own_pid() && works_here(parent))
    };
    let left = of_copy.iter().copied();
    left.filter(|process| !has_server(*process)).collect()
}

fn ancestors(parents: &BTreeMap<i32, i32>, of: i32) -> impl Iterator<Item = i32> {
    std::iter::successors(parents.get(&of).copied(), |process| {
        parents.get(process).copied()
    })
}

/// The directory that a process works in; none for one that has ended, or is another user's.
fn directory(process: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/cwd")).ok()
}

fn has_copy_mark(process: i32) -> bool {
    let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
    let mut variables = environment.split(|byte| *byte == 0);
    variables.any(|variable| variable.starts_with(COPY_MARK))
}

fn name(process: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    format!("{} (process {process})", name.trim_end())
}

fn parents() -> BTreeMap<i32, i32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    let process = |entry: fs::DirEntry| {
        let process: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        Some((process, living_parent(&stat)?))
    };
    entries.flatten().filter_map(process).collect()
}

/// The parent in `/proc/PID/stat`: the second field after the name, which is in parentheses and may
/// contain some. `None` for a process that has ended, and that its parent has not noticed yet.
fn living_parent(stat: &str) -> Option<i32> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let has_ended = matches!(fields.next()?, "Z" | "X");
    fields.next()?.parse().ok().filter(|_| !has_ended)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// Held by a test: [`end_children`] ends the programs of the others, too.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Dir {
            let name = format!("synod-children-{name}-{}", std::process::id());
            let dir = std::env::temp_dir().join(name);
            fs::create_dir_all(&dir).unwrap();
            Dir(dir)
        }

        /// A shell that runs these commands in the directory.
        fn shell(&self, commands: &str, is_of_copy: bool) -> Child {
            let mut shell = Command::new("sh");
            shell.args(["-c", commands]).current_dir(&self.0);
            if is_of_copy {
                shell.env("WSREP_SST_OPT_AUTH", "");
            }
            shell.spawn().unwrap()
        }

        /// Waits for a file that a shell makes.
        fn await_file(&self, name: &str) {
            let deadline = Instant::now() + Duration::from_secs(20);
            while !self.0.join(name).exists() {
                assert!(Instant::now() < deadline, "no {name}");
                std::thread::sleep(LOOK);
            }
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn kill(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn parent_is_found_behind_any_name() {
        assert_eq!(living_parent("12 (sh) S 7 12 12 0"), Some(7));
        assert_eq!(living_parent("12 (a) b) 9 (c) R 8 12 12"), Some(8));
        assert_eq!(living_parent("12 (sh) Z 7 12 12 0"), None, "it has ended");
        assert_eq!(living_parent("nonsense"), None);
    }

    #[test]
    fn children_are_ended() {
        let _alone = alone();
        let dir = Dir::new("own");
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let mut deaf = dir.shell(
            "trap '' TERM; touch deaf; while :; do sleep 0.1; done",
            false,
        );
        dir.await_file("deaf");
        assert!(end_children() >= 2);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
        assert_eq!(deaf.wait().unwrap().signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn what_a_killed_server_left_is_ended_and_nothing_else() {
        let _alone = alone();
        let (dir, other) = (Dir::new("left"), Dir::new("other"));
        let mut left = dir.shell("exec sleep 600", true);
        let unmarked = dir.shell("exec sleep 600", false);
        let elsewhere = other.shell("exec sleep 600", true);
        // As a server that lives: its script has the mark, itself has not.
        let server = dir.shell(
            "WSREP_SST_OPT_AUTH= sh -c 'touch begun; sleep 600; :'; :",
            false,
        );
        dir.await_file("begun");
        let ended = end_leftover_copy(&dir.0);
        assert_eq!(ended, [format!("sleep (process {})", left.id())]);
        assert_eq!(left.wait().unwrap().signal(), Some(libc::SIGTERM));
        let script = descendants(&parents(), server.id().cast_signed());
        assert_eq!(script.len(), 2, "of a server that lives");
        for child in [unmarked, elsewhere] {
            kill(child);
        }
        kill(server);
        let orphans = end_leftover_copy(&dir.0);
        assert_eq!(orphans.len(), 2, "its server is gone now: {orphans:?}");
    }
}
