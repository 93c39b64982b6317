//! The live drills of `docs/operating/migration-live.md`, with the page's own commands: clients go
//! from a group of Galera, or a primary with replicas, to a group of Synod, which has followed it
//! by MariaDB's own replication, and back. A server without a group becomes one of three.

use std::time::{Duration, Instant};

use synod_e2e::acknowledged_writes::{Style, Writers};
use synod_e2e::live_migration::{Drill, Goal, Site, have_read_only_hold_back_writers, print_gap};
use synod_e2e::machines::{IN_PLACE, LIVE, Machines};
use synod_e2e::{Outcome, TestCluster, Why, agreement, harness};

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

/// Galera's servers, and a new group.
fn with_galera() -> Outcome<Site> {
    let mut old = Machines::prepared("live-old", OLD_PORT, 3)?;
    for machine in 1..=3 {
        old.configure(machine, LIVE, "# on db1, db2 and db3")?;
    }
    beside(old)
}

/// A primary, its replica, and a new group.
fn with_a_primary() -> Outcome<Site> {
    let mut old = Machines::without_group("live-primary", OLD_PORT, 2)?;
    old.configure(1, LIVE, "# on the primary")?;
    let replica = old.cluster.settings_mut().overrides.entry(2).or_default();
    replica.extra_lines.push("server_id = 2".into());
    beside(old)
}

fn beside(old: Machines) -> Outcome<Site> {
    let mut new = Machines::of_new_group("live-new", NEW_PORT, 3, 4)?;
    for machine in 4..=6 {
        new.configure(machine, LIVE, "# on db4, db5 and db6")?;
        let settings = new.cluster.settings_mut();
        let own = settings.overrides.entry(machine - 3).or_default();
        own.extra_lines
            .push(format!("gtid_domain_id = {}", 17 + machine));
    }
    Site::of(old, new)
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
        page: LIVE,
        title: THERE,
        clients_go_after: "db4# mariadb -e \"SELECT @@gtid_binlog_pos\"",
        goal: Goal::New,
    };
    let first = site.run(&there, first, &mut second)?;
    let (old, new) = (&site.old.cluster, &site.new.cluster);
    first
        .check_rows(new, &ALL)
        .why("what Galera acknowledged")?;
    site.await_position(old, 1, new)
        .why("reverse replication")?;

    let back = Drill {
        page: LIVE,
        title: BACK,
        clients_go_after: "db3# mariadb -e \"SET GLOBAL read_only = OFF\"",
        goal: Goal::Old(&ALL),
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
    carry_out(with_galera()?, there_and_back)
}

#[test]
fn clients_go_from_a_primary_with_a_replica_to_a_group_live() -> Outcome {
    carry_out(with_a_primary()?, from_primary)
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
    have_read_only_hold_back_writers(old)?;
    let mut first = Writers::prepare(old, "first")?;
    let mut second = Writers::prepare(old, "second")?;
    first.add(old, 1, 3, Style::Alone);
    let there = Drill {
        page: LIVE,
        title: FROM_PRIMARY,
        clients_go_after: "db4# mariadb -e \"SELECT @@gtid_binlog_pos\"",
        goal: Goal::New,
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

/// Makes node 2 a replica of node 1.
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
    Ok(())
}

#[test]
fn one_server_becomes_a_group_of_three_where_it_is() -> Outcome {
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
    for step in IN_PLACE.steps(GROW)? {
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
