//! Three relays of a stock primary with clients and readers, while a test does them harm: every
//! reader must get every transaction once, in order, with each event as it is on the primary's
//! disk.
//!
//! Clients insert rows with known numbers, change tables, and commit transactions that a relay
//! takes in several parts; their commits wait until two relays have them. Readers keep what they
//! get in memory, and go to another relay when theirs is gone. What they have at the end is
//! compared with the primary's files: by GTIDs, and byte for byte.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use mysql::prelude::Queryable;
use synod_lab::disk::mounts;

use crate::dice::Dice;
use crate::failure::{Outcome, Why, ensure};
use crate::place;
use crate::pull::{self, Puller, check_complete};
use crate::relay_group::{RelayGroup, UPSTREAM_OPTIONS};
use crate::stock_server::StockServer;

/// Number of relays.
const RELAYS: usize = 3;
/// Ports of the relays, above that of the primary.
const RELAYS_PORT: u16 = 14;
/// The `server_id` of the first reader.
const READER_ID: u32 = 4801;
const READERS: u32 = 3;
const CLIENTS: u32 = 4;
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
const MORE_OPTIONS: [&str; 2] = [
    "--max-allowed-packet=64M",
    // Longer than relays need to come back: a commit that did not wait is counted.
    "--rpl-semi-sync-master-timeout=80000",
];

/// The primary, its relays and their readers. All processes are killed when it is dropped.
#[derive(Debug)]
pub struct RelaysUnderLoad {
    primary: StockServer,
    pub group: RelayGroup,
    readers: Vec<Puller>,
    dir: PathBuf,
}

/// Results of clients.
#[derive(Default)]
struct Load {
    is_over: AtomicBool,
    /// Transactions that were answered OK.
    acknowledged: AtomicU64,
}

impl RelaysUnderLoad {
    /// Starts the primary, and makes the files of the relays, in the directory of this name and in
    /// place of what is there. This port and the next 40 are theirs.
    pub fn prepare(name: &str, port: u16) -> Outcome<RelaysUnderLoad> {
        let dir = place::cluster_dir(name)?;
        mounts::unmount_below(&dir).why("unmounting what is left")?;
        let primary = StockServer::new(
            &dir.join("primary"),
            port,
            &[&UPSTREAM_OPTIONS[..], &MORE_OPTIONS].concat(),
        )?;
        let group = RelayGroup::of(&primary, &dir, port + RELAYS_PORT, RELAYS as u16)?;
        primary.execute(&["CREATE DATABASE shop"])?;
        primary.execute(&["SET GLOBAL rpl_semi_sync_master_enabled = ON"])?;
        Ok(RelaysUnderLoad {
            primary,
            group,
            readers: Vec::new(),
            dir,
        })
    }

    /// Starts relays, readers and clients, does this harm meanwhile, and checks what readers have
    /// got. The harm answers how often it was done: at least this often, or the test has shown
    /// nothing. At its end all relays run.
    ///
    /// # Errors
    /// With what is wrong, after printing what the relays have said.
    pub fn run(
        &mut self,
        at_least: u32,
        harm: impl FnOnce(&mut RelaysUnderLoad) -> Outcome<u32>,
    ) -> Outcome {
        let outcome = self
            .start()
            .and_then(|()| self.harm_under_load(at_least, harm))
            .and_then(|()| self.check());
        if outcome.is_err() {
            // A primary that serves no dump any more shows it here.
            let threads = self.primary.rows("SHOW FULL PROCESSLIST");
            eprintln!("{}\nprimary: {threads:#?}", self.group.says());
        }
        outcome
    }

    /// The places of relays, one of `counts` of them: of the one that leads, so pulls, more often
    /// than chance would have it.
    pub fn choose_relays(&self, dice: &mut Dice, counts: &[usize]) -> Outcome<Vec<usize>> {
        let first = match dice.below(2) {
            0 => self.group.await_leader()?,
            _ => dice.below(RELAYS as u64) as usize,
        };
        let places = 0..dice.one_of(counts);
        Ok(places.map(|next| (first + next) % RELAYS).collect())
    }

