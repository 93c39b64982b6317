//! Lines for a host's log, and the thread that writes them: for hosts to use.
//!
//! A server writes a line under a mutex of its own, to a disk that may hang; a pipe may be full. A
//! thread that drives the member must wait for neither, or the member is silent. So lines wait
//! here, bounded in bytes: what does not fit is left out, and a line says how much. While no thread
//! serves the queue (before the first connect, after the end), each thread writes its own lines.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::Duration;

use synod_planted::planted;

use crate::sync::{Condvar, Mutex, lock};

const BYTES_MAX: usize = 1 << 20;
/// Memory of a line beside its text, in bytes.
const LINE_OVERHEAD: usize = 64;

/// The lines that wait, each with a level of type `L`.
#[derive(Debug)]
pub struct LogQueue<L> {
    state: Mutex<State<L>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<L> {
    lines: VecDeque<(L, String)>,
    bytes: usize,
    /// How many had no room since lines were last taken.
    left_out: u64,
    is_served: bool,
    is_writing: bool,
    is_stopping: bool,
}

impl<L> Default for LogQueue<L> {
    fn default() -> LogQueue<L> {
        LogQueue {
            state: Mutex::new(State {
                lines: VecDeque::new(),
                bytes: 0,
                left_out: 0,
                is_served: false,
                is_writing: false,
                is_stopping: false,
            }),
            changed: Condvar::new(),
        }
    }
}

impl<L> LogQueue<L> {
    /// Queues a line; false if the caller has to write it, because no thread serves.
    pub fn push(&self, level: L, text: &str) -> bool {
        let mut state = lock(&self.state);
        if !state.is_served {
            return false;
        }
        let bytes = text.len() + LINE_OVERHEAD;
        if state.bytes + bytes > BYTES_MAX {
            state.left_out += 1;
        } else {
            state.bytes += bytes;
            state.lines.push_back((level, text.to_owned()));
        }
        drop(state);
        self.changed.notify_all();
        true
    }

    /// Lines are queued from now on, for a thread that the caller starts with [`LogQueue::serve`].
    /// False if there is one.
    pub fn open(&self) -> bool {
        let mut state = lock(&self.state);
        state.is_stopping = false;
        !std::mem::replace(&mut state.is_served, true)
    }

    /// Hands each line to `write`, until stopped; at level `warning` how many were left out.
    pub fn serve(&self, warning: L, write: impl Fn(L, &str))
    where
        L: Copy,
    {
        while let Some((lines, left_out)) = self.take() {
            for (level, text) in lines {
                write(level, &text);
            }
            if left_out > 0 {
                let text = format!(
                    "{left_out} lines of this member were left out here: the error log did not \
                     take them in time"
                );
                write(warning, &text);
            }
            lock(&self.state).is_writing = false;
            planted!(FlushUnwoken, self.changed.notify_all(), else ());
        }
    }

    /// Has the thread end when it has written what waits.
    pub fn stop(&self) {
        lock(&self.state).is_stopping = true;
        self.changed.notify_all();
    }

    /// Waits until what was queued is written; false after `limit`.
    pub fn flush(&self, limit: Duration) -> bool {
        let is_busy = |state: &mut State<L>| state.is_writing || state.has_lines();
        let waited = self
            .changed
            .wait_timeout_while(lock(&self.state), limit, is_busy)
            .unwrap_or_else(PoisonError::into_inner);
        !waited.1.timed_out()
    }

