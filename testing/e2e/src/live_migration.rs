//! The site of a live migration (`docs/operating/migration-live.md`, `migration-relays.md`): old
//! servers, the servers of a new group, and perhaps relays between them. A drill of a page is run
//! on it while clients write; when the page says so, they go from one side to the other.
//!
//! Besides what [`Machines`] substitutes:
//!
//! | the page | here |
//! |---|---|
//! | `MASTER_HOST='db1'`, `'db4'` | the port of that server |
//! | `MASTER_HOST='relay1', MASTER_PORT=3310` | the port of that relay |
//! | `change-me` | the password of the relays' accounts |
//! | `POSITION` | what the last `SELECT @@gtid_binlog_pos` has shown |
//! | `SEQNO` | the largest `wsrep_last_committed` that was shown |

use std::time::{Duration, Instant};

use synod_local_cluster::wait_for;

use crate::acknowledged_writes::{Report, Style, Writers};
use crate::drill::{Page, Step};
use crate::failure::{Failure, Outcome, Why, ensure};
use crate::harness::{TestCluster, USER};
use crate::machines::Machines;
use crate::migration_relays::MigrationRelays;
use crate::relay;

const PATIENCE: Duration = Duration::from_secs(90);
/// Acknowledgements before and after a change: clients are served.
const SOME: u64 = 50;
/// The servers of a group, by their numbers in it.
const ALL: [u8; 3] = [1, 2, 3];
/// With this command a drill has found out where the other side begins.
const POSITION: &str = "SELECT @@gtid_binlog_pos";
/// With this one it has found the group's last action.
const SEQNO: &str = "wsrep_last_committed";

/// Both sides, and what the page has the reader remember.
#[derive(Debug)]
pub struct Site {
    /// Galera's servers, or a primary and its replicas.
    pub old: Machines,
    /// The servers of the new group.
    pub new: Machines,
    /// Relays of both sides, if there are any.
    pub relays: Option<MigrationRelays>,
    /// Value for `POSITION`.
    position: String,
    /// Value for `SEQNO`.
    seqno: i64,
}

/// Destination of clients in a drill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// To these of the old servers, by their numbers.
    Old(&'static [u8]),
    /// To the new group.
    New,
}

/// A drill of the page.
#[derive(Debug)]
pub struct Drill {
    pub page: Page,
    pub title: &'static str,
    /// The command after which clients go to the other side.
    pub clients_go_after: &'static str,
    pub goal: Goal,
}

impl Site {
    /// Starts both sides, with the account of the tests' clients.
    pub fn of(mut old: Machines, mut new: Machines) -> Outcome<Site> {
        for machines in [&mut old, &mut new] {
            machines.cluster.up(&|_, _| ()).why("starting a side")?;
            machines.cluster.create_account()?;
        }
        Ok(Site {
            old,
            new,
            relays: None,
            position: String::new(),
            seqno: 0,
        })
    }

    /// Goes through a drill while clients write. When they may go to the other side, `from` end
    /// and `to` begin.
    ///
    /// # Errors
    /// When a step fails, or clients are not served before and after it.
    pub fn run(&mut self, drill: &Drill, from: Writers, to: &mut Writers) -> Outcome<Report> {
        from.await_more(SOME, PATIENCE).why(drill.title)?;
        let mut from = Some(from);
        let mut report = None;
        for step in drill.page.steps(drill.title)? {
            let name = format!("{}# {}", step.machine, step.command);
            self.perform(&step).why(&name)?;
            if name == drill.clients_go_after {
                report = from.take().map(Writers::finish);
                self.send(to, drill.goal);
            }
        }
        to.await_more(SOME, PATIENCE).why(drill.title)?;
        report.ok_or_else(|| {
            let (title, command) = (drill.title, drill.clients_go_after);
            Failure(format!("{title} has no '{command}'"))
        })
    }

    fn send(&self, writers: &mut Writers, goal: Goal) {
        let (cluster, nodes) = match goal {
            Goal::Old(nodes) => (&self.old.cluster, nodes),
            Goal::New => (&self.new.cluster, &ALL[..]),
        };
        for node in nodes {
            writers.add(cluster, *node, 1, Style::Alone);
        }
    }

