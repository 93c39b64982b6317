//! What is done to the group: drawn from the seed.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

/// One thing done to members, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// SIGKILL, and a start after a while.
    Kill {
        members: BTreeSet<usize>,
        down: Duration,
    },
    /// SIGSTOP, and SIGCONT after a while.
    Pause {
        members: BTreeSet<usize>,
        still: Duration,
    },
    /// SIGKILL, log and database are lost, and a start as a new member.
    LoseDisk { member: usize, down: Duration },
    /// SIGKILL, the database is lost, and a start.
    LoseDatabase { member: usize, down: Duration },
    /// Leaves in good order, and a start after it has ended.
    Leave { member: usize, down: Duration },
}

/// Kinds, for counting.
impl Trouble {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Trouble::Kill { members, .. } if members.len() == 1 => "kill one",
            Trouble::Kill { .. } => "kill several",
            Trouble::Pause { members, .. } if members.len() == 1 => "stop one",
            Trouble::Pause { .. } => "stop several",
            Trouble::LoseDisk { .. } => "lose a disk",
            Trouble::LoseDatabase { .. } => "lose a database",
            Trouble::Leave { .. } => "leave",
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Kill { members, down } => write!(f, "kill {members:?} for {down:?}"),
            Trouble::Pause { members, still } => write!(f, "stop {members:?} for {still:?}"),
            Trouble::LoseDisk { member, down } => write!(f, "lose the disk of {member}, {down:?}"),
            Trouble::LoseDatabase { member, down } => {
                write!(f, "lose the database of {member}, {down:?}")
            }
            Trouble::Leave { member, down } => write!(f, "{member} leaves for {down:?}"),
        }
    }
}

/// The next trouble in a group of so many, led by `leader` as far as is known.
pub(crate) fn draw(rng: &mut SmallRng, size: usize, leader: Option<usize>) -> Trouble {
    let anybody = rng.random_range(0..size);
    // The leader more often than chance would have it.
    let somebody = leader.filter(|_| rng.random_bool(0.5)).unwrap_or(anybody);
    let one = BTreeSet::from([somebody]);
    match rng.random_range(0..100) {
        0..30 => Trouble::Kill {
            members: one,
            down: ms(rng, 0, 3000),
        },
        30..45 => Trouble::Kill {
            members: several(rng, size),
            down: ms(rng, 0, 2000),
        },
        45..65 => Trouble::Pause {
            members: one,
            still: ms(rng, 50, 4000),
        },
        65..75 => Trouble::Pause {
            members: several(rng, size),
            still: ms(rng, 50, 2500),
        },
        75..83 => Trouble::LoseDisk {
            member: anybody,
            down: ms(rng, 0, 1500),
        },
        83..91 => Trouble::LoseDatabase {
            member: anybody,
            down: ms(rng, 0, 1500),
        },
        _ => Trouble::Leave {
            member: somebody,
            down: ms(rng, 0, 2000),
        },
    }
}

/// Two or more, all of them now and then.
fn several(rng: &mut SmallRng, size: usize) -> BTreeSet<usize> {
    let count = rng.random_range(2..=size);
    let mut members: Vec<usize> = (0..size).collect();
    members.shuffle(rng);
    members.into_iter().take(count).collect()
}

fn ms(rng: &mut SmallRng, from: u64, to: u64) -> Duration {
    Duration::from_millis(rng.random_range(from..to))
}
