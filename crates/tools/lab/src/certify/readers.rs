//! Readers beside the clients of a trial: a server may answer them with what is no longer so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;

use super::trial::{CLIENT_PATIENCE, CLIENTS};
use crate::meters::clients::{unique_id, us_since};
use crate::meters::group::{DATABASE, Group, Server};
use crate::meters::visibility::Sighting;

/// Pause between two reads of a server: what they cost is little beside the clients' writes.
const EVERY: Duration = Duration::from_millis(50);

pub(super) struct Readers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Sighting>>>,
}

impl Readers {
    /// Watches the first client of each server. Times count from `clock` on.
    pub(super) fn start(group: &Group, table: &str, clock: Instant) -> Readers {
        let stop = Arc::new(AtomicBool::new(false));
        let watched: Vec<u32> = (1..)
            .step_by(CLIENTS as usize)
            .take(group.servers.len())
            .collect();
        let newest = |client: &u32| {
            let (from, to) = (
                unique_id(*client, 0),
                unique_id(*client, u64::from(u32::MAX)),
            );
            format!("(SELECT MAX(id) FROM {DATABASE}.{table} WHERE id BETWEEN {from} AND {to})")
        };
        let newest: Vec<String> = watched.iter().map(newest).collect();
        let sql = format!("SELECT CONCAT_WS(',', {})", newest.join(", "));
        let start = |server: &Server| {
            let (server, sql, stop) = (server.clone(), sql.clone(), Arc::clone(&stop));
            std::thread::spawn(move || read(&server, &sql, clock, &stop))
        };
        let threads = group.servers.iter().map(start).collect();
        Readers { stop, threads }
    }

    /// Ends them; gives what they saw.
    pub(super) fn finish(mut self) -> Vec<Sighting> {
        self.stop.store(true, Ordering::Relaxed);
        let threads = std::mem::take(&mut self.threads).into_iter();
        threads
            .flat_map(|thread| thread.join().unwrap_or_default())
            .collect()
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Reads until it is told to stop. What is not answered shows nothing.
fn read(server: &Server, sql: &str, clock: Instant, stop: &AtomicBool) -> Vec<Sighting> {
    let mut connection: Option<Conn> = None;
    let mut seen = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        sleep(EVERY);
        let open = connection
            .take()
            .or_else(|| server.connect_patiently(CLIENT_PATIENCE).ok());
        let Some(mut open) = open else { continue };
        let at_us = us_since(clock);
        let Ok(answer) = open.query_first::<Option<String>, _>(sql) else {
            continue;
        };
        let ids = answer.flatten().unwrap_or_default();
        let ids = ids.split(',').filter_map(|id| id.parse::<u64>().ok());
        seen.extend(ids.map(|id| Sighting {
            row: u32::try_from(id >> 32).unwrap_or_default(),
            number: id & u64::from(u32::MAX),
            at_us,
        }));
        connection = Some(open);
    }
    seen
}
