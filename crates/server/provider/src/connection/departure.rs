//! End of a connection: the server disconnects, or leaves by itself.
//!
//! ```text
//!  disconnect ┬─► nothing new begins ─► what has begun is finished ─► the last applier shows the
//!  leave ─────┘       (closing)          (not if the data differ)     final view ─► the node ends
//!    └─► a restart, or a line each minute for a person (see below)
//! ```
//! Only the final view lets the server finish. It is shown exactly once, by the last applier, even
//! if that applier arrives after everything else is over.
//!
//! A streamed transaction that is open when its server dies is not rolled back here: the next view
//! is without the server, and every other server rolls it back
//! (`transaction/streamed_transactions.rs`).
//!
//! # Return
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
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use synod_node::{DataState, Remedy};

use crate::api::{CAPABILITIES, LogLevel, RecvContext, Status, View};
use crate::boundary;
use crate::connection::session::{Session, State};
use crate::provider::FIRST_SERIAL;
use crate::server_program::ServerProgram;
use crate::status::LocalState;

/// Longest wait of a disconnect for local transactions that are with the group.
pub(crate) const LANDING_LIMIT: Duration = Duration::from_secs(3);
/// Time limit for a transaction that has begun when the order ends.
const DRAIN_LIMIT: Duration = Duration::from_secs(30);
/// Longest wait of `disconnect` for the appliers; the server waits for the final view by itself.
const GOING_LIMIT: Duration = Duration::from_secs(5);

/// Trust in the data of a server that leaves its group by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// They are what the group had, up to some action.
    Good,
    /// They are good, but what follows them is in no log: the next start takes a full copy.
    Outdated,
    /// They may differ from the other servers': the next start takes a full copy.
    Differ,
}

impl Data {
    /// Consequence for the operator, for the error log.
    fn consequence(self) -> &'static str {
        match self {
            Data::Good | Data::Outdated => "",
            Data::Differ => {
                ". This server leaves the group, since its data may differ from the other \
                 servers'. Find out why before you start it again: the next start replaces its \
                 data by a full copy (SST)"
            }
        }
    }
}

/// End of a connection: its steps that happen once, and the threads that it waits for.
#[derive(Default)]
pub(super) struct Exit {
    /// The first applier has begun to join: there is one to show the final view.
    join_begun: AtomicBool,
    /// The final view is being shown, or was.
    final_view: AtomicBool,
    return_begun: AtomicBool,
    threads: Threads,
}

