//! The live drills of `docs/operating/migration.md`, with the page's own commands: clients go from
//! a group of Galera, or a primary with replicas, to a group of Synod, which has followed it by
//! MariaDB's own replication, and back. A server without a group becomes one of three.

use std::time::{Duration, Instant};

use synod_e2e::acknowledged_writes::{Report, Style, Writers};
use synod_e2e::drill::Step;
use synod_e2e::machines::{Machines, PAGE};
use synod_e2e::{Failure, Outcome, TestCluster, Why, agreement, ensure, harness, place};

const OLD_PORT: u16 = 20306;
const NEW_PORT: u16 = 20706;
const PATIENCE: Duration = Duration::from_secs(90);
/// Acknowledgements before and after a change: clients are served.
const SOME: u64 = 50;
const ALL: [u8; 3] = [1, 2, 3];

const THERE: &str = "Galera to Synod, live";
const BACK: &str = "Synod to Galera, live";
const FROM_PRIMARY: &str = "a primary and its replicas to a group, live";
const GROW: &str = "one server becomes a group of three";
/// With this command a drill has found out where the other group begins.
const POSITION: &str = "SELECT @@gtid_binlog_pos";

/// Both sides, and what the page has the reader remember.
struct Site {
    old: Machines,
    new: Machines,
    /// What `POSITION` stands for.
    position: String,
}

impl Site {
    fn with_galera() -> Outcome<Site> {
        let mut old = Machines::prepared("live-old", OLD_PORT, 3)?;
        for machine in 1..=3 {
            old.configure(machine, "# on db1, db2 and db3")?;
        }
        Site::of(old)
    }

    fn with_a_primary() -> Outcome<Site> {
        let mut old = Machines::without_group("live-primary", OLD_PORT, 2)?;
        old.configure(1, "# on the primary")?;
        let replica = old.cluster.settings_mut().overrides.entry(2).or_default();
        replica.extra_lines.push("server_id = 2".into());
        Site::of(old)
    }

    fn of(mut old: Machines) -> Outcome<Site> {
        let mut new = Machines::of_new_group("live-new", NEW_PORT, 3, 4)?;
        for machine in 4..=6 {
            new.configure(machine, "# on db4, db5 and db6")?;
        }
        for machines in [&mut old, &mut new] {
            machines.cluster.up(&|_, _| ()).why("starting a side")?;
            machines.cluster.create_account()?;
        }
        let position = String::new();
        Ok(Site { old, new, position })
    }

    /// Does a step of the page here.
    fn perform(&mut self, step: &Step) -> Outcome {
        let here = Step {
            command: self.here(&step.command),
            ..step.clone()
        };
        if step.command.contains(POSITION) {
            self.position = self.side(step).show(&step.machine, &here.command)?;
            return Ok(());
        }
        self.side(step).perform(&here)
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
        command
            .replace("MASTER_HOST='db1'", &host(self.old.cluster.port(1)))
            .replace("MASTER_HOST='db4'", &host(self.new.cluster.port(1)))
            .replace("POSITION", self.position.trim())
            .replace("-B shop", "-B e2e_data")
            .replace("/root", &shared)
    }

    /// Goes through a drill. When clients may go to the other group, `from` end and `to` begin:
    /// after the last of these commands.
    fn run(&mut self, drill: &Drill, from: Writers, to: &mut Writers) -> Outcome<Report> {
        from.await_more(SOME, PATIENCE).why(drill.title)?;
        let mut from = Some(from);
        let mut report = None;
        for step in PAGE.steps(drill.title)? {
            let name = format!("{}# {}", step.machine, step.command);
            self.perform(&step).why(&name)?;
            if name == drill.clients_go_after {
                report = from.take().map(Writers::finish);
                let cluster = if drill.goes_to_new {
                    &self.new.cluster
                } else {
                    &self.old.cluster
                };
                for node in ALL {
                    to.add(cluster, node, 1, Style::Alone);
                }
            }
        }
        to.await_more(SOME, PATIENCE).why(drill.title)?;
        report.ok_or_else(|| {
            Failure(format!(
                "{} has no '{}'",
                drill.title, drill.clients_go_after
            ))
        })
    }

    /// Waits until a server has what the first server of that side has.
    fn await_position(&self, replica: &TestCluster, node: u8, source: &TestCluster) -> Outcome {
        let position = source.rows(1, POSITION)?.concat();
        let sql = format!("SELECT MASTER_GTID_WAIT('{position}', 60)");
        let waited = replica.rows(node, &sql)?;
        ensure(waited == ["0"], || format!("it does not reach {position}"))
    }
}

struct Drill {
    title: &'static str,
    /// The command after which clients go to the other group.
    clients_go_after: &'static str,
    goes_to_new: bool,
}

fn first_acknowledgement(report: &Report) -> Option<Instant> {
    let all = report
        .records
        .iter()
        .flat_map(|record| &record.acknowledged);
    all.map(|(_, at)| *at).min()
}

fn last_acknowledgement(report: &Report) -> Option<Instant> {
    let all = report
        .records
        .iter()
        .flat_map(|record| &record.acknowledged);
    all.map(|(_, at)| *at).max()
}

