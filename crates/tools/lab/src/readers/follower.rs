//! A binlog reader: a thread that records the rows it receives, and when they arrived.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use memchr::memmem;
use synod_upstream::{
    Incoming, Part, Position, Upstream, UpstreamConfig, UpstreamError, UpstreamHandle,
};

use super::{ReadersError, Result, us_since};
use crate::meters::clients::MARK;
use crate::tools;

/// Marks are in small events; larger ones are not searched.
const MARKED_BYTES_MAX: usize = 4096;
/// Digits of a mark.
const DIGITS: usize = 16;

/// Rows and bytes that a reader has received.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Seen {
    /// Marks of rows, in the order of their arrival.
    pub(super) rows: Vec<Row>,
    /// Bytes of all events.
    pub(super) bytes: u64,
    /// Time until the last mark, or until the end.
    pub(super) took: Duration,
}

/// A row that has arrived.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row {
    /// Microseconds since the clock's start.
    pub(super) arrived_us: u64,
    /// Time since its statement began, milliseconds.
    pub(super) age_ms: f64,
}

/// A running reader. It ends by itself at the mark that it waits for.
#[derive(Debug)]
pub(super) struct Follower {
    handle: UpstreamHandle,
    /// Bytes that it has taken.
    taken: Arc<AtomicU64>,
    thread: JoinHandle<Result<Seen>>,
}

/// Runs `body` on a thread that gets the processor's time that nothing else wants. So do the
/// threads that it starts: what they take delays others almost as little as on another machine.
///
/// # Errors
/// The error of `body`, or the system refuses to lower the thread's priority.
pub(super) fn apart<T: Send>(body: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let run = || {
        step_back()?;
        body()
    };
    std::thread::scope(|threads| threads.spawn(run).join()).map_err(|_| ReadersError::Panicked)?
}

/// Gives this thread the policy `SCHED_IDLE`. A thread of the lowest priority alone (`nice`) may
/// finish its time slice while others wait.
fn step_back() -> Result<()> {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let mut command = Command::new("chrt");
    tools::output_of(command.args(["--idle", "--pid", "0", &thread]))
        .map(drop)
        .map_err(|error| ReadersError::Priority(Box::new(error)))
}

pub(super) fn connect(config: &UpstreamConfig, from: &Position) -> Result<Upstream> {
    Upstream::connect(config, from).map_err(|error| failed(&config.address.to_string(), error))
}

fn failed(address: &str, source: UpstreamError) -> ReadersError {
    ReadersError::Reader {
        address: address.to_owned(),
        source: Box::new(source),
    }
}

impl Follower {
    /// Connects, and begins to read: at most `pace` bytes per second, if there is one. Marks count
    /// from `clock` on; the reader ends at `last`.
    pub(super) fn start(
        config: &UpstreamConfig,
        from: &Position,
        (clock, last): (Instant, u64),
        pace: Option<f64>,
    ) -> Result<Follower> {
        let address = config.address.to_string();
        let mut upstream = connect(config, from)?;
        let handle = upstream.handle();
        let taken = Arc::<AtomicU64>::default();
        let count = Arc::clone(&taken);
        let thread = std::thread::spawn(move || {
            let begun = Instant::now();
            let mut seen = Seen::default();
            loop {
                let Incoming::Part(part) =
                    upstream.next().map_err(|error| failed(&address, error))?
                else {
                    continue;
                };
                if seen.take(&part, clock, last) {
                    seen.took = begun.elapsed();
                    return Ok(seen);
                }
                count.store(seen.bytes, Ordering::Relaxed);
                if let Some(pace) = pace {
                    let due = begun + Duration::from_secs_f64(seen.bytes as f64 / pace);
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                }
            }
        });
        Ok(Follower {
            handle,
            taken,
            thread,
        })
    }

    /// Bytes that it has taken so far.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Whether it has seen its last mark, or failed.
    pub(super) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the reader's end, and gives what it received.
    pub(super) fn finish(self) -> Result<Seen> {
        self.thread.join().map_err(|_| ReadersError::Panicked)?
    }

    /// Ends it, whatever it has seen.
    pub(super) fn stop(self) {
        self.handle.stop();
        let _ = self.thread.join(); // a panic has been printed
    }
}

impl Seen {
    /// Takes what has come; gives whether the last mark is in it.
    fn take(&mut self, part: &Part, clock: Instant, last: u64) -> bool {
        self.bytes += part.bytes() as u64;
        let mut is_last = false;
        // A mark may come twice: in the text of a statement, and in its row.
        let mut known = None;
        for event in &part.events {
            let Some(mark) = find_mark(event).filter(|mark| known != Some(*mark)) else {
                continue;
            };
            known = Some(mark);
            is_last |= mark == last;
            let arrived_us = us_since(clock);
            // A mark at which a reader ends lies in the future.
            if let Some(age_us) = arrived_us.checked_sub(mark) {
                let age_ms = age_us as f64 / 1000.0;
                self.rows.push(Row { arrived_us, age_ms });
            }
        }
        is_last
    }
}

/// The mark in the bytes of an event.
fn find_mark(event: &[u8]) -> Option<u64> {
    if event.len() > MARKED_BYTES_MAX {
        return None;
    }
    let place = memmem::find(event, MARK.as_bytes())? + MARK.len();
    let digits = event.get(place..place + DIGITS)?;
    str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meters::clients::mark;
    use synod_upstream::{FilePosition, Kind};

    #[test]
    fn mark_is_found_amid_the_bytes_of_a_row() {
        let event = [b"\x00\xfe\x1b".as_slice(), mark(1234).as_bytes(), b"\xff"].concat();
        assert_eq!(find_mark(&event), Some(1234));
        assert_eq!(find_mark(&event[..event.len() - 2]), None);
        assert_eq!(find_mark(b"synod"), None);
    }

    #[test]
    fn threads_that_are_started_apart_stand_back_too() {
        /// Number of the policy in `sched.h` of Linux.
        const SCHED_IDLE: &str = "5";
        let policy = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let (_, fields) = stat.rsplit_once(')').unwrap();
            // Field 41; the first after the name is the third (proc_pid_stat(5)).
            fields.split_whitespace().nth(41 - 3).unwrap().to_owned()
        };
        let before = policy();
        let child = apart(|| Ok(std::thread::spawn(policy).join().unwrap())).unwrap();
        assert_eq!(child, SCHED_IDLE);
        assert_eq!(policy(), before);
    }

    #[test]
    fn mark_of_a_statement_and_of_its_row_counts_once() {
        let text = format!("INSERT INTO t VALUES ('{}')", mark(5));
        let part = Part {
            gtid: "0-1-1".parse().unwrap(),
            mysql: None,
            kind: Kind::Transaction,
            first: true,
            last: true,
            not_whole_rows: None,
            events: vec![text.into(), mark(5).into(), mark(9).into()],
            end: FilePosition {
                file: "binlog.1".to_owned(),
                offset: 4,
            },
        };
        let mut seen = Seen::default();
        let past = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        assert!(seen.take(&part, past, 9));
        assert_eq!(seen.rows.len(), 2);
    }
}
