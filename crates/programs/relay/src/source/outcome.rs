//! Outcomes of statements in total order, which their origins note in the log.
//!
//! The log says what to expect. A statement promises a note, unless its origin could not or needed
//! not write one. The origin writes it as long as its session is in the view. So what comes first
//! in the log decides, and every relay finds the same: the note, or a view without the session.

use std::ops::ControlFlow;

use synod_binlog::write_set::Note;
use synod_node::{Followed, FollowedAction, Follower, LogIndex};

use super::streams::sessions;
use super::{SourceError, head_of};

/// Entries that are looked at at a time.
const WINDOW: u64 = 512;

/// Outcome of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Outcome {
    /// The log does not say: it promises no note, or the origin has gone before the note.
    #[error("the log does not say whether it failed")]
    Unknown,
    /// With this error, by the server's number; zero: it succeeded.
    #[error("it ended with error {0}")]
    Ended(u16),
}

/// A statement that waits for its outcome.
pub(super) struct Held {
    /// The statement.
    pub(super) action: FollowedAction,
    /// The first entry that was not looked at.
    next: LogIndex,
}

impl Held {
    /// A statement whose note comes at `after` or later.
    pub(super) fn until_noted(action: FollowedAction, after: LogIndex) -> Held {
        Held {
            action,
            next: after,
        }
    }

    /// Looks at what the group has committed since; the outcome, if that says it.
    ///
    /// # Errors
    /// The log does not have it any more, or cannot be read.
    pub(super) fn look(&mut self, follower: &Follower) -> Result<Option<Outcome>, SourceError> {
        let end = follower.last_index().next();
        while self.next < end {
            let start = self.next.max(follower.first_index());
            let stop = LogIndex(start.0.saturating_add(WINDOW)).min(end);
            let mut said = Ok(None);
            let mut take = |followed| {
                said = self.says(follower, &followed);
                match said {
                    Ok(None) => ControlFlow::Continue(()),
                    Ok(Some(_)) | Err(_) => ControlFlow::Break(()),
                }
            };
            follower.look_at(start, stop, self.action.origin, &mut take)?;
            match said? {
                Some(outcome) => return Ok(Some(outcome)),
                None => self.next = stop,
            }
        }
        Ok(None)
    }

    fn says(
        &self,
        follower: &Follower,
        followed: &Followed,
    ) -> Result<Option<Outcome>, SourceError> {
        match followed {
            Followed::View(view) => {
                let is_present = sessions(view).contains(&self.action.origin);
                Ok((!is_present).then_some(Outcome::Unknown))
            }
            Followed::Action(action) => match head_of(follower, action)?.note {
                Note::Outcome { statement, error }
                    if statement == self.action.seqno.0.unsigned_abs() =>
                {
                    Ok(Some(Outcome::Ended(error)))
                }
                Note::Outcome { .. } | Note::Promised | Note::None => Ok(None),
            },
        }
    }
}
