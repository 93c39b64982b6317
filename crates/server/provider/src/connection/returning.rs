//! Return of a server that has left the group by itself.
//!
//! ```text
//!   it leaves ─► final view ─► what would bring it back?
//!        a restart, or a full copy at a restart ─► pause ─► can the disks be written? ─► restart
//!                                                    ▲               no │
//!                                                    └── longer pause ◄─┘  (a line each minute)
//!        a person ─► a line in the error log each minute
//! ```
//! A running server cannot join again by itself: only its operator can have it connect, and it
//! cannot take a full copy. So the restart is one of the server's program, in the same process:
//! service managers and containers see no end. To the database it is a crash, and the start after
//! it is one after a crash: the engine is asked for its position. Everything acknowledged is in the
//! logs of a majority, whatever this server still had in memory.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use synod_node::Remedy;

use crate::api::LogLevel;
use crate::boundary;
use crate::connection::Connection;
use crate::provider::FIRST_SERIAL;
use crate::server_program::ServerProgram;

/// The first pause before a restart; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest pause, and the time between two lines about a server that waits for a person.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// A server that ran for so long does not inherit the pauses of its earlier lives.
const LONG_LIFE: Duration = Duration::from_secs(600);
/// Tells the program after a restart how many restarts there were before it.
const RESTARTS: &str = "SYNOD_RESTARTS";
/// Written where the log is, to find out whether that works. No log file has such a name.
const PROBE_NAME: &str = "synod-probe.tmp";
/// Disk space needed to start a server, mostly for its engine's temporary tablespace. A server that
/// fails at its start for want of it would not come back by itself.
const START_BYTES: u64 = 32 << 20;
/// Bytes written at a time.
const PROBE_STEP: usize = 1 << 20;

/// Everything needed to restart the server.
pub(crate) struct Restart {
    program: ServerProgram,
    data_dir: PathBuf,
    log_dir: PathBuf,
    /// The log must have room for a new segment.
    segment_bytes: u64,
    /// Period in which the storage engine flushes what it has applied.
    flush_period: Duration,
    begun: Instant,
}

impl Restart {
    /// Captures the command line of this server, which has just been started.
    pub(crate) fn new(
        program: ServerProgram,
        [data_dir, log_dir]: [PathBuf; 2],
        segment_bytes: u64,
        flush_period: Duration,
    ) -> Restart {
        Restart {
            program,
            data_dir,
            log_dir,
            segment_bytes,
            flush_period,
            begun: Instant::now(),
        }
    }

    /// Period in which the storage engine flushes what it has applied.
    pub(crate) fn flush_period(&self) -> Duration {
        self.flush_period
    }

    /// Number of restarts of this server in a row.
    pub(super) fn restarts(&self) -> u32 {
        let before = std::env::var(RESTARTS)
            .ok()
            .and_then(|count| count.parse().ok());
        before
            .filter(|_| self.begun.elapsed() < LONG_LIFE)
            .unwrap_or(0)
    }

    /// Whether a restart would find disks that it can write, and a program that it can run.
    fn probe(&self) -> Result<(), String> {
        let disks = [
            (&self.log_dir, self.segment_bytes),
            (&self.data_dir, START_BYTES),
        ];
        for (dir, bytes) in disks {
            probe_disk(dir, bytes)
                .map_err(|error| format!("{} cannot be written: {error}", dir.display()))?;
        }
        let same = self.program.check_data_dir(&self.data_dir);
        same.map_err(|error| error.to_string())
    }

    /// Puts the program in the place of this process.
    fn run(&self) -> String {
        let restarts = self.restarts().saturating_add(1).to_string();
        match boundary::close_files_on_exec() {
            Ok(()) => self
                .program
                .replace_this_process(RESTARTS, &restarts)
                .to_string(),
            Err(error) => error.to_string(),
        }
    }
}

/// Writes as much as a new segment takes, and removes it.
fn probe_disk(dir: &Path, bytes: u64) -> io::Result<()> {
    let path = dir.join(PROBE_NAME);
    let written = write_zeroes(&path, bytes);
    let removed = fs::remove_file(&path);
    written.and(removed)
}

fn write_zeroes(path: &Path, bytes: u64) -> io::Result<()> {
    let mut file = File::create(path)?;
    let zeroes = vec![0; PROBE_STEP];
    let mut left = bytes;
    while left > 0 {
        let step = left.min(PROBE_STEP as u64);
        file.write_all(&zeroes[..step as usize])?;
        left -= step;
    }
    file.sync_all()
}

/// Last report of an obstacle: repeated once a minute, and when the obstacle changes.
#[derive(Default)]
pub(super) struct Said {
    last: Option<(String, Instant)>,
}

