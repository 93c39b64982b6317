//! The members' processes: starting, killing, pausing and wiping them, and what they report.
//!
//! A fault plans its own end ("due"). A process that ends without such a plan is a failure of the
//! run.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::faults::{Fault, Kind};
use super::process::{Connection, Life, Member, Settings};
use super::run_log::RunLog;
use crate::protocol::{Command, Reply, Status};

/// A member that does not answer in this time is asked again later.
const STATUS_LIMIT: Duration = Duration::from_millis(300);
/// Longest time for an orderly shutdown. It is bounded to a few seconds; more means that it hangs.
const LEAVE_LIMIT: Duration = Duration::from_secs(30);

/// The end of a fault, for one member.
#[derive(Clone, Copy, Debug)]
enum Due {
    Start,
    Resume,
}

/// All members of the group under test.
pub(crate) struct Group {
    dir: PathBuf,
    addresses: Vec<String>,
    settings: Settings,
    run_log: Arc<RunLog>,
    pub(crate) members: Vec<Member>,
    /// The last status of each member, since its start.
    statuses: Vec<Status>,
    due: Vec<(Instant, usize, Due)>,
    /// Members in an orderly shutdown: when it began, and how long they stay down afterwards.
    leaving: BTreeMap<usize, (Instant, Duration)>,
    /// Number of faults by name.
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

impl Group {
    /// A group without members and with addresses for `room` of them.
    pub(crate) fn new(dir: &Path, room: usize, settings: Settings, run_log: Arc<RunLog>) -> Group {
        Group {
            dir: dir.to_owned(),
            addresses: addresses(room),
            settings,
            run_log,
            members: Vec::new(),
            statuses: Vec::new(),
            due: Vec::new(),
            leaving: BTreeMap::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Starts one more member; the first begins the group.
    pub(crate) fn add(&mut self) -> io::Result<()> {
        let at = self.members.len();
        let mut member = Member::new(&self.dir, at, &self.addresses, self.settings)?;
        member.start(at == 0)?;
        self.run_log.line(format!("start {at}"));
        self.members.push(member);
        self.statuses.push(Status::default());
        Ok(())
    }

    /// Whether a member runs, has all data and votes.
    fn is_settled(&self, at: usize) -> bool {
        let status = self.statuses[at];
        self.members[at].life == Life::Running && status.synced && status.voter
    }

    fn settled(&self) -> usize {
        (0..self.members.len())
            .filter(|at| self.is_settled(*at))
            .count()
    }

    /// Whether all members run, have all data and vote.
    pub(crate) fn all_settled(&self) -> bool {
        self.settled() == self.members.len()
    }

    /// Whether more than half of the members run, have all data and vote.
    pub(crate) fn majority_lives(&self) -> bool {
        self.settled() * 2 > self.members.len()
    }

    /// The leader, if a running member says it is.
    pub(crate) fn leader(&self) -> Option<usize> {
        let leads =
            |at: &usize| self.members[*at].life == Life::Running && self.statuses[*at].leader;
        (0..self.members.len()).find(leads)
    }

    /// Asks every running member for its status.
    pub(crate) fn look(&mut self) {
        for (member, status) in self.members.iter().zip(&mut self.statuses) {
            if member.life == Life::Running
                && let Ok(Reply::Status(now)) = member.ask(&Command::Status, STATUS_LIMIT)
            {
                *status = now;
            }
        }
    }

    /// The state of all members, for the report of a failure.
    pub(crate) fn describe(&self) -> String {
        let members = self.members.iter().zip(&self.statuses);
        let lines = members.map(|(m, status)| format!("  {} {:?} {status:?}\n", m.name, m.life));
        lines.collect()
    }

    pub(crate) fn inject(&mut self, fault: Fault) -> io::Result<()> {
        self.run_log.line(&fault);
        *self.counts.entry(fault.name()).or_default() += 1;
        for at in fault.members {
            match fault.kind {
                Kind::Kill => self.kill(at, fault.length),
                Kind::Pause => self.pause(at, fault.length),
                Kind::LoseDisk => {
                    self.kill(at, fault.length);
                    self.members[at].wipe_disk()?;
                }
                Kind::LoseDatabase => {
                    self.kill(at, fault.length);
                    self.members[at].wipe_database()?;
                }
                Kind::Leave => self.leave(at, fault.length),
            }
        }
        Ok(())
    }

    /// Whether the group has to survive a fault now. A disk may be lost only while all other
    /// members hold what was on it; a database, while another one can be copied. Only a member that
    /// is synced can leave.
    pub(crate) fn survives(&self, fault: &Fault) -> bool {
        let mut others = (0..self.members.len()).filter(|at| !fault.members.contains(at));
        match fault.kind {
            Kind::LoseDisk => others.all(|at| self.is_settled(at)),
            Kind::LoseDatabase => others.any(|at| self.is_settled(at)),
            Kind::Leave => fault.members.iter().all(|at| self.is_settled(*at)),
            Kind::Kill | Kind::Pause => true,
        }
    }

    fn kill(&mut self, at: usize, down: Duration) {
        self.members[at].kill();
        self.leaving.remove(&at);
        self.plan(at, Due::Start, down);
    }

    fn pause(&mut self, at: usize, still: Duration) {
        if self.members[at].life == Life::Running {
            self.members[at].pause();
            self.plan(at, Due::Resume, still);
        }
    }

    fn leave(&mut self, at: usize, down: Duration) {
        self.members[at].life = Life::Leaving;
        self.leaving.insert(at, (Instant::now(), down));
        let dir = self.members[at].dir.clone();
        // The end of the process counts, not the answer.
        thread::spawn(move || Connection::open(&dir, LEAVE_LIMIT)?.ask(&Command::Leave));
    }

    /// Plans the end of a fault, in place of an earlier plan for this member.
    fn plan(&mut self, at: usize, what: Due, after: Duration) {
        self.due.retain(|(_, other, _)| *other != at);
        self.due.push((Instant::now() + after, at, what));
        self.statuses[at] = Status::default();
    }

    /// Ends the faults that are due.
    pub(crate) fn end_due_faults(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let due: Vec<(usize, Due)> = self
            .due
            .extract_if(.., |(at, _, _)| *at <= now)
            .map(|(_, at, what)| (at, what))
            .collect();
        for (at, what) in due {
            match what {
                Due::Start => {
                    self.run_log.line(format!("start {at}"));
                    self.members[at].start(false)?;
                }
                Due::Resume => {
                    self.run_log.line(format!("resume {at}"));
                    self.members[at].resume();
                }
            }
        }
        Ok(())
    }

    /// Ends all faults now.
    pub(crate) fn heal(&mut self) -> io::Result<()> {
        self.due
            .iter_mut()
            .for_each(|(at, _, _)| *at = Instant::now());
        self.end_due_faults()
    }

    /// Plans the restart of members that have left. Returns an end that no fault explains.
    pub(crate) fn check_processes(&mut self) -> Option<String> {
        for at in 0..self.members.len() {
            let member = &mut self.members[at];
            let asked = self.leaving.get(&at).copied();
            match (member.ended(), asked) {
                (None, Some((asked, _))) if asked.elapsed() > LEAVE_LIMIT => {
                    return Some(format!(
                        "the orderly shutdown of {} does not end",
                        member.name
                    ));
                }
                (None, _) => {}
                (Some(status), Some((_, down))) if status.success() => {
                    self.run_log.line(format!("{at} has left"));
                    self.kill(at, down);
                }
                (Some(status), _) => {
                    return Some(format!(
                        "the process of {} has ended by itself: {status}",
                        member.name
                    ));
                }
            }
        }
        None
    }
}

/// An address for each member: of this machine, and of this process alone.
fn addresses(count: usize) -> Vec<String> {
    let pid = std::process::id();
    let (high, low) = (pid >> 8 & 0xff, pid & 0xff);
    // Addresses within 127.64.0.0/10: outgoing connections do not use them, so a port that is free
    // now is free again after a kill.
    let host = |at: usize| format!("127.{}.{high}.{low}:{}", 64 + (pid >> 16) % 64, 4567 + at);
    (0..count).map(host).collect()
}