    /// Waits for lines; none once stopped and empty.
    fn take(&self) -> Option<(VecDeque<(L, String)>, u64)> {
        let is_idle = |state: &mut State<L>| !state.is_stopping && !state.has_lines();
        let mut state = self
            .changed
            .wait_while(lock(&self.state), is_idle)
            .unwrap_or_else(PoisonError::into_inner);
        if !state.has_lines() {
            state.is_served = false;
            return None;
        }
        state.is_writing = true;
        state.bytes = 0;
        let left_out = std::mem::take(&mut state.left_out);
        Some((std::mem::take(&mut state.lines), left_out))
    }
}

impl<L> State<L> {
    fn has_lines(&self) -> bool {
        !self.lines.is_empty() || self.left_out > 0
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod model {
    use std::sync::Arc;

    use synod_planted::Bug;

    use super::*;
    use crate::sync::{model, thread};

    const LIMIT: Duration = Duration::from_secs(3600);

    /// Threads queue lines and wait until these are written; then the one that writes is stopped.
    fn lines_are_written_before_flush_returns() {
        let (queue, written) = (Arc::new(LogQueue::default()), Arc::new(Mutex::default()));
        assert!(queue.open());
        let serving = thread::spawn({
            let (queue, written) = (queue.clone(), Arc::<Mutex<Vec<String>>>::clone(&written));
            move || queue.serve((), |(), text| lock(&written).push(text.to_owned()))
        });
        let writers = ["one", "two"].map(|text| {
            let (queue, written) = (queue.clone(), written.clone());
            thread::spawn(move || {
                assert!(queue.push((), text));
                assert!(queue.flush(LIMIT));
                assert!(lock(&written).iter().any(|line| line == text));
            })
        });
        for writer in writers {
            writer.join().unwrap();
        }
        queue.stop();
        serving.join().unwrap();
        assert!(!queue.push((), "three"), "the caller writes it");
    }

    #[test]
    fn lines_are_written_and_the_thread_ends_in_every_schedule() {
        model::holds(lines_are_written_before_flush_returns);
    }

    #[test]
    fn planted_bugs_are_found() {
        model::finds(Bug::FlushUnwoken, lines_are_written_before_flush_returns);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::scope;

    use super::*;
    use synod_member::Level;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// An error log that takes a line only when the test lets it.
    struct HangingLog {
        permits: Receiver<()>,
        written: Sender<String>,
    }

    fn hanging_log() -> (HangingLog, Sender<()>, Receiver<String>) {
        let (permit, permits) = channel();
        let (written, lines) = channel();
        (HangingLog { permits, written }, permit, lines)
    }

    impl HangingLog {
        fn write(&self, text: &str) {
            // Without a test that permits, everything may be written.
            let _ = self.permits.recv();
            self.written.send(text.to_owned()).unwrap();
        }
    }

    #[test]
    fn queueing_waits_for_no_log_that_hangs_and_keeps_the_order() {
        let (queue, (log, permit, lines)) = (LogQueue::default(), hanging_log());
        assert!(queue.open() && !queue.open());
        scope(|scope| {
            let queue = &queue;
            scope.spawn(move || queue.serve(Level::Warning, |_, text| log.write(text)));
            for line in ["one", "two", "three"] {
                assert!(queue.push(Level::Info, line));
            }
            assert!(!queue.flush(Duration::ZERO), "nothing is written yet");
            drop(permit);
            assert!(queue.flush(PATIENCE));
            assert_eq!(
                lines.try_iter().collect::<Vec<_>>(),
                ["one", "two", "three"]
            );
            queue.stop();
        });
    }

    #[test]
    fn what_waits_is_written_before_the_thread_ends() {
        let (queue, (log, permit, lines)) = (LogQueue::default(), hanging_log());
        queue.open();
        assert!(queue.push(Level::Info, "one"));
        queue.stop();
        drop(permit);
        queue.serve(Level::Warning, |_, text| log.write(text));
        assert_eq!(lines.try_iter().collect::<Vec<_>>(), ["one"]);
        assert!(!queue.push(Level::Info, "two"), "the caller writes it");
        assert!(queue.open(), "another thread may serve");
    }

    #[test]
    fn lines_without_room_are_counted() {
        let (queue, (log, permit, lines)) = (LogQueue::default(), hanging_log());
        queue.open();
        let long = "x".repeat(BYTES_MAX / 4);
        (0..5).for_each(|_| assert!(queue.push(Level::Info, &long)));
        queue.stop();
        drop(permit);
        queue.serve(Level::Warning, |_, text| log.write(text));
        let written: Vec<String> = lines.try_iter().collect();
        assert_eq!(written.len(), 4);
        assert!(written[3].starts_with("2 lines"), "{}", written[3]);
    }
}
