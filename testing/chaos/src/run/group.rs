//! The members' processes, what is to be done to them, and how they are.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::process::{Connection, Life, Member, Settings};
use super::story::Story;
use super::trouble::Trouble;
use crate::protocol::{Command, Reply, Status};

/// A member that does not answer for so long is asked again later.
const STATUS_LIMIT: Duration = Duration::from_millis(300);
/// Leaving is bounded to a few seconds; more means that it hangs.
const LEAVE_LIMIT: Duration = Duration::from_secs(30);

/// Something to do to a member later.
#[derive(Clone, Copy, Debug)]
enum Due {
    Start,
    Resume,
}

/// See the module.
pub(crate) struct Group {
    dir: PathBuf,
    addresses: Vec<String>,
    settings: Settings,
    story: Arc<Story>,
    pub(crate) members: Vec<Member>,
    /// What each said last, since it was started.
    statuses: Vec<Status>,
    due: Vec<(Instant, usize, Due)>,
    /// When leaving members were asked to, and how long they stay away.
    leaving: BTreeMap<usize, (Instant, Duration)>,
    /// Troubles by kind.
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

impl Group {
    /// No members yet, room for so many.
    pub(crate) fn new(dir: &Path, room: usize, settings: Settings, story: Arc<Story>) -> Group {
        Group {
            dir: dir.to_owned(),
            addresses: addresses(room),
            settings,
            story,
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
        self.story.tell(format!("start {at}"));
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

    /// Asks every running member how it is.
    pub(crate) fn look(&mut self) {
        for (member, status) in self.members.iter().zip(&mut self.statuses) {
            if member.life == Life::Running
                && let Ok(Reply::Status(now)) = member.ask(&Command::Status, STATUS_LIMIT)
            {
                *status = now;
            }
        }
    }

    /// In words, for the end.
    pub(crate) fn describe(&self) -> String {
        let members = self.members.iter().zip(&self.statuses);
        let lines = members.map(|(m, status)| format!("  {} {:?} {status:?}\n", m.name, m.life));
        lines.collect()
    }

    /// Does it.
    pub(crate) fn suffer(&mut self, trouble: Trouble) -> io::Result<()> {
        self.story.tell(&trouble);
        *self.counts.entry(trouble.kind()).or_default() += 1;
        match trouble {
            Trouble::Kill { members, down } => {
                for at in members {
                    self.kill(at, down);
                }
            }
            Trouble::Pause { members, still } => {
                for at in members {
                    self.pause(at, still);
                }
            }
            Trouble::LoseDisk { member, down } => {
                self.kill(member, down);
                self.members[member].wipe_disk()?;
            }
            Trouble::LoseDatabase { member, down } => {
                self.kill(member, down);
                self.members[member].wipe_database()?;
            }
            Trouble::Leave { member, down } => self.leave(member, down),
        }
        Ok(())
    }

    /// Whether the group must bear it now. A disk may be lost only while all others hold what was on it;
    /// a database, while another one can be copied. Only a member that has arrived can leave.
    pub(crate) fn bears(&self, trouble: &Trouble) -> bool {
        let others = |member: usize| (0..self.members.len()).filter(move |at| *at != member);
        match trouble {
            Trouble::LoseDisk { member, .. } => others(*member).all(|at| self.is_settled(at)),
            Trouble::LoseDatabase { member, .. } => others(*member).any(|at| self.is_settled(at)),
            Trouble::Leave { member, .. } => self.is_settled(*member),
            Trouble::Kill { .. } | Trouble::Pause { .. } => true,
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
        // What counts is that the process ends.
        thread::spawn(move || Connection::open(&dir, LEAVE_LIMIT)?.ask(&Command::Leave));
    }

    /// In the place of what was planned for this member.
    fn plan(&mut self, at: usize, what: Due, after: Duration) {
        self.due.retain(|(_, other, _)| *other != at);
        self.due.push((Instant::now() + after, at, what));
        self.statuses[at] = Status::default();
    }

    /// Does what is due.
    pub(crate) fn go_on(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let due: Vec<(usize, Due)> = self
            .due
            .extract_if(.., |(at, _, _)| *at <= now)
            .map(|(_, at, what)| (at, what))
            .collect();
        for (at, what) in due {
            match what {
                Due::Start => {
                    self.story.tell(format!("start {at}"));
                    self.members[at].start(false)?;
                }
                Due::Resume => {
                    self.story.tell(format!("resume {at}"));
                    self.members[at].resume();
                }
            }
        }
        Ok(())
    }

    /// Everything that is planned becomes due.
    pub(crate) fn heal(&mut self) -> io::Result<()> {
        self.due
            .iter_mut()
            .for_each(|(at, _, _)| *at = Instant::now());
        self.go_on()
    }

    /// Looks after processes that have ended. Answers what must not be.
    pub(crate) fn bury(&mut self) -> Option<String> {
        for at in 0..self.members.len() {
            let member = &mut self.members[at];
            let asked = self.leaving.get(&at).copied();
            match (member.ended(), asked) {
                (None, Some((asked, _))) if asked.elapsed() > LEAVE_LIMIT => {
                    return Some(format!("{} does not get away from the group", member.name));
                }
                (None, _) => {}
                (Some(status), Some((_, down))) if status.success() => {
                    self.story.tell(format!("{at} has left"));
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
    // Addresses within 127.64.0.0/10: outgoing connections do not use them, so a port that is free now
    // is free again after a kill.
    let host = |at: usize| format!("127.{}.{high}.{low}:{}", 64 + (pid >> 16) % 64, 4567 + at);
    (0..count).map(host).collect()
}
