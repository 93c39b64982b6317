//! A foreign binlog, as the log of a relay group keeps it.

pub(crate) mod entry;
pub(crate) mod history;
pub(crate) mod registry;
pub(crate) mod source;
pub(crate) mod tail;

use bytes::Bytes;
use synod_node::{CommittedLog, FollowError, Followed, FollowedAction, Follower, Seqno};

use self::entry::{Entry, EntryError, Head};
use self::history::Gap;

#[derive(Debug, thiserror::Error)]
pub(crate) enum KeptError {
    #[error(transparent)]
    Follow(#[from] FollowError),
    #[error("action {} of the group cannot be read: {source}", seqno.0)]
    Entry { seqno: Seqno, source: EntryError },
    #[error(transparent)]
    Gap(#[from] Gap),
}

impl KeptError {
    /// Whether this relay cannot read its log, which other relays may be able to.
    fn is_of_the_disk(&self) -> bool {
        matches!(self, KeptError::Follow(FollowError::Broken(_)))
    }
}

/// Decodes an action, with the events in the first of its places.
fn entry_of(follower: &Follower, action: &FollowedAction) -> Result<(Entry, Bytes), KeptError> {
    let mut first = match action.places.as_slice() {
        [] | [_] => action.last.clone(),
        [first, ..] => follower.data_at(*first)?,
    };
    let seqno = action.seqno;
    let entry = Entry::decode(&mut first).map_err(|source| KeptError::Entry { seqno, source })?;
    Ok((entry, first))
}

/// The first part or order after an action that is committed; none if there is none.
pub(crate) fn entry_after(
    log: &CommittedLog,
    after: Seqno,
) -> Result<Option<(Seqno, Head)>, KeptError> {
    next_entry(&mut log.follow(after)?)
}

fn next_entry(follower: &mut Follower) -> Result<Option<(Seqno, Head)>, KeptError> {
    while let Some(followed) = follower.advance()? {
        if let Followed::Action(action) = followed
            && let (Entry::Head(head), _) = entry_of(follower, &action)?
        {
            return Ok(Some((action.seqno, *head)));
        }
    }
    Ok(None)
}

/// The last part or order after an action, up to another one; none if there is none.
fn last_entry_between(
    log: &CommittedLog,
    after: Seqno,
    up_to: Seqno,
) -> Result<Option<Head>, KeptError> {
    let (mut follower, mut last) = (log.follow(after)?, None);
    while let Some((seqno, head)) = next_entry(&mut follower)?
        && seqno <= up_to
    {
        last = Some(head);
    }
    Ok(last)
}
