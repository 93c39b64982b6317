//! Log of a run: the events of the group and their times, in the file `story.log` and in memory.
//!
//! A failure shows its last lines.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Lines with the time since the run began.
pub(crate) struct RunLog {
    began: Instant,
    lines: Mutex<(File, Vec<String>)>,
}

impl RunLog {
    pub(crate) fn new(dir: &Path) -> io::Result<RunLog> {
        let file = File::create(dir.join("story.log"))?;
        Ok(RunLog {
            began: Instant::now(),
            lines: Mutex::new((file, Vec::new())),
        })
    }

    pub(crate) fn line(&self, what: impl Display) {
        let line = format!("{:8.3} s  {what}", self.began.elapsed().as_secs_f64());
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk shows elsewhere; the lines are kept in memory as well.
        let _ = writeln!(lines.0, "{line}");
        lines.1.push(line);
    }

    pub(crate) fn elapsed_s(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    pub(crate) fn last(&self, count: usize) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.1[lines.1.len().saturating_sub(count)..].to_vec()
    }
}
