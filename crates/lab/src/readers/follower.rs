//! A reader of a binlog: a thread that notes what comes, and when.

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

/// Marks are in small events; larger ones are not searched.
const MARKED_BYTES_MAX: usize = 4096;
/// Digits of a mark.
const DIGITS: usize = 16;

/// What a reader has seen.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Seen {
    /// Marks of rows, in the order of their arrival.
    pub(super) rows: Vec<Row>,
    /// Bytes of all events.
    pub(super) bytes: u64,
    /// Until the last mark, or the end.
    pub(super) took: Duration,
}

/// A row that has arrived.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row {
    /// Microseconds since the clock's start.
    pub(super) arrived_us: u64,
    /// Since its statement began, milliseconds.
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

/// How a reader takes what comes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Manner {
    /// At most so many bytes per second.
    pub(super) pace: Option<f64>,
    /// It gets the processor's time that nothing else wants, almost as if it were on another
    /// machine.
    pub(super) is_apart: bool,
}

/// Gives this thread the lowest priority: without a process, the system means the thread that asks.
fn step_back() -> Result<()> {
    const LOWEST: i32 = 19;
    rustix::process::setpriority_process(None, LOWEST)
        .map_err(|error| ReadersError::Priority(error.into()))
}

/// Connects a reader.
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
    /// Connects, and begins to read. Marks count from `clock` on; the reader ends at `last`.
    pub(super) fn start(
        config: &UpstreamConfig,
        from: &Position,
        (clock, last): (Instant, u64),
        manner: Manner,
    ) -> Result<Follower> {
        let address = config.address.to_string();
        let mut upstream = connect(config, from)?;
        let handle = upstream.handle();
        let taken = Arc::<AtomicU64>::default();
        let count = Arc::clone(&taken);
        let thread = std::thread::spawn(move || {
            if manner.is_apart {
                step_back()?;
            }
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
                if let Some(pace) = manner.pace {
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

    /// What it has seen.
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
