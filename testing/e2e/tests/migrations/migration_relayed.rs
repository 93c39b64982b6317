//! The drills of `docs/operating/migration-relays.md`, with the page's own commands: clients go
//! from an asynchronous primary to a group, which has followed it through a relay, and back to the
//! primary, which has followed the group through another one.

use std::collections::BTreeSet;
use std::time::Duration;

use synod_e2e::acknowledged_writes::{Style, Writers};
use synod_e2e::live_migration::{Drill, Goal, Site, have_read_only_hold_back_writers, print_gap};
use synod_e2e::machines::{Machines, RELAYED};
use synod_e2e::migration_relays::MigrationRelays;
use synod_e2e::{Outcome, TestCluster, Why, agreement, ensure};

const OLD_PORT: u16 = 20306;
const NEW_PORT: u16 = 20706;
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
const SOME: u64 = 50;
const GROUP: [u8; 3] = [1, 2, 3];

const THERE: Drill = Drill {
    page: RELAYED,
    title: "a primary to a group, by way of relays",
    clients_go_after: "db4# mariadb -e \"SHOW STATUS LIKE 'wsrep_last_committed'\"",
    goal: Goal::New,
};
const BACK: Drill = Drill {
    page: RELAYED,
    title: "back to the primary, by way of relays",
    clients_go_after: "db1# mariadb -e \"SET GLOBAL read_only = OFF\"",
    goal: Goal::Old(&[1]),
};

#[test]
fn clients_go_from_a_primary_to_a_group_and_back_by_way_of_relays() -> Outcome {
    let mut site = site()?;
    let done = there_and_back(&mut site);
    if done.is_err() {
        for machines in [&site.old, &site.new] {
            eprintln!("{}", machines.cluster.describe());
        }
        let relays = site.relays.as_ref().map(MigrationRelays::says);
        eprintln!("{}", relays.unwrap_or_default());
    }
    done
}

fn site() -> Outcome<Site> {
    let mut old = Machines::without_group("relayed-primary", OLD_PORT, 1)?;
    old.configure(1, RELAYED, "# on db1, for its relay")?;
    let mut new = Machines::of_new_group("relayed-group", NEW_PORT, 3, 4)?;
    for machine in 4..=6 {
        new.configure(machine, RELAYED, "# on db4, db5 and db6, for relays")?;
        let node = machine - 3;
        let own = new
            .cluster
            .settings_mut()
            .overrides
            .entry(node)
            .or_default();
        own.extra_lines
            .push(format!("gtid_domain_id = {}", 20 + node));
    }
    let mut site = Site::of(old, new)?;
    for machines in [&site.old, &site.new] {
        have_read_only_hold_back_writers(&machines.cluster)?;
    }
    let relays = MigrationRelays::start(&site.old.cluster, &site.new.cluster)?;
    site.relays = Some(relays);
    Ok(site)
}

fn there_and_back(site: &mut Site) -> Outcome {
    // One table for each time at a side: all are there before the copy is made.
    let old = &site.old.cluster;
    let mut first = Writers::prepare(old, "first")?;
    let mut second = Writers::prepare(old, "second")?;
    let mut third = Writers::prepare(old, "third")?;
    first.add(old, 1, 3, Style::Calm);

    let first = site.run(&THERE, first, &mut second)?;
    let new = &site.new.cluster;
    first
        .check_rows(new, &GROUP)
        .why("what the primary acknowledged")?;

    let second = site.run(&BACK, second, &mut third)?;
    let (old, new) = (&site.old.cluster, &site.new.cluster);
    for report in [&first, &second] {
        report.check_rows(old, &[1]).why("back at the primary")?;
    }
    third.await_more(SOME, PATIENCE)?;
    let third = third.finish();
    print_gap(THERE.title, &first, &second)?;
    print_gap(BACK.title, &second, &third)?;

    // The group follows again, and each of its servers knows up to where.
    site.await_position(new, 1, old)?;
    for report in [&first, &second, &third] {
        report.check_rows(old, &[1])?;
        report.check_rows(new, &GROUP)?;
    }
    let position = gtids(old, 1, "@@gtid_binlog_pos")?;
    for node in GROUP {
        let known = gtids(new, node, "@@gtid_slave_pos")?;
        ensure(known == position, || {
            format!("db{}: at {known:?}, not {position:?}", node + 3)
        })?;
    }
    agreement::check(new, &GROUP)
}

/// The GTIDs of a variable, in no order.
fn gtids(cluster: &TestCluster, node: u8, variable: &str) -> Outcome<BTreeSet<String>> {
    let shown = cluster.rows(node, &format!("SELECT {variable}"))?.concat();
    Ok(shown.split(',').map(str::to_owned).collect())
}
