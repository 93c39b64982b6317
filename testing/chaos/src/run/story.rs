//! What happened, with the time, in a file and for the end.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// See the module.
pub(crate) struct Story {
    began: Instant,
    told: Mutex<(File, Vec<String>)>,
}

impl Story {
    pub(crate) fn new(dir: &Path) -> io::Result<Story> {
        let file = File::create(dir.join("story.log"))?;
        Ok(Story {
            began: Instant::now(),
            told: Mutex::new((file, Vec::new())),
        })
    }

    pub(crate) fn tell(&self, what: impl Display) {
        let line = format!("{:8.3} s  {what}", self.began.elapsed().as_secs_f64());
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk shows elsewhere; the lines are kept in memory as well.
        let _ = writeln!(told.0, "{line}");
        told.1.push(line);
    }

    pub(crate) fn elapsed_s(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// The newest lines.
    pub(crate) fn last(&self, count: usize) -> Vec<String> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.1[told.1.len().saturating_sub(count)..].to_vec()
    }
}
