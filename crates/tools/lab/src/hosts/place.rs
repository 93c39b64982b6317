//! The name, the lock and the directories of a lab, and the removal of all that carries its name.
//!
//! A lab ends by removing what it made: processes, namespaces, directories. A lab that was killed
//! could not; then the next one of the same name does it first. Both do the same, from the name
//! alone, so that nothing depends on what the killed one remembered.
//!
//! ```text
//! /run/synod-lab/NAME/lock       held while the lab runs
//! /run/synod-lab/NAME/data-dir   says where the data are
//! /run/synod-lab/NAME/router     socket of the router
//! DIR/synod-lab-NAME/            data of the servers
//! /run/netns/synod-lab-NAME-*    the hosts
//! ```

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use synod_local_cluster::wait_for;

use super::{NAMESPACES, ip, namespace_prefix};
use crate::disk::mounts;
use crate::error::{IoContext, LabError, Result};

const STATE: &str = "/run/synod-lab";

/// Time limit for processes to end after SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_secs(20);

/// A lab's name and directories. [`Place::remove_all`] removes everything that carries the name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    name: String,
    data: PathBuf,
}

/// A place that is ours until this is dropped; then everything that carries its name is removed.
#[derive(Debug)]
pub struct OwnPlace {
    place: Place,
    _lock: File,
}

impl Place {
    /// The lab of this name, with its data below `parent`. The name becomes part of other names.
    pub fn new(name: &str, parent: &Path) -> Result<Place> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        if name.is_empty() || name.len() > 12 || !name.chars().all(is_plain) {
            return Err(LabError::BadArgument {
                name: "--name",
                value: name.to_owned(),
                reason: "a name has 1 to 12 lower-case letters and digits".into(),
            });
        }
        let parent = std::path::absolute(parent).context("find", parent)?;
        Ok(Place {
            name: name.to_owned(),
            data: parent.join(data_name(name)),
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn data(&self) -> &Path {
        &self.data
    }

    pub fn router_socket(&self) -> PathBuf {
        self.state().join("router")
    }

    fn state(&self) -> PathBuf {
        Path::new(STATE).join(&self.name)
    }

    /// Takes the name, removes what an earlier lab left, and makes the directories. The text says
    /// what was removed.
    pub fn take(self) -> Result<(OwnPlace, Option<String>)> {
        let state = self.state();
        fs::create_dir_all(&state).context("create", &state)?;
        let path = state.join("lock");
        let lock = File::create(&path).context("create", &path)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let name = self.name.clone();
                return Err(LabError::NameTaken { name, lock: path });
            }
            Err(error) => return Err(std::io::Error::from(error)).context("lock", path),
        }
        let removed = self.remove_contents()?;
        if self.data.exists() {
            return Err(LabError::BadArgument {
                name: "--dir",
                value: self.data.display().to_string(),
                reason: "it exists, and no lab has left it; remove it, or name another directory"
                    .into(),
            });
        }
        let note = state.join("data-dir");
        fs::write(&note, self.data.as_os_str().as_encoded_bytes()).context("write", note)?;
        if let Some(parent) = self.data.parent() {
            fs::create_dir_all(parent).context("create", parent)?;
        }
        // Another user may have made it meanwhile: that one is not taken.
        fs::create_dir(&self.data).context("create", &self.data)?;
        let own = OwnPlace {
            place: self,
            _lock: lock,
        };
        Ok((own, removed))
    }

    /// Kills the processes on the hosts, and removes hosts and directories. Gives a text that says
    /// what there was.
    pub fn remove_all(&self) -> Result<Option<String>> {
        let removed = self.remove_contents()?;
        let state = self.state();
        match fs::remove_dir_all(&state) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).context("remove", state)?;
            }
            _ => {
                // The directory of all labs goes with the last one.
                let _ = fs::remove_dir(STATE);
            }
        }
        Ok(removed)
    }

    fn remove_contents(&self) -> Result<Option<String>> {
        let mut removed = Vec::new();
        let data = self.noted_data();
        if let Some(data) = &data {
            mounts::thaw_below(data)?;
        }
        let namespaces = self.namespaces();
        let killed = kill_inside(&namespaces)?;
        if killed > 0 {
            removed.push(format!("{killed} processes"));
        }
        for namespace in &namespaces {
            ip(&["netns", "del", namespace])?;
        }
        if !namespaces.is_empty() {
            removed.push(format!("{} hosts", namespaces.len()));
        }
        let state = self.state();
        if let Some(data) = data
            && data.exists()
        {
            mounts::unmount_below(&data)?;
            fs::remove_dir_all(&data).context("remove", &data)?;
            removed.push(data.display().to_string());
        }
        for name in ["data-dir", "router"] {
            let _ = fs::remove_file(state.join(name)); // it need not be there
        }
        Ok((!removed.is_empty()).then(|| removed.join(", ")))
    }

    /// The data directory that a lab of this name noted, if it is one that labs make.
    fn noted_data(&self) -> Option<PathBuf> {
        let noted = fs::read_to_string(self.state().join("data-dir")).ok()?;
        let path = PathBuf::from(noted);
        let is_ours = path.file_name() == Some(OsStr::new(&data_name(&self.name)));
        is_ours.then_some(path)
    }

    fn namespaces(&self) -> Vec<String> {
        let prefix = namespace_prefix(&self.name);
        let Ok(entries) = fs::read_dir(NAMESPACES) else {
            return Vec::new();
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        let names = names.filter_map(|name| name.into_string().ok());
        names.filter(|name| name.starts_with(&prefix)).collect()
    }
}

impl std::ops::Deref for OwnPlace {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.place
    }
}

impl Drop for OwnPlace {
    fn drop(&mut self) {
        crate::interrupt::wait_if_interrupted();
        if let Err(error) = self.place.remove_all() {
            eprintln!("synod-lab: something is left behind: {error}");
        }
    }
}

fn data_name(lab: &str) -> String {
    format!("synod-lab-{lab}")
}

/// SIGKILL to all processes in these namespaces, and waits for their end. Gives how many.
fn kill_inside(namespaces: &[String]) -> Result<usize> {
    let mut killed = std::collections::BTreeSet::new();
    let ended = wait_for(KILL_TIMEOUT, || {
        let inside = processes_inside(namespaces);
        for pid in &inside {
            if let Some(target) = Pid::from_raw(*pid) {
                let _ = kill_process(target, Signal::KILL); // it may have ended by itself
            }
        }
        killed.extend(inside.iter().copied());
        inside.is_empty().then_some(())
    });
    if ended.is_some() {
        return Ok(killed.len());
    }
    Err(LabError::Timeout {
        what: "ending the processes of the lab".into(),
        seconds: KILL_TIMEOUT.as_secs(),
        now: format!("{:?} are still there", processes_inside(namespaces)),
    })
}

fn processes_inside(namespaces: &[String]) -> Vec<i32> {
    let pids = |namespace: &String| ip(&["netns", "pids", namespace]).unwrap_or_default();
    let text: Vec<String> = namespaces.iter().map(pids).collect();
    let words = text.iter().flat_map(|text| text.split_whitespace());
    words.filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_be_taken_for_another_lab_are_refused() {
        for name in ["", "two-words", "Lab", "a/b", "thirteenchars"] {
            assert!(Place::new(name, Path::new("/tmp")).is_err(), "{name}");
        }
        let place = Place::new("bench1", Path::new("/tmp")).unwrap();
        assert_eq!(place.data(), Path::new("/tmp/synod-lab-bench1"));
    }
}
