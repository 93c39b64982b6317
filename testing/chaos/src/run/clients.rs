//! Clients: each works at one member, with one request at a time, and records the answers.
//!
//! Their records are the evidence for the oracle, and show whether the group makes progress.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::oracle::{ClientAnswer, Evidence, Read};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::process::Connection;
use crate::protocol::{Command, Reply};

/// Rows of the table: few, so that transactions conflict.
const ROWS: u32 = 60;
/// After this time without an answer, a client gives up, and the result stays unknown.
const ANSWER_LIMIT: Duration = Duration::from_secs(6);

/// State that all clients share.
pub(crate) struct Ledger {
    evidence: Mutex<Evidence>,
    next_id: AtomicU64,
    /// Highest position that was acknowledged to a client.
    acknowledged: AtomicI64,
    last_success: Mutex<Instant>,
    pub(crate) counts: Counts,
}

/// Number of answers by kind.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) committed: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) unknown: AtomicU64,
    pub(crate) reads: AtomicU64,
}

impl Ledger {
    pub(crate) fn new() -> Ledger {
        Ledger {
            evidence: Mutex::default(),
            next_id: AtomicU64::new(1),
            acknowledged: AtomicI64::new(0),
            last_success: Mutex::new(Instant::now()),
            counts: Counts::default(),
        }
    }

    pub(crate) fn evidence(&self) -> MutexGuard<'_, Evidence> {
        self.evidence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Highest position that was acknowledged to a client.
    pub(crate) fn acknowledged(&self) -> i64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// Time of the latest acknowledgement of a transaction.
    pub(crate) fn last_success(&self) -> Instant {
        *self
            .last_success
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits a transaction, and records the answer.
    pub(crate) fn write(
        &self,
        connection: &mut Connection,
        rows: Vec<u32>,
        padding: usize,
        total_order: bool,
    ) -> std::io::Result<ClientAnswer> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.evidence().answers.insert(id, ClientAnswer::Unknown);
        let answer = connection.ask(&Command::Write {
            id,
            rows,
            padding,
            total_order,
        });
        let known = match &answer {
            Ok(Reply::Committed { position }) => ClientAnswer::Committed {
                position: *position,
            },
            Ok(Reply::Refused { .. }) => ClientAnswer::Refused,
            _ => ClientAnswer::Unknown,
        };
        self.note(id, known);
        answer.map(|_| known)
    }

    fn note(&self, id: u64, answer: ClientAnswer) {
        let count = match answer {
            ClientAnswer::Committed { position } => {
                self.acknowledged.fetch_max(position, Ordering::SeqCst);
                *self
                    .last_success
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner) = Instant::now();
                &self.counts.committed
            }
            ClientAnswer::Refused => &self.counts.refused,
            ClientAnswer::Unknown => &self.counts.unknown,
        };
        count.fetch_add(1, Ordering::Relaxed);
        self.evidence().answers.insert(id, answer);
    }

    fn read(&self, connection: &mut Connection, member: &str, row: u32) -> std::io::Result<()> {
        let floor = self.acknowledged();
        if let Reply::Row { version, position } = connection.ask(&Command::Read { row })? {
            self.counts.reads.fetch_add(1, Ordering::Relaxed);
            self.evidence().reads.push(Read {
                member: member.to_owned(),
                floor,
                position,
                row,
                version,
            });
        }
        Ok(())
    }
}

/// Starts a client. It ends soon after `stop` is set.
pub(crate) fn spawn(
    ledger: Arc<Ledger>,
    stop: Arc<AtomicBool>,
    member: String,
    dir: PathBuf,
    seed: u64,
) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut rng = SmallRng::seed_from_u64(seed);
        while !stop.load(Ordering::Acquire) {
            // Any error ends the connection: the member is gone, or does not answer.
            if work(&ledger, &stop, &member, &dir, &mut rng).is_err() {
                thread::sleep(Duration::from_millis(20));
            }
        }
    })
}

fn work(
    ledger: &Ledger,
    stop: &AtomicBool,
    member: &str,
    dir: &Path,
    rng: &mut SmallRng,
) -> std::io::Result<()> {
    let mut connection = Connection::open(dir, ANSWER_LIMIT)?;
    while !stop.load(Ordering::Acquire) {
        if rng.random_bool(0.3) {
            ledger.read(&mut connection, member, rng.random_range(0..ROWS))?;
        } else {
            let (rows, padding) = (draw_rows(rng), draw_padding(rng));
            let answer = ledger.write(&mut connection, rows, padding, rng.random_bool(0.01))?;
            if answer == ClientAnswer::Refused {
                // Clients retry after a pause, and a member that is not synced yet is busy.
                thread::sleep(Duration::from_millis(rng.random_range(0..30)));
            }
        }
        thread::sleep(Duration::from_millis(rng.random_range(0..8)));
    }
    Ok(())
}

fn draw_rows(rng: &mut SmallRng) -> Vec<u32> {
    let count = rng.random_range(1..=3);
    let mut rows: Vec<u32> = (0..count).map(|_| rng.random_range(0..ROWS)).collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}

/// Mostly small; sometimes an action in many chunks.
fn draw_padding(rng: &mut SmallRng) -> usize {
    match rng.random_range(0..100) {
        0..95 => rng.random_range(0..500),
        95..99 => rng.random_range(10_000..60_000),
        _ => rng.random_range(100_000..600_000),
    }
}
