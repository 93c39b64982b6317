//! One trial: a load from all sides, a fault, its repair, and what is left afterwards.

use std::collections::HashSet;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use mysql::prelude::{FromRow, Queryable};
use rustix::process::Signal;
use synod_local_cluster::wait_for;

use super::figures::{self, Moments};
use super::plan::{Fault, SLOW_PAUSE, SLOW_WRITE, Target};
use super::readers::Readers;
use super::record::Round;
use super::site::Site;
use crate::disk::{DiskChange, PoweredDisk};
use crate::error::{LabError, Result};
use crate::meters::Server;
use crate::meters::clients::{Crew, Work, us_since};
use crate::meters::group::{DATABASE, Group};
use crate::meters::timeline::Attempt;
use crate::systems::System;

/// Load before the fault, and after all servers are back.
const BEFORE: Duration = Duration::from_secs(7);
const AFTER: Duration = Duration::from_secs(5);
/// A supervisor starts a server that has ended again after this time.
const RESTART_AFTER: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A person's work, from its end until all servers are back.
const HAND_TIMEOUT: Duration = Duration::from_secs(120);
/// Servers apply what the last clients wrote.
const AGREE_TIMEOUT: Duration = Duration::from_secs(120);
/// The account of clients: no server that is read-only takes its writes.
pub(super) const CLIENT: &str = "app";
/// Clients of each server, and their longest wait for an answer.
pub(super) const CLIENTS: u32 = 4;
pub(super) const CLIENT_PATIENCE: Duration = Duration::from_secs(5);

type Rows = Option<HashSet<u64>>;

/// A system on disks that fail, and the network between its servers.
pub(super) struct Bed<'a> {
    pub system: System,
    pub site: Site<'a>,
    pub disks: Vec<PoweredDisk>,
    pub next_synod: Option<&'a Path>,
    /// Time within which the system comes back by itself.
    pub patience: Duration,
}

