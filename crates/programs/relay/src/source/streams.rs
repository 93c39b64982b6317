//! Streamed transactions that are open: where their fragments are in the log. Never their data: it
//! is read when they commit.

use std::collections::BTreeMap;

use synod_node::{LogIndex, MemberId, SessionId, View};

/// Places of fragments that are noted for one reader, at most: 8 bytes each.
const PLACES_MAX: usize = 4 << 20;

/// Log indexes of a fragment's data.
pub(crate) type Places = Vec<LogIndex>;
/// A member's session.
pub(crate) type Session = (MemberId, SessionId);

/// Names a streamed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamId {
    /// The session whose client runs it.
    pub(crate) origin: Session,
    /// Its number there.
    pub(crate) trx: u64,
}

/// Fragments of a streamed transaction so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Stream {
    /// Its first fragment was among them.
    pub(crate) is_whole: bool,
    /// Its fragments, in order.
    pub(crate) places: Vec<Places>,
}

/// More is open than can be noted.
#[derive(Debug, thiserror::Error)]
#[error(
    "streamed transactions that are open have more than {PLACES_MAX} fragments. End them, or make \
     wsrep_trx_fragment_size larger"
)]
pub(crate) struct TooManyFragments;

/// The streamed transactions that are open at a reader's place.
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

#[cfg(test)]
mod tests {
    use super::*;
    use synod_node::{Seqno, ViewMember};

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