    /// Ends a reader's connection now and then: it comes again.
    pub fn disturb_reader(&self, dice: &mut Dice) {
        if dice.below(3) == 0 {
            self.readers[dice.below(READERS.into()) as usize].interrupt();
        }
    }

    fn start(&mut self) -> Outcome {
        self.group.begin()?;
        let config = pull::config(&self.primary, &self.dir, READER_ID)?;
        let ports: Vec<u16> = self.group.relays.iter().map(|relay| relay.port).collect();
        let reader = |number: u32| {
            let mut config = config.clone();
            config.server_id += number;
            let mut ports = ports.clone();
            ports.rotate_left(number as usize);
            Puller::among(config, ports)
        };
        self.readers = (0..READERS).map(reader).collect();
        Ok(())
    }

    fn harm_under_load(
        &mut self,
        at_least: u32,
        harm: impl FnOnce(&mut RelaysUnderLoad) -> Outcome<u32>,
    ) -> Outcome {
        let load = Load::default();
        let harmed = thread::scope(|threads| {
            let clients: Vec<_> = (1..=CLIENTS)
                .map(|client| {
                    let (load, conn) = (&load, self.primary.connect());
                    threads.spawn(move || write(conn?, client, load))
                })
                .collect();
            let harmed = harm(self);
            load.is_over.store(true, Ordering::SeqCst);
            let written = clients
                .into_iter()
                .try_for_each(|client| client.join().unwrap_or(Ok(())));
            written.and(harmed)
        })?;
        let acknowledged = load.acknowledged.load(Ordering::SeqCst);
        println!("{harmed} faults of relays; {acknowledged} transactions were answered OK");
        ensure(harmed >= at_least && acknowledged > 200, || {
            format!("only {harmed} faults and {acknowledged} transactions")
        })
    }

    fn check(&mut self) -> Outcome {
        self.group.await_puller()?;
        let last = self.primary.rows("SELECT @@gtid_binlog_pos")?.concat();
        for reader in self.readers.drain(..) {
            reader.await_gtid(&last, PATIENCE)?;
            let pulled = reader.finish();
            println!(
                "{} transactions, {} ends of connections",
                pulled.transactions.len(),
                pulled.ends.len()
            );
            check_complete(&pulled, &self.primary)?;
            ensure(pulled.ends.len() > 2, || {
                "the faults did not disturb the reader".to_owned()
            })?;
        }
        let no_tx = "SHOW STATUS LIKE 'Rpl_semi_sync_master_no_tx'";
        let alone = self.primary.rows(no_tx)?;
        ensure(alone == ["Rpl_semi_sync_master_no_tx\t0"], || {
            format!("commits that no majority of the relays has acknowledged: {alone:?}")
        })
    }
}

/// One client: rows with numbers that are known, changes of its table, large transactions.
fn write(mut conn: mysql::Conn, client: u32, load: &Load) -> Outcome {
    let mut run = |sql: &str| conn.query_drop(sql).why(sql);
    let table = format!("shop.t{client}");
    run(&format!(
        "CREATE TABLE {table} (id INT PRIMARY KEY, v LONGTEXT)"
    ))?;
    let mut id = 0;
    while !load.is_over.load(Ordering::SeqCst) {
        id += 1;
        match id % 120 {
            30 => run(&format!(
                "ALTER TABLE {table} ADD COLUMN c{id} INT DEFAULT {id}"
            ))?,
            60 if client == 1 => {
                // More than a relay takes at a time: it comes in several parts.
                run("BEGIN")?;
                for row in 0..6 {
                    run(&format!(
                        "INSERT INTO {table} (id, v) VALUES (-{id}{row}, REPEAT('z', 1000000))"
                    ))?;
                }
                run("COMMIT")?;
            }
            90 => run("FLUSH BINARY LOGS")?,
            _ => run(&format!(
                "INSERT INTO {table} (id, v) VALUES ({id}, '{id}')"
            ))?,
        }
        load.acknowledged.fetch_add(1, Ordering::SeqCst);
    }
    Ok(())
}
