//! Streamed transactions that are open: where their fragments are in the log. Never their data: it
//! is read when they commit.
//!
//! The beginning of one that was open where a reader began is searched for in the log, backwards.
//! So is the view before the first one that a reader passes.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use synod_binlog::write_set::WsFlags;
use synod_node::{FollowError, Followed, Follower, LogIndex, MemberId, SessionId, View};

use crate::source::{SourceError, head_of};

/// Places of fragments that are noted for one reader, at most: 8 bytes each.
const PLACES_MAX: usize = 4 << 20;

/// Log indexes of a fragment's data.
pub(crate) type Places = Vec<LogIndex>;
type Session = (MemberId, SessionId);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamId {
    pub(crate) origin: Session,
    pub(crate) trx: u64,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Stream {
    /// Its first fragment was among them.
    pub(crate) is_whole: bool,
    pub(crate) places: Vec<Places>,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "streamed transactions that are open have more than {PLACES_MAX} fragments. End them, or make \
     wsrep_trx_fragment_size larger"
)]
pub(crate) struct TooManyFragments;

#[derive(Debug, Default)]
pub(crate) struct Streams {
    open: BTreeMap<StreamId, Stream>,
    places: usize,
    /// Sessions of the latest view, if one has passed.
    present: Option<Vec<Session>>,
}

impl Streams {
    /// A fragment passes that does not end its transaction.
    pub(crate) fn add(
        &mut self,
        id: StreamId,
        begins: bool,
        places: Places,
    ) -> Result<(), TooManyFragments> {
        self.places += places.len();
        if self.places > PLACES_MAX {
            return Err(TooManyFragments);
        }
        let stream = self.open.entry(id).or_default();
        stream.is_whole |= begins;
        stream.places.push(places);
        Ok(())
    }

    /// A transaction ends: what has passed of it.
    pub(crate) fn take(&mut self, id: StreamId) -> Option<Stream> {
        let stream = self.open.remove(&id)?;
        self.places -= stream.places.iter().map(Vec::len).sum::<usize>();
        Some(stream)
    }

    /// Whether something is open at the first view, for which the one before it matters.
    pub(crate) fn wants_view_before(&self) -> bool {
        self.present.is_none() && !self.open.is_empty()
    }

    /// The sessions of the view before the first one that passes, if the log has it.
    pub(crate) fn note_view_before(&mut self, sessions: Option<Vec<Session>>) {
        self.present = sessions;
    }

    /// A view passes: every server rolls back what it had open of sessions that are not in it, and
    /// of all if it repeats the sessions of the one before.
    pub(crate) fn view(&mut self, view: &View) {
        let present = sessions(view);
        let repeated = self.present.as_ref() == Some(&present);
        self.open
            .retain(|id, _| !repeated && present.contains(&id.origin));
        let left = self.open.values().flat_map(|stream| &stream.places);
        self.places = left.map(Vec::len).sum();
        self.present = Some(present);
    }
}

pub(crate) fn sessions(view: &View) -> Vec<Session> {
    let members = view.members.iter();
    members
        .map(|member| (member.member, member.session))
        .collect()
}

/// Entries that are looked at at a time.
const WINDOW: u64 = 512;

/// Entries found on the way back.
enum Past {
    Fragment { begins: bool, places: Places },
    View(Vec<Session>),
}

/// None if servers rolled the transaction back meanwhile.
pub(crate) fn earlier_fragments(
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
pub(crate) fn view_before(
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
    use synod_node::{Seqno, ViewMember};

    use super::*;

    fn id(member: u64, trx: u64) -> StreamId {
        StreamId {
            origin: (MemberId(member), SessionId(1)),
            trx,
        }
    }

    fn view(members: &[u64]) -> View {
        let member = |member: &u64| ViewMember {
            member: MemberId(*member),
            session: SessionId(1),
            name: String::new(),
            incoming: String::new(),
        };
        View {
            seqno: Seqno(1),
            number: 1,
            members: members.iter().map(member).collect(),
        }
    }

    #[test]
    fn fragments_are_kept_in_order_until_their_transaction_ends() {
        let mut streams = Streams::default();
        streams.add(id(1, 5), true, vec![LogIndex(3)]).unwrap();
        streams.add(id(2, 5), false, vec![LogIndex(4)]).unwrap();
        streams
            .add(id(1, 5), false, vec![LogIndex(6), LogIndex(7)])
            .unwrap();
        let stream = streams.take(id(1, 5)).unwrap();
        assert!(stream.is_whole);
        assert_eq!(
            stream.places,
            [vec![LogIndex(3)], vec![LogIndex(6), LogIndex(7)]]
        );
        assert!(!streams.take(id(2, 5)).unwrap().is_whole);
        assert_eq!(streams.take(id(2, 5)), None);
        assert_eq!(streams.places, 0);
    }

    #[test]
    fn views_end_what_servers_roll_back() {
        let mut streams = Streams::default();
        streams.add(id(1, 5), true, vec![LogIndex(3)]).unwrap();
        streams.add(id(2, 5), true, vec![LogIndex(4)]).unwrap();
        streams.view(&view(&[1]));
        assert_eq!(streams.take(id(2, 5)), None);
        streams.view(&view(&[1, 3]));
        assert_eq!(streams.places, 1);
        streams.view(&view(&[1, 3]));
        assert_eq!(streams.take(id(1, 5)), None);
        assert_eq!(streams.places, 0);
    }

    #[test]
    fn first_view_may_repeat_one_from_before_the_reader_began() {
        let mut streams = Streams::default();
        assert!(!streams.wants_view_before());
        streams.add(id(1, 5), true, vec![LogIndex(3)]).unwrap();
        assert!(streams.wants_view_before());
        streams.note_view_before(Some(sessions(&view(&[1]))));
        streams.view(&view(&[1]));
        assert_eq!(streams.take(id(1, 5)), None);
        assert!(!streams.wants_view_before());
    }

    #[test]
    fn too_many_places_are_an_error() {
        let mut streams = Streams::default();
        let many = vec![LogIndex(1); PLACES_MAX];
        streams.add(id(1, 5), true, many).unwrap();
        assert!(streams.add(id(1, 6), true, vec![LogIndex(2)]).is_err());
    }
}

#[cfg(test)]
mod search_tests {
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
