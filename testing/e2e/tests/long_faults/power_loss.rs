//! A group of three servers under load whose disks lose their power, mostly all at once: the group
//! comes back by itself with every acknowledged row.
//!
//! Each server's directory, with its database and its log of the group, is on a disk of its own.
//! Nothing syncs the databases (`innodb_flush_log_at_trx_commit = 0`): what they have lost comes
//! back from the logs.

use std::fs::File;
use std::os::unix::fs::symlink;
use std::thread;
use std::time::{Duration, Instant};

use synod_e2e::acknowledged_writes::{Report, Style, Writers};
use synod_e2e::dice::Dice;
use synod_e2e::{Outcome, TestCluster, Why, agreement, ensure, place};
use synod_lab::disk::PoweredDisk;
use synod_local_cluster::SstMethod;

const BASE_PORT: u16 = 17306;
const ALL: [u8; 3] = [1, 2, 3];
const DISK_BYTES: u64 = 1 << 30;
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Fewer losses of the power of all have shown nothing.
const LOSSES_OF_ALL_MIN: u32 = 3;
/// Rows acknowledged before the power goes, at least.
const ROWS_MIN: u64 = 200;
/// New files are where a log may forget to sync.
const OPTIONS: &str = "synod.log_segment_size=1M";

/// The servers, and then their disks: dropped in this order.
struct PoweredGroup {
    cluster: TestCluster,
    disks: Vec<PoweredDisk>,
    dice: Dice,
    /// Time at which enough power was lost.
    ends: Instant,
}

#[test]
#[ignore = "needs root; scripts/run-e2e runs it"]
fn no_acknowledged_row_is_lost_with_the_power_of_all_servers() -> Outcome {
    let mut group = PoweredGroup::start()?;
    let outcome = group.lose_power_again_and_again();
    if outcome.is_err() {
        eprintln!("{}", group.cluster.describe());
    }
    outcome?;
    let PoweredGroup { cluster, disks, .. } = group;
    drop(cluster);
    let mut disks = disks.into_iter();
    disks
        .try_for_each(PoweredDisk::remove)
        .why("removing disks")
}

impl PoweredGroup {
    fn start() -> Outcome<PoweredGroup> {
        let ends = Instant::now() + place::kill_time();
        let mut cluster = TestCluster::empty("power-loss", BASE_PORT, 3)?;
        cluster.settings_mut().provider_options = OPTIONS.to_owned();
        let disks = cluster.nodes().map(|node| make_disk(&cluster, node));
        let disks = disks.collect::<Outcome<Vec<_>>>()?;
        let mut dice = Dice::of(place::seed());
        cluster.settings_mut().sst_method =
            dice.one_of(&[SstMethod::Rsync, SstMethod::Mariabackup]);
        let mut group = PoweredGroup {
            cluster,
            disks,
            dice,
            ends,
        };
        group.cluster.up(&|_, _| ()).why("starting the cluster")?;
        group.cluster.create_account()?;
        Ok(group)
    }

    fn lose_power_again_and_again(&mut self) -> Outcome {
        let (mut of_all, mut of_one) = (0, 0);
        let mut reports = Vec::new();
        while Instant::now() < self.ends || of_all < LOSSES_OF_ALL_MIN || of_one == 0 {
            let name = format!("loss{}", reports.len() + 1);
            let is_of_all = reports.is_empty() || (of_one > 0 && self.dice.below(4) > 0);
            let report = if is_of_all {
                of_all += 1;
                self.lose_power_of_all(&name)?
            } else {
                of_one += 1;
                self.lose_power_of_one(&name)?
            };
            report.check_rows(&self.cluster, &ALL)?;
            agreement::check(&self.cluster, &ALL)?;
            reports.push(report);
        }
        for report in &reports {
            report.check_rows(&self.cluster, &ALL)?;
        }
        let rows: usize = reports.iter().map(Report::acknowledged_count).sum();
        eprintln!("  power lost by all {of_all} times, by one {of_one} times; {rows} rows");
        Ok(())
    }

    fn lose_power_of_all(&mut self, name: &str) -> Outcome<Report> {
        let writers = self.write(name)?;
        self.lose_power(&ALL)?;
        self.cluster.kill_all().why("killing all")?;
        let report = writers.finish();
        let begin = Instant::now();
        let mut order = ALL;
        order.rotate_left(self.dice.below(3) as usize);
        for node in order {
            self.come_back(node)?;
        }
        self.await_all(&ALL)?;
        let back = begin.elapsed();
        eprintln!("  {name}: all lost their power, and were back in {back:.1?}");
        Ok(report)
    }

    fn lose_power_of_one(&mut self, name: &str) -> Outcome<Report> {
        let victim = self.dice.one_of(&[self.cluster.leader(), 1, 2, 3]);
        let writers = self.write(name)?;
        self.lose_power(&[victim])?;
        self.cluster.kill(victim).why("killing one")?;
        let lost = Instant::now();
        for other in self.cluster.others(victim) {
            writers.await_commit_after(other, lost, PATIENCE)?;
        }
        self.come_back(victim)?;
        self.await_all(&[victim])?;
        writers.await_commit_after(victim, Instant::now(), PATIENCE)?;
        eprintln!("  {name}: node{victim} lost its power");
        Ok(writers.finish())
    }

    /// Writers on all servers, after some while.
    fn write(&mut self, name: &str) -> Outcome<Writers> {
        let mut writers = Writers::start(&self.cluster, name, &ALL, 2)?;
        for node in ALL {
            writers.add(&self.cluster, node, 1, Style::Conflicting);
        }
        writers.await_more(ROWS_MIN + self.dice.below(1500), PATIENCE)?;
        Ok(writers)
    }

    fn lose_power(&mut self, nodes: &[u8]) -> Outcome {
        let disks = nodes.iter().map(|node| &self.disks[usize::from(*node - 1)]);
        PoweredDisk::lose_power(&disks.collect::<Vec<_>>()).why("taking the power")?;
        // What a server still says without its disk must be true.
        let pause = self.dice.one_of(&[0, 0, 20, 300]);
        thread::sleep(Duration::from_millis(pause));
        Ok(())
    }

    /// Starts a server on what its disk has kept, as after a boot: with a position from `mariadbd
    /// --wsrep-recover`, or without one.
    fn come_back(&mut self, node: u8) -> Outcome {
        self.disks[usize::from(node - 1)]
            .regain_power()
            .why("giving the power back")?;
        self.cluster.settings_mut().recovers = self.dice.below(2) == 0;
        self.cluster.spawn(node, false).why("starting a server")
    }

    /// Waits until these are synced. What they lack comes from logs.
    fn await_all(&mut self, nodes: &[u8]) -> Outcome {
        let synced = self.cluster.await_synced(nodes, &|_, _| ());
        synced.why("after the power came back")?;
        for node in nodes {
            let text = self.cluster.log_text(*node);
            ensure(!text.contains("asking for a full copy"), || {
                format!("node{node} took a full copy:\n{text}")
            })?;
        }
        Ok(())
    }
}

/// The disk of a server's directory; its error log is elsewhere, for the reader of a failed test.
fn make_disk(cluster: &TestCluster, node: u8) -> Outcome<PoweredDisk> {
    let files = cluster.files(node);
    let disk = PoweredDisk::mount(&files.root, DISK_BYTES).why("making a disk")?;
    let log = files.root.with_extension("log");
    File::create(&log).why("making an error log")?;
    symlink(&log, &files.error_log).why("the way to an error log")?;
    for path in [&files.root, &log] {
        cluster.user().give(path).why("the disk of a server")?;
    }
    Ok(disk)
}