    /// Does a step of the page here.
    fn perform(&mut self, step: &Step) -> Outcome {
        let here = Step {
            command: self.here(&step.command),
            ..step.clone()
        };
        if self
            .relays
            .as_ref()
            .is_some_and(|all| all.has(&step.machine))
        {
            return self.ask_relay(&here);
        }
        if step.command.contains(POSITION) {
            self.position = self.side(step).show(&step.machine, &here.command)?;
            return Ok(());
        }
        if step.command.contains(SEQNO) {
            let shown = self.side(step).show(&step.machine, &here.command)?;
            let number = shown.split_whitespace().last().unwrap_or_default();
            let number = number.parse().why(&shown)?;
            self.seqno = self.seqno.max(number);
            return Ok(());
        }
        self.side(step).perform(&here)
    }

    /// Asks a relay until it shows what the page says.
    fn ask_relay(&self, step: &Step) -> Outcome {
        let mut last = String::new();
        let shown = wait_for(PATIENCE, || {
            let relays = self.relays.as_ref()?;
            last = match relays.show(&step.machine, &step.command) {
                Ok(output) | Err(Failure(output)) => output,
            };
            step.missing_in(&last).is_none().then_some(())
        });
        ensure(shown.is_some(), || {
            format!("it does not show {:?}, but:\n{last}", step.shows)
        })
    }

    fn side(&mut self, step: &Step) -> &mut Machines {
        if self.old.has(&step.machine) {
            &mut self.old
        } else {
            &mut self.new
        }
    }

    /// A command of the page with what is different here.
    fn here(&self, command: &str) -> String {
        let shared = self.old.cluster.settings().dir.display().to_string();
        let host = |port| format!("MASTER_HOST='127.0.0.1', MASTER_PORT={port}");
        let here = command
            .replace("MASTER_HOST='db1'", &host(self.old.cluster.port(1)))
            .replace("MASTER_HOST='db4'", &host(self.new.cluster.port(1)))
            .replace("change-me", relay::PASSWORD)
            .replace("POSITION", self.position.trim())
            .replace("SEQNO", &self.seqno.to_string())
            .replace("-B shop", "-B e2e_data")
            .replace("/root", &shared);
        match &self.relays {
            Some(relays) => relays.here(&here),
            None => here,
        }
    }

    /// Waits until a server has what another side's first server has.
    pub fn await_position(&self, replica: &TestCluster, node: u8, source: &TestCluster) -> Outcome {
        let position = source.rows(1, POSITION)?.concat();
        let sql = format!("SELECT MASTER_GTID_WAIT('{position}', 60)");
        let waited = replica.rows(node, &sql)?;
        ensure(waited == ["0"], || format!("it does not reach {position}"))
    }
}

/// Has `read_only` hold back the writers of a side, as applications' accounts have not the right to
/// write all the same.
pub fn have_read_only_hold_back_writers(cluster: &TestCluster) -> Outcome {
    for right in ["READ_ONLY ADMIN", "SUPER"] {
        let sql = format!("REVOKE {right} ON *.* FROM '{USER}'@'127.0.0.1'");
        cluster.query(1, &sql, PATIENCE).why(sql)?;
    }
    Ok(())
}

/// Prints for how long no client could write when they went to the other side.
pub fn print_gap(title: &str, before: &Report, after: &Report) -> Outcome {
    let ends = acknowledgements(before)
        .max()
        .zip(acknowledgements(after).min());
    let gap = ends.map(|(last, first)| first.saturating_duration_since(last));
    let gap = gap.ok_or_else(|| Failure("no acknowledgements".to_owned()))?;
    let seconds = gap.as_secs_f32();
    eprintln!("  {title}: {seconds:.1} s without writes");
    Ok(())
}

fn acknowledgements(report: &Report) -> impl Iterator<Item = Instant> {
    let records = report.records.iter();
    records.flat_map(|record| record.acknowledged.iter().map(|(_, at)| *at))
}