impl Said {
    pub(super) fn is_due(&mut self, obstacle: &str, now: Instant) -> bool {
        let is_old = |(text, at): &(String, Instant)| text == obstacle && now < *at + PAUSE_MAX;
        if self.last.as_ref().is_some_and(is_old) {
            return false;
        }
        self.last = Some((obstacle.to_owned(), now));
        true
    }
}

/// The pause before try number `tries`, from zero.
pub(super) fn pause(tries: u32) -> Duration {
    PAUSE_MIN.saturating_mul(1 << tries.min(16)).min(PAUSE_MAX)
}

impl Connection {
    /// The server has left by itself: sees to its return, on a thread of its own.
    pub(super) fn begin_return(&self) {
        let Some(connection) = self.itself() else {
            return;
        };
        // At its start, a server that cannot join ends.
        if self.serial == FIRST_SERIAL && !self.state().lifecycle.is_tracked() {
            return;
        }
        let start = || boundary::spawn("synod-return", move || connection.come_back());
        if let Err(error) = self.start_return(start) {
            self.log(
                LogLevel::Warn,
                format!("cannot start thread synod-return: {error}. Restart this server"),
            );
        }
    }

    /// Why the server has left by itself, and whether only a person brings it back; none: it has
    /// not.
    pub(crate) fn departure(&self) -> Option<(String, bool)> {
        let (why, remedy) = {
            let state = self.state();
            let why = state.lifecycle.failure().cloned()?;
            (why, state.lifecycle.remedy().unwrap_or(Remedy::Operator))
        };
        let restarts = self.shared.options.restarts_on_failure();
        Some((why, remedy == Remedy::Operator || !restarts))
    }

    fn come_back(&self) {
        let mut tries = self.shared.restart.restarts();
        let mut said = Said::default();
        loop {
            let (why, waits_for_person) = self.departure().unwrap_or((String::new(), true));
            let pause = if waits_for_person {
                PAUSE_MAX
            } else {
                pause(tries)
            };
            tries = tries.saturating_add(1);
            if self.is_released_within(pause) {
                return;
            }
            if waits_for_person {
                self.log(
                    LogLevel::Error,
                    format!("this server is not in its group, and takes no writes: {why}"),
                );
                continue;
            }
            let line = format!(
                "restarting this server, to bring it back to its group. It had left it: {why}"
            );
            let obstacle = self.try_restart(LogLevel::Warn, &line);
            if said.is_due(&obstacle, Instant::now()) {
                self.log(
                    LogLevel::Error,
                    format!(
                        "this server is not in its group, and takes no writes. It comes back by \
                         itself once this works again: {obstacle}"
                    ),
                );
            }
        }
    }

    /// Whether the server ends, or connects again, within this time: then it needs no help.
    fn is_released_within(&self, limit: Duration) -> bool {
        let released = |state: &mut super::State| state.lifecycle.is_released().then_some(());
        self.wait_for(Some(Instant::now() + limit), released)
            .is_some()
    }

    /// Puts the server's program in the place of this process, if a restart would find disks that
    /// it can write; says `line` before. Returns the obstacle.
    pub(super) fn try_restart(&self, level: LogLevel, line: &str) -> String {
        let restart = &self.shared.restart;
        if let Err(obstacle) = restart.probe() {
            return obstacle;
        }
        // The other members know that this one is gone, and the log is closed.
        self.close_node();
        self.log(level, line);
        self.shared.callbacks.flush_log();
        let error = restart.run();
        format!("its program cannot be run: {error}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_minute() {
        assert_eq!(pause(0), Duration::from_secs(1));
        assert_eq!(pause(3), Duration::from_secs(8));
        assert_eq!(pause(6), PAUSE_MAX);
        assert_eq!(pause(u32::MAX), PAUSE_MAX);
    }

    #[test]
    fn obstacle_is_said_each_minute_and_when_it_changes() {
        let (mut said, begun) = (Said::default(), Instant::now());
        assert!(said.is_due("full", begun));
        assert!(!said.is_due("full", begun + PAUSE_MAX / 2));
        assert!(said.is_due("broken", begun + PAUSE_MAX / 2));
        assert!(said.is_due("broken", begun + PAUSE_MAX * 2));
    }

    #[test]
    fn probe_finds_out_whether_the_disk_works_and_leaves_nothing() {
        let dir = std::env::temp_dir().join(format!("synod-probe-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        probe_disk(&dir, 3 << 20).unwrap();
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        fs::remove_dir_all(&dir).unwrap();
        assert!(probe_disk(&dir, 1).is_err());
        let full = write_zeroes(Path::new("/dev/full"), 1).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    }
}
