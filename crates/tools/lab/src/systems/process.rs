//! A program of a system that this process starts, and that ends with it.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use synod_local_cluster::wait_for;

use crate::error::{IoContext, Result};

/// A server writes what its buffer pool holds before it ends.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Process(Option<Child>);

impl Process {
    /// Starts it without output: it has an error log, or `errors` takes that.
    pub(super) fn start(&mut self, command: &mut Command, errors: Stdio) -> Result<()> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let started = command.stderr(errors).spawn();
        self.0 = Some(started.context("start", command.get_program())?);
        Ok(())
    }

    pub(super) fn kill(&mut self) {
        if let Some(mut process) = self.0.take() {
            let _ = process.kill(); // it may have ended by itself
            let _ = process.wait();
        }
    }

    /// Ends it in order. False: it had to be killed.
    pub(super) fn stop(&mut self) -> bool {
        if let Some(pid) = self.pid().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM); // it may have ended by itself
        }
        let ended = wait_for(STOP_TIMEOUT, || (!self.is_running()).then_some(()));
        self.kill();
        ended.is_some()
    }

    pub(super) fn is_running(&mut self) -> bool {
        let process = self.0.as_mut();
        process.is_some_and(|process| matches!(process.try_wait(), Ok(None)))
    }

    pub(super) fn pid(&self) -> Option<i32> {
        i32::try_from(self.0.as_ref()?.id()).ok()
    }
}