impl Drop for Bed<'_> {
    fn drop(&mut self) {
        // A process whose write hangs does not end.
        let all = self.all();
        all.iter()
            .for_each(|at| drop(self.change_disks(&[*at], DiskChange::Thaw)));
        if let Err(error) = self.system.kill(&all) {
            eprintln!("synod-lab: {error}");
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Trial {
    pub fault: Fault,
    pub target: Target,
    /// Any number: it chooses the follower and the moment.
    pub chosen: usize,
    /// A table that no other trial uses.
    pub number: usize,
}

impl Bed<'_> {
    /// All servers are members when this begins, and when it ends without an error. What clients
    /// saw is in `seen` also when the trial could not be ended.
    pub(super) fn run(&mut self, trial: Trial, seen: &mut Option<Round>) -> Result<()> {
        let mut leader = self.await_leader()?;
        if trial.fault == Fault::DiskLoss {
            leader = self.let_the_last_lead(leader)?;
        }
        let count = self.system.hosts().len();
        let mut group = self.site.group(&self.system);
        let table = format!("trial_{}", trial.number);
        let sql = format!(
            "CREATE DATABASE IF NOT EXISTS {DATABASE};
             CREATE TABLE {DATABASE}.{table} (id BIGINT UNSIGNED PRIMARY KEY);
             CREATE USER IF NOT EXISTS '{CLIENT}'@'%' IDENTIFIED BY '{CLIENT}';
             GRANT ALL ON {DATABASE}.* TO '{CLIENT}'@'%'"
        );
        self.system.query(leader, &sql)?;
        self.await_rows(&group, leader, &table)?;
        let mut administrators = group.clone();
        for server in &mut group.servers {
            (server.user, server.password) = (CLIENT.to_owned(), CLIENT.to_owned());
        }
        let crew = Crew {
            work: Work::UniqueRows(table.clone()),
            clients: CLIENTS,
            rate: None,
            patience: Some(CLIENT_PATIENCE),
        };
        let clock = Instant::now();
        let running = crew.start(&group, &(0..count).collect::<Vec<_>>(), clock)?;
        let readers = Readers::start(&group, &table, clock);
        sleep(BEFORE + Duration::from_millis(trial.chosen as u64 % 1000));
        let us = || us_since(clock);
        // Another server may lead by now.
        let leader = self.await_leader();
        let hit = leader.as_ref().map_or(Vec::new(), |leader| {
            let has_logger = self.system.members() > count;
            trial
                .target
                .members(*leader, count, has_logger, trial.chosen)
        });
        let names = hit.iter().map(|at| self.system.name(*at)).collect();
        let mut at = Moments {
            fault_us: us(),
            ..Moments::default()
        };
        let mut course = Round::default();
        let ended = leader.and_then(|leader| {
            self.fail_and_return(trial.fault, &hit, leader, &us, &mut at, &mut course)
        });
        at.end_us = us();
        let logs = running.finish()?;
        let by_client: Vec<Vec<Attempt>> = logs.into_iter().flat_map(|log| log.by_client).collect();
        let round = seen.insert(figures::of_clients(&by_client, at));
        figures::of_reads(round, &by_client, &readers.finish(), at);
        round.hit = names;
        (round.back_s, round.by_hand) = (course.back_s, course.by_hand);
        ended?;
        let leader = self.await_leader()?;
        let count = self.system.hosts().len();
        administrators.servers.truncate(count);
        let rows = self.await_rows(&administrators, leader, &table)?;
        let none = HashSet::new();
        let of_leader = rows[leader].as_ref().unwrap_or(&none);
        figures::judge(round, &by_client, of_leader);
        for (at, own) in (0..count).zip(rows.iter().map(|own| own.as_ref().unwrap_or(&none))) {
            if !own.is_subset(of_leader) {
                round.diverged.push(self.system.name(at));
            } else if own.len() < of_leader.len() {
                round.behind.push(self.system.name(at));
            }
        }
        Ok(())
    }

    /// The fault, its repair, and the way back of all servers, by a person's work if need be.
    fn fail_and_return(
        &mut self,
        fault: Fault,
        hit: &[usize],
        leader: usize,
        us: &dyn Fn() -> u64,
        at: &mut Moments,
        round: &mut Round,
    ) -> Result<()> {
        let begun = self.begin(fault, hit, leader);
        let held = begun.and_then(|()| self.hold(fault, hit));
        at.repair_us = us();
        // What was begun is ended, whatever failed: a disk that stays frozen outlives this program.
        let repaired = self.repair(fault, hit, leader);
        held.and(repaired)?;
        let mut back = self.await_members(self.patience)?;
        if back.is_none() {
            round.by_hand = self.system.by_hand()?;
            back = self.await_members(HAND_TIMEOUT)?;
        }
        round.back_s = back.map(|_| (us() - at.repair_us) as f64 / 1e6);
        sleep(AFTER);
        Ok(())
    }

    fn begin(&mut self, fault: Fault, hit: &[usize], leader: usize) -> Result<()> {
        match fault {
            Fault::Kill => self.system.kill(hit)?,
            Fault::Stop => self.system.signal(hit, Signal::STOP)?,
            Fault::CutOneWay | Fault::Cut => self.site.cut(hit, fault == Fault::Cut)?,
            Fault::HungDisk => self.change_disks(hit, DiskChange::Freeze)?,
            Fault::SlowDisk => {} // while it is held
            Fault::FullDisk => self.change_disks(hit, DiskChange::Fill)?,
            Fault::PowerLoss => self.lose_power(hit)?,
            Fault::DiskLoss => {
                self.lose_power(&self.all())?;
                let last = self.system.lose_the_last();
                // None on machines of others.
                if last < self.disks.len() {
                    self.disks.remove(last);
                }
            }
            Fault::HandOver => self.system.hand_over(leader, self.next_to(leader))?,
            Fault::RollingRestart | Fault::Upgrade => {
                for server in hit {
                    self.system.stop(*server)?;
                    if fault == Fault::Upgrade {
                        self.system.give_library(*server, self.next_synod)?;
                    }
                    self.system.start(*server)?;
                    if self.await_members(self.patience)?.is_none() {
                        break; // what follows counts as by hand
                    }
                }
            }
        }
        Ok(())
    }

    fn hold(&self, fault: Fault, hit: &[usize]) -> Result<()> {
        if fault != Fault::SlowDisk {
            sleep(fault.hold());
            return Ok(());
        }
        let begin = Instant::now();
        while begin.elapsed() < fault.hold() {
            self.change_disks(hit, DiskChange::Freeze)?;
            sleep(SLOW_WRITE);
            self.change_disks(hit, DiskChange::Thaw)?;
            sleep(SLOW_PAUSE);
        }
        Ok(())
    }

    fn repair(&mut self, fault: Fault, hit: &[usize], leader: usize) -> Result<()> {
        match fault {
            Fault::Kill => {}
            Fault::Stop => self.system.signal(hit, Signal::CONT)?,
            Fault::CutOneWay | Fault::Cut => self.site.reconnect()?,
            Fault::HungDisk => self.change_disks(hit, DiskChange::Thaw)?,
            // A round that failed may have left one frozen; none is an error.
            Fault::SlowDisk => {
                let each = hit.iter();
                each.for_each(|at| drop(self.change_disks(&[*at], DiskChange::Thaw)));
            }
            Fault::FullDisk => self.change_disks(hit, DiskChange::Empty)?,
            Fault::PowerLoss => return self.return_power(hit),
            Fault::DiskLoss => return self.return_power(&self.all()),
            Fault::HandOver => self.system.hand_over(self.next_to(leader), leader)?,
            Fault::RollingRestart | Fault::Upgrade => {}
        }
        if fault == Fault::Kill {
            self.start(hit)?;
        }
        Ok(())
    }

    fn all(&self) -> Vec<usize> {
        (0..self.system.members()).collect()
    }

    fn lose_power(&mut self, hit: &[usize]) -> Result<()> {
        self.change_disks(hit, DiskChange::LosePower)?;
        self.system.kill(hit)
    }

    fn return_power(&mut self, hit: &[usize]) -> Result<()> {
        self.change_disks(hit, DiskChange::RegainPower)?;
        self.start(hit)
    }

    fn start(&mut self, hit: &[usize]) -> Result<()> {
        hit.iter().try_for_each(|server| self.system.start(*server))
    }

    /// Moves leadership to the last server, if the system has a leader; gives who leads then.
    fn let_the_last_lead(&self, leader: usize) -> Result<usize> {
        let last = self.system.hosts().len() - 1;
        if !self.system.has_leader() || leader == last {
            return Ok(leader);
        }
        self.system.hand_over(leader, last)?;
        let leads = wait_for(self.patience, || {
            self.system.leader().filter(|leader| *leader == last)
        });
        leads.ok_or_else(|| LabError::Timeout {
            what: format!("{} to become the leader", self.system.name(last)),
            seconds: self.patience.as_secs(),
            now: "another one leads".into(),
        })
    }

    fn next_to(&self, server: usize) -> usize {
        (server + 1) % self.system.hosts().len()
    }

    fn change_disks(&self, hit: &[usize], change: DiskChange) -> Result<()> {
        self.site.change_disks(&self.disks, hit, change)
    }

    /// Waits until all are members, and starts those that end meanwhile again. None: not in
    /// time.
    pub(super) fn await_members(&mut self, timeout: Duration) -> Result<Option<Duration>> {
        let begin = Instant::now();
        let mut ended: Vec<Option<Instant>> = vec![None; self.system.members()];
        while begin.elapsed() < timeout {
            for (server, ended) in ended.iter_mut().enumerate() {
                if self.system.is_running(server) {
                    *ended = None;
                } else if ended.get_or_insert_with(Instant::now).elapsed() >= RESTART_AFTER {
                    self.system.start(server)?;
                    *ended = None;
                }
            }
            if self.system.is_whole() {
                return Ok(Some(begin.elapsed()));
            }
            sleep(LOOK_EVERY);
        }
        Ok(None)
    }

    fn await_leader(&self) -> Result<usize> {
        let found = wait_for(self.patience, || self.system.leader());
        found.ok_or_else(|| LabError::Timeout {
            what: format!("a leader of {}", self.system.measured()),
            seconds: self.patience.as_secs(),
            now: "there is none".into(),
        })
    }

    /// The rows of all servers, once they are as many, or two minutes have passed. None: of a
    /// server that does not answer.
    fn await_rows(&self, group: &Group, leader: usize, table: &str) -> Result<Vec<Rows>> {
        fn read<T: FromRow>(server: &Server, what: &str, table: &str) -> Result<Vec<T>> {
            let sql = format!("SELECT {what} FROM {DATABASE}.{table}");
            let rows = server.connect()?.query(&sql);
            Ok(rows.map_err(|source| server.refused(&sql, source))?)
        }
        let begin = Instant::now();
        let count = |server: &Server| read::<u64>(server, "COUNT(*)", table).ok();
        let agree = || {
            let of_leader = count(&group.servers[leader]);
            let mut counts = group.servers.iter().map(count);
            of_leader.is_some() && counts.all(|of_one| of_one == of_leader)
        };
        while !agree() && begin.elapsed() < AGREE_TIMEOUT {
            sleep(LOOK_EVERY);
        }
        let rows = |server: &Server| -> Result<HashSet<u64>> {
            Ok(read(server, "id", table)?.into_iter().collect())
        };
        let of_leader = rows(&group.servers[leader])?;
        let others = group.servers.iter().enumerate();
        let all = others.map(|(at, server)| match at == leader {
            true => Some(of_leader.clone()),
            false => rows(server).ok(),
        });
        Ok(all.collect())
    }
}
