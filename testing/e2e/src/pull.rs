//! A reader of an upstream, as a relay is one: it keeps what comes, and comes again by GTID.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use synod_binlog::event::HEADER_BYTES;
use synod_binlog::{EventHeader, Events, Gtid, GtidList};
use synod_upstream::{
    Incoming, Part, Position, Upstream, UpstreamAddress, UpstreamConfig, UpstreamError,
    UpstreamHandle,
};

use crate::failure::{Failure, Outcome, Why, ensure};
use crate::stock_server::StockServer;

/// The account of readers.
pub const USER: &str = "repl";
pub const PASSWORD: &str = "secret";
/// A pause before a reader comes again.
const AGAIN: Duration = Duration::from_millis(100);

/// Configuration of a reader of this server: with its own account, which is made there.
pub fn config(server: &StockServer, dir: &Path, server_id: u32) -> Outcome<UpstreamConfig> {
    server.execute(&[
        &format!("CREATE OR REPLACE USER {USER} IDENTIFIED BY '{PASSWORD}'"),
        &format!("GRANT REPLICATION SLAVE ON *.* TO {USER}"),
    ])?;
    config_of_port(server.port, dir, server_id)
}

/// The same for the server that listens on this port. The account is there already.
pub fn config_of_port(port: u16, dir: &Path, server_id: u32) -> Outcome<UpstreamConfig> {
    let path = dir.join("upstream-password");
    fs::write(&path, PASSWORD).why("the password's file")?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).why("the password's file")?;
    let address = UpstreamAddress {
        host: "127.0.0.1".to_owned(),
        port,
    };
    let mut config = UpstreamConfig::new(address, USER, server_id);
    config.password_file = Some(path);
    config.heartbeat = Duration::from_millis(400);
    Ok(config)
}

/// An event as it is compared: its type and flags, and what follows its header.
pub type Told = (u8, u16, Vec<u8>);

/// Transactions and errors that a reader received.
#[derive(Debug, Default)]
pub struct Pulled {
    after: GtidList,
    /// Whole transactions, in the order in which they came.
    pub transactions: Vec<(Gtid, Vec<Told>)>,
    /// Parts of the transaction that comes.
    open: Vec<Told>,
    /// Bytes of the largest part with several events.
    pub largest_part: usize,
    /// Reasons for the ends of the connection.
    pub ends: Vec<String>,
}

impl Pulled {
    /// The newest GTID of each domain.
    pub fn position(&self) -> GtidList {
        let came = self.transactions.iter().map(|(gtid, _)| gtid);
        let gtids = self.after.0.iter().chain(came);
        let newest: BTreeMap<u32, Gtid> = gtids.map(|gtid| (gtid.domain, *gtid)).collect();
        GtidList(newest.into_values().collect())
    }

    fn take(&mut self, part: &Part) {
        if part.first {
            self.open.clear();
        }
        if part.events.len() > 1 {
            self.largest_part = self.largest_part.max(part.bytes());
        }
        self.open
            .extend(part.events.iter().map(|event| told(event)));
        if part.last {
            let events = std::mem::take(&mut self.open);
            self.transactions.push((part.gtid, events));
        }
    }

    /// All events, one after the other.
    pub fn events(&self) -> impl Iterator<Item = &Told> {
        self.transactions.iter().flat_map(|(_, events)| events)
    }
}

fn told(event: &[u8]) -> Told {
    let header = EventHeader::parse(event);
    let (event_type, flags) = header.map_or((0, 0), |header| (header.event_type.0, header.flags));
    let body = event.get(HEADER_BYTES..).unwrap_or_default();
    (event_type, flags, body.to_vec())
}

/// The events of transactions in the binlogs of a server, as they are on its disk.
pub fn events_on_disk(server: &StockServer) -> Outcome<Vec<Told>> {
    // Format, rotation, end, heartbeat, lists of GTIDs, checkpoints are of files.
    const OF_FILES: [u8; 6] = [3, 4, 15, 27, 161, 163];
    let mut told = Vec::new();
    for row in server.rows("SHOW BINARY LOGS")? {
        let file = row.split('\t').next().unwrap_or_default();
        let bytes = fs::read(server.data().join(file)).why(file)?;
        for event in Events::of(bytes.get(4..).unwrap_or_default()) {
            let event = event.why(file)?;
            if !OF_FILES.contains(&event.header.event_type.0) {
                let EventHeader {
                    event_type, flags, ..
                } = event.header;
                told.push((event_type.0, flags, event.body.to_vec()));
            }
        }
    }
    Ok(told)
}

