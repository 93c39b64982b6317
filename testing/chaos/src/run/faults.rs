//! Faults of one or several members, drawn from the seed.
//!
//! A fault ends by itself after its length: the group starts or resumes the members again.
//! `group.rs` decides whether the group has to survive a fault at this time.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

/// Kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// SIGKILL, and a later start.
    Kill,
    /// SIGSTOP, and a later SIGCONT.
    Pause,
    /// SIGKILL, loss of log and database, and a later start as a new member.
    LoseDisk,
    /// SIGKILL, loss of the database, and a later start.
    LoseDatabase,
    /// Orderly shutdown, and a later start.
    Leave,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// Numbers of the members that it hits; only `Kill` and `Pause` hit several.
    pub(crate) members: BTreeSet<usize>,
    /// Time for which the members stay down or stopped.
    pub(crate) length: Duration,
}

impl Fault {
    /// Name of the kind, for counting.
    pub(crate) fn name(&self) -> &'static str {
        let is_one = self.members.len() == 1;
        match self.kind {
            Kind::Kill if is_one => "kill one",
            Kind::Kill => "kill several",
            Kind::Pause if is_one => "stop one",
            Kind::Pause => "stop several",
            Kind::LoseDisk => "lose a disk",
            Kind::LoseDatabase => "lose a database",
            Kind::Leave => "leave",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault {
            members, length, ..
        } = self;
        write!(f, "{}: {members:?} for {length:?}", self.name())
    }
}

/// The next fault in a group of `size` members, led by `leader` as far as is known.
pub(crate) fn draw(rng: &mut SmallRng, size: usize, leader: Option<usize>) -> Fault {
    let any = rng.random_range(0..size);
    // The leader is hit more often than by chance.
    let favored = leader.filter(|_| rng.random_bool(0.5)).unwrap_or(any);
    let (any, favored) = (BTreeSet::from([any]), BTreeSet::from([favored]));
    let (kind, members, milliseconds) = match rng.random_range(0..100) {
        0..30 => (Kind::Kill, favored, 0..3000),
        30..45 => (Kind::Kill, several(rng, size), 0..2000),
        45..65 => (Kind::Pause, favored, 50..4000),
        65..75 => (Kind::Pause, several(rng, size), 50..2500),
        75..83 => (Kind::LoseDisk, any, 0..1500),
        83..91 => (Kind::LoseDatabase, any, 0..1500),
        _ => (Kind::Leave, favored, 0..2000),
    };
    let length = Duration::from_millis(rng.random_range(milliseconds));
    Fault {
        kind,
        members,
        length,
    }
}

/// Two or more members, sometimes all.
fn several(rng: &mut SmallRng, size: usize) -> BTreeSet<usize> {
    let count = rng.random_range(2..=size);
    let mut members: Vec<usize> = (0..size).collect();
    members.shuffle(rng);
    members.into_iter().take(count).collect()
}
