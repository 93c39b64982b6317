//! Earlier actions that matter to a write set whose keys come in parts.
//!
//! A verdict needs the snapshot position and the epoch of the write set, which come with its last
//! piece. So a [`Touch`] depends on neither: it holds the latest seqnos that matter, separately for
//! each epoch of the write set's own member.

use crate::mark::{Mark, NEVER};
use crate::request::Source;
use crate::rules::Relation;

/// The latest earlier actions that matter to a write set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Touch {
    /// The latest that it depends on or conflicts with.
    any: i64,
    /// The latest conflict with another member, or with a statement in total order.
    foreign: i64,
    /// Conflicts with write sets of its own member, which are none if the epoch is the same.
    own: Vec<OwnEpoch>,
}

/// Conflicts with one epoch of the write set's own member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OwnEpoch {
    epoch: u64,
    /// The latest.
    latest: i64,
    /// The latest of any other source on the keys where an action of this epoch was the latest.
    other: i64,
}

impl Touch {
    pub(crate) const NONE: Touch = Touch {
        any: NEVER,
        foreign: NEVER,
        own: Vec::new(),
    };

    /// The latest action that the write set depends on.
    pub(crate) fn any(&self) -> i64 {
        self.any
    }

    /// The latest conflict with another member, whatever the epoch turns out to be.
    pub(crate) fn foreign(&self) -> i64 {
        self.foreign
    }

    /// The latest conflict of a write set of this epoch.
    pub(crate) fn foreign_to(&self, epoch: u64) -> i64 {
        let of = |own: &OwnEpoch| {
            if own.epoch == epoch {
                own.other
            } else {
                own.latest
            }
        };
        self.own.iter().map(of).fold(self.foreign, i64::max)
    }

    /// A hold with this mark relates to a key of a write set of `member`. `source` is that of the
    /// mark's latest action; none if that was ordered in total order.
    pub(crate) fn add(
        &mut self,
        relation: Relation,
        mark: Mark,
        source: Option<Source>,
        member: u64,
    ) {
        match relation {
            Relation::Nothing => return,
            Relation::Depends => {}
            Relation::Conflicts => match source.filter(|source| source.member == member) {
                None => self.foreign = self.foreign.max(mark.latest),
                Some(Source { epoch, .. }) => {
                    let (latest, other) = (mark.latest, mark.other());
                    self.add_own(OwnEpoch {
                        epoch,
                        latest,
                        other,
                    });
                }
            },
        }
        self.any = self.any.max(mark.latest);
    }

    /// Adds what `other` knows.
    pub(crate) fn merge(&mut self, other: &Touch) {
        self.any = self.any.max(other.any);
        self.foreign = self.foreign.max(other.foreign);
        other.own.iter().for_each(|own| self.add_own(*own));
    }

    /// Forgets conflicts at or below this seqno, which have left the window.
    pub(crate) fn window_starts_at(&mut self, start: i64) {
        self.own.retain(|own| own.latest > start);
    }

    fn add_own(&mut self, new: OwnEpoch) {
        match self.own.iter_mut().find(|own| own.epoch == new.epoch) {
            Some(own) => {
                own.latest = own.latest.max(new.latest);
                own.other = own.other.max(new.other);
            }
            None => self.own.push(new),
        }
    }
}