/// A reader in a thread of its own.
#[derive(Debug)]
pub struct Puller {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    pulled: Pulled,
    handle: Option<UpstreamHandle>,
    is_stopped: bool,
}

impl Puller {
    /// Pulls from the beginning on.
    pub fn start(config: UpstreamConfig) -> Puller {
        Puller::after(config, GtidList::default())
    }

    /// Pulls what follows these transactions.
    pub fn after(config: UpstreamConfig, after: GtidList) -> Puller {
        let port = config.address.port;
        Puller::begin(config, vec![port], after)
    }

    /// Pulls from the beginning on, from the first of these ports of the machine; whenever a
    /// connection ends or cannot be made, from the next one.
    pub fn among(config: UpstreamConfig, ports: Vec<u16>) -> Puller {
        Puller::begin(config, ports, GtidList::default())
    }

    fn begin(config: UpstreamConfig, ports: Vec<u16>, after: GtidList) -> Puller {
        let shared = Arc::<Shared>::default();
        shared.lock().pulled.after = after;
        let pulling = shared.clone();
        let thread = thread::spawn(move || pulling.run(config, &ports));
        Puller {
            shared,
            thread: Some(thread),
        }
    }

    /// Ends the present connection: the reader comes again.
    pub fn interrupt(&self) {
        if let Some(handle) = &self.shared.lock().handle {
            handle.stop();
        }
    }

    /// Waits until it has this transaction.
    pub fn await_gtid(&self, wanted: &str, patience: Duration) -> Outcome {
        let wanted: Gtid = wanted.parse().why("a GTID")?;
        let has_it =
            |state: &State| state.pulled.position().of_domain(wanted.domain) == Some(wanted);
        self.shared.await_that(patience, has_it).ok_or_else(|| {
            let state = self.shared.lock();
            let (position, ends) = (state.pulled.position(), &state.pulled.ends);
            Failure(format!(
                "the reader is at '{position}', not at {wanted}: {ends:?}"
            ))
        })
    }

    /// Ends the reader; returns its result.
    pub fn finish(mut self) -> Pulled {
        self.end();
        std::mem::take(&mut self.shared.lock().pulled)
    }

    fn end(&mut self) {
        self.shared.lock().is_stopped = true;
        self.interrupt();
        if let Some(thread) = self.thread.take() {
            // Its panic was printed.
            let _ = thread.join();
        }
    }
}

impl Drop for Puller {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn await_that(&self, patience: Duration, is_so: impl Fn(&State) -> bool) -> Option<()> {
        let deadline = Instant::now() + patience;
        let mut state = self.lock();
        while !is_so(&state) {
            let left = deadline.checked_duration_since(Instant::now())?;
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(())
    }

    fn run(&self, mut config: UpstreamConfig, ports: &[u16]) {
        for port in ports.iter().cycle() {
            if self.lock().is_stopped {
                return;
            }
            config.address.port = *port;
            let Err(error) = self
                .connect(&config)
                .and_then(|upstream| self.pull(upstream))
            else {
                continue;
            };
            self.lock().pulled.ends.push(error.to_string());
            thread::sleep(AGAIN);
        }
    }

    fn connect(&self, config: &UpstreamConfig) -> Result<Upstream, UpstreamError> {
        let position = Position::Gtids(self.lock().pulled.position());
        let upstream = Upstream::connect(config, &position)?;
        self.lock().handle = Some(upstream.handle());
        Ok(upstream)
    }

    /// Pulls until the connection ends.
    fn pull(&self, mut upstream: Upstream) -> Result<(), UpstreamError> {
        while !self.lock().is_stopped {
            if let Incoming::Part(part) = upstream.next()? {
                self.lock().pulled.take(&part);
                upstream.acknowledge(&part.end)?;
                self.changed.notify_all();
            }
        }
        Ok(())
    }
}

/// Checks that a reader has every transaction of a server once, in order, with each of its events
/// as it is on the server's disk.
pub fn check_complete(pulled: &Pulled, server: &StockServer) -> Outcome {
    let mut last: BTreeMap<u32, u64> = BTreeMap::new();
    for (gtid, _) in &pulled.transactions {
        let before = last.insert(gtid.domain, gtid.sequence).unwrap_or_default();
        ensure(gtid.sequence == before + 1, || {
            format!("{gtid} comes after {before}")
        })?;
    }
    let on_disk = events_on_disk(server)?;
    let differs = pulled
        .events()
        .zip(&on_disk)
        .position(|(got, is)| got != is);
    let counts = (pulled.events().count(), on_disk.len());
    ensure(differs.is_none() && counts.0 == counts.1, || {
        format!(
            "event {differs:?} differs; {} came, {} are on disk",
            counts.0, counts.1
        )
    })
}
