//! Directories of servers in which every write hangs while a test wants it, or every sync takes a
//! while: disks that do not answer, or slowly.
//!
//! A small library in C, preloaded into each server, lets the calls wait (`preload/`). Tests need
//! no rights for that, and the servers can be killed meanwhile, other than with a device that is
//! suspended.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Outcome, Why};
use crate::harness::TestCluster;
use crate::programs::output_of;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/preload/hanging_disk.c");

/// A disk of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// The group's durable log.
    Log,
    Database,
    /// Everything that the server writes, its error log included.
    All,
}

/// Gives the servers that start from now on disks that can hang: their logs get directories of
/// their own.
pub fn prepare(cluster: &mut TestCluster) -> Outcome {
    let library = cluster.settings().dir.join("hanging_disk.so");
    build(&library)?;
    for node in cluster.nodes() {
        let disks = [Disk::Log, Disk::Database, Disk::All];
        let dirs = disks.map(|disk| directory(cluster, node, disk).display().to_string());
        let own = cluster.settings_mut().overrides.entry(node).or_default();
        own.provider_options = Some(format!("synod.log_dir={}", dirs[0]));
        // Only calls of the C library can hang.
        own.extra_lines.push("innodb_use_native_aio = OFF".into());
        own.environment = [
            ("HANGING_DISKS".into(), dirs.join(":")),
            ("LD_PRELOAD".into(), library.display().to_string()),
        ]
        .into();
    }
    Ok(())
}

fn build(library: &Path) -> Outcome {
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2"])
        .args(["-shared", "-fPIC", "-o"])
        .arg(library)
        .arg(SOURCE);
    output_of(&mut cc, "building the library of hanging disks").map(|_| ())
}

fn directory(cluster: &TestCluster, node: u8, disk: Disk) -> PathBuf {
    let files = cluster.files(node);
    match disk {
        Disk::Log => files.root.join("log"),
        Disk::Database => files.data,
        Disk::All => files.root,
    }
}

/// Disks that hang or are slow until this is dropped.
#[derive(Debug)]
pub struct HangingDisks(Vec<PathBuf>);

impl HangingDisks {
    /// Lets disks of a node hang from now on. What was begun before is finished.
    pub fn begin(cluster: &TestCluster, node: u8, disks: &[Disk]) -> Outcome<HangingDisks> {
        let mut hanging = HangingDisks(Vec::new());
        for disk in disks {
            hanging.flag(&directory(cluster, node, *disk), ".hangs", "")?;
        }
        Ok(hanging)
    }

    /// Has each sync of all logs take longer, by a time from this range of milliseconds.
    pub fn slow_logs(cluster: &TestCluster, ms: &RangeInclusive<u32>) -> Outcome<HangingDisks> {
        let mut slow = HangingDisks(Vec::new());
        let range = format!("{} {}", ms.start(), ms.end());
        for node in cluster.nodes() {
            slow.flag(&directory(cluster, node, Disk::Log), ".slow", &range)?;
        }
        Ok(slow)
    }

    /// Makes a file beside the directory.
    fn flag(&mut self, directory: &Path, suffix: &str, text: &str) -> Outcome {
        let mut flag = directory.as_os_str().to_owned();
        flag.push(suffix);
        let flag = PathBuf::from(flag);
        // As a whole: servers read it at each call.
        let new = flag.with_extension("new");
        std::fs::write(&new, text).why(new.display())?;
        std::fs::rename(&new, &flag).why(format_args!("making {}", flag.display()))?;
        self.0.push(flag);
        Ok(())
    }
}

impl Drop for HangingDisks {
    fn drop(&mut self) {
        for flag in &self.0 {
            if let Err(error) = std::fs::remove_file(flag) {
                eprintln!("{} stays: {error}", flag.display());
            }
        }
    }
}