/// Threads of a connection that outlive the calls which have started them.
#[derive(Default)]
struct Threads {
    running: Mutex<Vec<JoinHandle<()>>>,
    /// Held while the node is being stopped.
    stopping: Mutex<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Threads {
    fn start(&self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = boundary::spawn(name, run)?;
        let mut running = lock(&self.running);
        running.retain(|thread| !thread.is_finished());
        running.push(thread);
        Ok(())
    }

    /// Waits for the threads, once the node is stopped or being stopped.
    fn join(&self) {
        loop {
            let thread = lock(&self.running).pop();
            let Some(thread) = thread else { return };
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Session {
    /// The server leaves the group. Returns when the appliers are gone; if one is still busy (a
    /// long DDL statement, say), it shows the final view when it is done.
    pub(crate) fn disconnect(&self) {
        // If it is just about to come back by itself, it need not any more.
        self.update(|state| state.lifecycle.release());
        self.begin_closing();
        self.wait_landed(Instant::now() + LANDING_LIMIT);
        self.sequencer.stop(Instant::now() + DRAIN_LIMIT);
        self.close_node();
        self.sequencer.finish();
        // Not if no applier has come yet: one that comes later shows the final view to the server,
        // which waits for it.
        if self.exit.join_begun.load(Ordering::Acquire) {
            let ended = Instant::now() + GOING_LIMIT;
            self.wait_for(Some(ended), |state| {
                state.lifecycle.has_ended().then_some(())
            });
        }
        self.join_threads();
    }

    /// This server leaves the group by itself: the one way out that no client has asked for.
    /// Nothing new
    /// begins, and `remedy` brings the server back. The first reason counts, unless a later one
    /// says that the data differ. True if this one counts.
    ///
    /// What is inside the order may finish; who can't have that aborts the order next.
    pub(crate) fn leave(&self, why: &str, data: Data, remedy: Remedy) -> bool {
        self.leave_saying(LogLevel::Error, why, data, remedy)
    }

    /// [`Session::leave`], for a reason that has been logged already.
    pub(crate) fn leave_saying(
        &self,
        level: LogLevel,
        why: &str,
        data: Data,
        remedy: Remedy,
    ) -> bool {
        let is_asked_to = self.is_leaving_by_request();
        let counts = self.update(|state| match data {
            Data::Differ => state.lifecycle.fail_as_inconsistent(why, remedy),
            Data::Good | Data::Outdated => state.lifecycle.fail(why, remedy),
        });
        // After the reason: a connection that closes without one closes by request.
        self.begin_closing();
        if counts {
            if data != Data::Good {
                // Before the appliers go: the last one saves the position of a database that is
                // good, and shows the server its last view.
                self.server.position.unusable(self.group(), why);
            }
            if data == Data::Differ {
                self.report(DataState::Error);
            }
            if !is_asked_to {
                self.begin_return();
            }
            self.log(level, format!("{why}{}", data.consequence()));
        }
        match data {
            Data::Differ => self.sequencer.abort(),
            Data::Good | Data::Outdated => self.sequencer.stop(Instant::now() + DRAIN_LIMIT),
        }
        counts
    }

    /// The data of this server may differ from the other servers'. Nothing more gets into them.
    pub(crate) fn leave_as_inconsistent(&self, why: &str) {
        // In words that operators' tools know from Galera.
        let why = format!("Inconsistency detected: {why}");
        self.leave(&why, Data::Differ, Remedy::Operator);
    }

    /// A panic, which has been logged: acknowledge nothing more, let every thread go. Does not
    /// wait.
    /// What the database has is what its engine says, as after a crash.
    pub(crate) fn fence(&self, reason: &str, ctx: Option<RecvContext>) {
        self.leave_saying(LogLevel::Info, reason, Data::Good, Remedy::Restart);
        self.set_local(LocalState::Initialized);
        self.sequencer.abort();
        // An applier that panicked is not counted any more.
        if let Some(ctx) = ctx.filter(|_| self.sequencer.appliers() == 0) {
            self.show_end(ctx);
            self.close_in_background();
        }
    }

    /// An applier goes because the order has ended.
    pub(crate) fn end(&self, ctx: RecvContext, last: bool) -> Status {
        if !last {
            return Status::ConnFail;
        }
        self.save_position();
        self.show_end(ctx);
        self.close_in_background();
        Status::Ok
    }

    /// Before the final view, since the server may be gone soon after.
    fn save_position(&self) {
        let trusted = self.state().lifecycle.may_save_position();
        // A client may still be inside the order; then the engine alone knows.
        if trusted && self.sequencer.is_settled() {
            self.server
                .position
                .settled(self.group(), self.sequencer.released());
        }
    }

    /// An inconsistent server is first shown that it has no group any more, as by Galera.
    fn show_inconsistent(&self, ctx: RecvContext) {
        let view = {
            let state = self.state();
            let evicted = state.lifecycle.is_inconsistent() && state.views.is_primary();
            state.views.latest().cloned().filter(|_| evicted)
        };
        let Some(view) = view else { return };
        let lost = self.view_frame(self.sequencer.released()).lost_view(&view);
        if let Err(error) = self.server.callbacks.view(ctx, &lost) {
            self.log(LogLevel::Error, format!("last view but one: {error}"));
        }
        self.update(|state| state.views.lose());
    }

    /// The final view, without which the server waits for ever. Once.
    fn show_end(&self, ctx: RecvContext) {
        if self.exit.final_view.swap(true, Ordering::AcqRel) {
            return;
        }
        self.show_inconsistent(ctx);
        // The server may end as soon as it has the view.
        self.server.callbacks.flush_log();
        let position = self.gtid(self.sequencer.released());
        let view = View::last(position, CAPABILITIES);
        if let Err(error) = self.server.callbacks.view(ctx, &view) {
            self.log(LogLevel::Error, format!("final view: {error}"));
        }
        self.update(|state| {
            state.lifecycle.end();
            state.views.lose();
        });
    }

    /// Leaves the group and stops the node's threads. A second caller waits for the first.
    pub(crate) fn close_node(&self) {
        let Some(node) = self.node() else { return };
        // Without a view of this session there is nothing to leave, and often no leader to ask.
        let is_in_group = self.state().joined.is_some();
        let _one = lock(&self.exit.threads.stopping);
        if is_in_group {
            node.leave();
        }
        node.stop();
    }

    /// Runs [`Session::close_node`] on its own thread: the caller is the server's.
    fn close_in_background(&self) {
        let keeps_vote = self.state().lifecycle.keeps_vote();
        let close = move |session: &Session| {
            // The database is out, the log is not: this member votes until the others have a
            // quorum without it. Closing the node meanwhile ends the wait.
            if keeps_vote && let Some(node) = session.node() {
                node.leave_when_not_needed();
            }
            session.close_node();
        };
        if let Err(error) = self.start_thread("synod-close", close) {
            self.log(LogLevel::Warn, error);
            self.close_node();
        }
    }

    pub(crate) fn start_thread(
        &self,
        name: &str,
        run: impl FnOnce(&Session) + Send + 'static,
    ) -> Result<(), String> {
        // A session that is being dropped has ended.
        let Some(session) = self.itself() else {
            return Ok(());
        };
        let started = self.exit.threads.start(name, move || run(&session));
        started.map_err(|error| format!("cannot start thread {name}: {error}"))
    }

    pub(crate) fn begins_join(&self) -> bool {
        !self.exit.join_begun.swap(true, Ordering::AcqRel)
    }

    /// Waits for this connection's threads, once the node is stopped or being stopped.
    pub(crate) fn join_threads(&self) {
        self.update(|state| state.lifecycle.release());
        self.exit.threads.join();
    }

    /// The library may be unloaded when this returns.
    pub(crate) fn shut_down(&self) {
        self.begin_closing();
        self.sequencer.abort();
        self.close_node();
        self.join_threads();
    }
}

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
const PROBE_STEP: usize = 1 << 20;

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

    pub(crate) fn flush_period(&self) -> Duration {
        self.flush_period
    }

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

impl Session {
    /// The server has left by itself: sees to its return, on a thread of its own.
    fn begin_return(&self) {
        // At its start, a server that cannot join ends.
        if self.serial == FIRST_SERIAL && !self.state().lifecycle.is_tracked() {
            return;
        }
        if self.exit.return_begun.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Err(error) = self.start_thread("synod-return", Session::come_back) {
            self.exit.return_begun.store(false, Ordering::Release);
            self.log(LogLevel::Warn, format!("{error}. Restart this server"));
        }
    }

    /// Why the server has left, and whether only a person brings it back; none: it has not.
    pub(crate) fn departure(&self) -> Option<(String, bool)> {
        let (why, remedy) = {
            let state = self.state();
            let why = state.lifecycle.failure().cloned()?;
            (why, state.lifecycle.remedy().unwrap_or(Remedy::Operator))
        };
        let restarts = self.server.options.restarts_on_failure();
        Some((why, remedy == Remedy::Operator || !restarts))
    }

    fn come_back(&self) {
        let mut tries = self.server.restart.restarts();
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
        let released = |state: &mut State| state.lifecycle.is_released().then_some(());
        self.wait_for(Some(Instant::now() + limit), released)
            .is_some()
    }

    /// Puts the server's program in the place of this process, if a restart would find disks that
    /// it can write; says `line` before. Returns the obstacle.
    pub(super) fn try_restart(&self, level: LogLevel, line: &str) -> String {
        let restart = &self.server.restart;
        if let Err(obstacle) = restart.probe() {
            return obstacle;
        }
        // The other members know that this one is gone, and the log is closed.
        self.close_node();
        self.log(level, line);
        self.server.callbacks.flush_log();
        let error = restart.run();
        format!("its program cannot be run: {error}")
    }
}

#[cfg(test)]
mod tests;
