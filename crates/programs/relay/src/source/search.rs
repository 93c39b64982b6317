//! The beginning of a streamed transaction that was open where a reader began: its fragments are
//! searched for in the log, backwards. So is the view before the first one that a reader passes.

use std::ops::ControlFlow;

use synod_binlog::write_set::WsFlags;
use synod_node::{FollowError, Followed, Follower, LogIndex, MemberId, SessionId};

use super::streams::{Places, Session, StreamId, sessions};
use super::{SourceError, head_of};

/// Entries that are looked at at a time.
const WINDOW: u64 = 512;

/// Entries found on the way back.
enum Past {
    /// A fragment of the transaction.
    Fragment {
        begins: bool,
        places: Places,
    },
    View(Vec<Session>),
}

/// The fragments of a transaction before the entry `before`; none if servers rolled it back
/// meanwhile.
///
/// # Errors
/// The log begins after the transaction did, or cannot be read.
pub(super) fn earlier_fragments(
    follower: &Follower,
    id: StreamId,
    before: LogIndex,
) -> Result<Option<Vec<Places>>, SourceError> {
    // Newest first.
    let mut found: Vec<Past> = Vec::new();
    let mut end = before;
    while !has_beginning(&found) {
        if end <= follower.first_index() {
            let first = follower.first_seqno();
            return Err(SourceError::Follow(FollowError::Purged { first }));
        }
        let start = window_before(follower, end);
        let mut window = between(follower, id, start, end)?;
        window.reverse();
        found.append(&mut window);
        end = start;
    }
    Ok(fragments(&found, id))
}

/// The sessions of the newest view before the entry `before`; none if the log has none.
///
/// # Errors
/// The log cannot be read.
pub(super) fn view_before(
    follower: &Follower,
    before: LogIndex,
) -> Result<Option<Vec<Session>>, SourceError> {
    // No member has this number: only views are found.
    const NO_SESSION: Session = (MemberId(0), SessionId(0));
    let mut end = before;
    let mut newest = None;
    while newest.is_none() && end > follower.first_index() {
        let start = window_before(follower, end);
        let mut take = |followed| {
            if let Followed::View(view) = followed {
                newest = Some(sessions(&view));
            }
            ControlFlow::Continue(())
        };
        follower.look_at(start, end, NO_SESSION, &mut take)?;
        end = start;
    }
    Ok(newest)
}

fn window_before(follower: &Follower, end: LogIndex) -> LogIndex {
    LogIndex(end.0.saturating_sub(WINDOW)).max(follower.first_index())
}

fn has_beginning(found: &[Past]) -> bool {
    let begins = |past: &Past| matches!(past, Past::Fragment { begins: true, .. });
    found.iter().any(begins)
}

/// Entries from `start` up to but excluding `end`, in order.
fn between(
    follower: &Follower,
    id: StreamId,
    start: LogIndex,
    end: LogIndex,
) -> Result<Vec<Past>, SourceError> {
    let mut found = Vec::new();
    let mut failed = None;
    let mut take = |followed| {
        match followed {
            Followed::View(view) => found.push(Past::View(sessions(&view))),
            Followed::Action(action) => match head_of(follower, &action) {
                Ok(head) if head.trx == id.trx && !head.flags.contains(WsFlags::ISOLATION) => {
                    found.push(Past::Fragment {
                        begins: head.flags.contains(WsFlags::TRX_START),
                        places: action.places,
                    });
                }
                Ok(_) => {}
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            },
        }
        ControlFlow::Continue(())
    };
    follower.look_at(start, end, id.origin, &mut take)?;
    match failed {
        Some(error) => Err(error),
        None => Ok(found),
    }
}

/// The fragments from the newest beginning on. None if a view after it lacks their session, or
/// repeats the view before it; the view before the oldest one found is not known, and taken for
/// another one.
fn fragments(newest_first: &[Past], id: StreamId) -> Option<Vec<Places>> {
    let mut places = Vec::new();
    let mut later: Option<&Vec<Session>> = None;
    let mut is_before = false;
    for past in newest_first {
        match past {
            Past::View(sessions) => {
                if later == Some(sessions) || (!is_before && !sessions.contains(&id.origin)) {
                    return None;
                }
                if is_before {
                    break;
                }
                later = Some(sessions);
            }
            Past::Fragment { .. } if is_before => {}
            Past::Fragment {
                begins,
                places: of_fragment,
            } => {
                places.push(of_fragment.clone());
                is_before = *begins;
            }
        }
    }
    places.reverse();
    Some(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: Session = (MemberId(1), SessionId(1));
    const OTHER: Session = (MemberId(2), SessionId(1));
    const ID: StreamId = StreamId {
        origin: ORIGIN,
        trx: 5,
    };

    fn fragment(begins: bool, at: u64) -> Past {
        Past::Fragment {
            begins,
            places: vec![LogIndex(at)],
        }
    }

    fn view(sessions: &[Session]) -> Past {
        Past::View(sessions.to_vec())
    }

    fn found(mut in_order: Vec<Past>) -> Option<Vec<u64>> {
        in_order.reverse();
        let fragments = fragments(&in_order, ID)?;
        Some(fragments.iter().flatten().map(|index| index.0).collect())
    }

    #[test]
    fn fragments_since_the_newest_beginning_are_found() {
        let past = vec![
            fragment(true, 1),
            fragment(false, 2),
            fragment(true, 5),
            fragment(false, 7),
        ];
        assert_eq!(found(past), Some(vec![5, 7]));
    }

    #[test]
    fn views_with_the_session_do_not_end_a_transaction() {
        let past = vec![fragment(true, 5), view(&[ORIGIN, OTHER]), view(&[ORIGIN])];
        assert_eq!(found(past), Some(vec![5]));
    }

    #[test]
    fn transaction_that_servers_rolled_back_is_none() {
        let gone = vec![fragment(true, 5), view(&[OTHER])];
        assert_eq!(found(gone), None);
        let both = || view(&[ORIGIN, OTHER]);
        assert_eq!(found(vec![fragment(true, 5), both(), both()]), None);
        // The view before the beginning counts, too, for the first one after it.
        assert_eq!(found(vec![both(), fragment(true, 5), both()]), None);
        let others = vec![both(), both(), fragment(true, 5), view(&[ORIGIN])];
        assert_eq!(found(others), Some(vec![5]));
    }
}