fn print_gap(title: &str, before: &Report, after: &Report) -> Outcome {
    let ends = last_acknowledgement(before).zip(first_acknowledgement(after));
    let gap = ends.map(|(last, first)| first.saturating_duration_since(last));
    let gap = gap.ok_or_else(|| Failure("no acknowledgements".to_owned()))?;
    let seconds = gap.as_secs_f32();
    eprintln!("  {title}: {seconds:.1} s without writes");
    Ok(())
}

fn there_and_back(site: &mut Site) -> Outcome {
    // One table for each time at a group: all are there before the copy is made.
    let old = &site.old.cluster;
    let mut first = Writers::prepare(old, "first")?;
    let mut second = Writers::prepare(old, "second")?;
    let mut third = Writers::prepare(old, "third")?;
    for node in ALL {
        first.add(old, node, 1, Style::Alone);
    }
    let there = Drill {
        title: THERE,
        clients_go_after: "db4# mariadb -e \"SELECT @@gtid_binlog_pos\"",
        goes_to_new: true,
    };
    let first = site.run(&there, first, &mut second)?;
    let (old, new) = (&site.old.cluster, &site.new.cluster);
    first
        .check_rows(new, &ALL)
        .why("what Galera acknowledged")?;
    site.await_position(old, 1, new)
        .why("reverse replication")?;

    let back = Drill {
        title: BACK,
        clients_go_after: "db3# mariadb -e \"SET GLOBAL read_only = OFF\"",
        goes_to_new: false,
    };
    let second = site.run(&back, second, &mut third)?;
    let third = third.finish();
    print_gap(THERE, &first, &second)?;
    print_gap(BACK, &second, &third)?;
    let old = &site.old.cluster;
    for report in [&first, &second, &third] {
        report.check_rows(old, &ALL)?;
    }
    agreement::check(old, &ALL)
}

#[test]
fn clients_go_from_galera_to_synod_and_back_live() -> Outcome {
    if place::is_galera() {
        return Ok(());
    }
    carry_out(Site::with_galera()?, there_and_back)
}

#[test]
fn clients_go_from_a_primary_with_a_replica_to_a_group_live() -> Outcome {
    if place::is_galera() {
        return Ok(());
    }
    carry_out(Site::with_a_primary()?, from_primary)
}

fn carry_out(mut site: Site, drill: fn(&mut Site) -> Outcome) -> Outcome {
    let done = drill(&mut site);
    if done.is_err() {
        for machines in [&site.old, &site.new] {
            eprintln!("{}", machines.cluster.describe());
        }
    }
    done
}

fn from_primary(site: &mut Site) -> Outcome {
    let old = &site.old.cluster;
    follow_primary(old)?;
    let mut first = Writers::prepare(old, "first")?;
    let mut second = Writers::prepare(old, "second")?;
    first.add(old, 1, 3, Style::Alone);
    let there = Drill {
        title: FROM_PRIMARY,
        clients_go_after: "db4# mariadb -e \"SELECT @@gtid_binlog_pos\"",
        goes_to_new: true,
    };
    let first = site.run(&there, first, &mut second)?;
    let second = second.finish();
    print_gap(FROM_PRIMARY, &first, &second)?;
    let (old, new) = (&site.old.cluster, &site.new.cluster);
    for report in [&first, &second] {
        report.check_rows(new, &ALL)?;
    }
    agreement::check(new, &ALL)?;
    // The way back: the primary has everything, and so has its replica.
    site.await_position(old, 1, new)?;
    site.await_position(old, 2, old)?;
    for report in [&first, &second] {
        report.check_rows(old, &[1, 2])?;
    }
    Ok(())
}

/// Makes node 2 a replica of node 1, and has `read_only` hold back the writers, as applications'
/// accounts have not the right to write all the same.
fn follow_primary(old: &TestCluster) -> Outcome {
    let (user, password) = (harness::USER, harness::PASSWORD);
    let port = old.port(1);
    let change = format!(
        "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='{user}',
         MASTER_PASSWORD='{password}', MASTER_USE_GTID=slave_pos"
    );
    for sql in [&change, "START SLAVE"] {
        old.query(2, sql, PATIENCE).why(sql)?;
    }
    let account = format!("'{user}'@'127.0.0.1'");
    for right in ["READ_ONLY ADMIN", "SUPER"] {
        let sql = format!("REVOKE {right} ON *.* FROM {account}");
        old.query(1, &sql, PATIENCE).why(sql)?;
    }
    Ok(())
}

#[test]
fn one_server_becomes_a_group_of_three_where_it_is() -> Outcome {
    if place::is_galera() {
        return Ok(());
    }
    let mut machines = Machines::with_one_server("single", OLD_PORT, 3)?;
    let done = grow(&mut machines);
    if done.is_err() {
        eprintln!("{}", machines.cluster.describe());
    }
    done
}

fn grow(machines: &mut Machines) -> Outcome {
    let writers = Writers::start(&machines.cluster, "grown", &[1], 2)?;
    writers.await_more(SOME, PATIENCE)?;
    let begin = Instant::now();
    for step in PAGE.steps(GROW)? {
        let name = format!("{}# {}", step.machine, step.command);
        machines.perform(&step).why(name)?;
    }
    writers.await_more(SOME, PATIENCE)?;
    let end = Instant::now();
    let report = writers.finish();
    let gap = report.longest_gap(&[1], begin, end).as_secs_f32();
    eprintln!("  {GROW}: {gap:.1} s without writes");
    report.check_rows(&machines.cluster, &ALL)?;
    agreement::check(&machines.cluster, &ALL)
}
