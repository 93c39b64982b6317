//! Connected readers, and their positions. Of those with one `server_id`, one at a time has a dump.
//!
//! A reader is known by its `server_id`: what is held for a registered one, and where it is. Two at
//! a time would be taken for one. So the newer dump ends the older one, as a primary does it: that
//! is mostly a dead connection of the same reader, which has come again.
//!
//! Invariants: a dump begins when none with its `server_id` is left. Zero is no number: tools that
//! read up to the end of the log have it.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use synod_binlog::GtidList;
use synod_node::Seqno;

use crate::lock;

/// So long a dump that is to end may take to tell its reader. One that does not end by then waits
/// for a reader that takes nothing.
const WORDS_LIMIT: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(crate) struct ConnectedReaders {
    /// By the number of the connection.
    taken: Mutex<BTreeMap<u32, Taken>>,
    left: Condvar,
}

#[derive(Debug)]
struct Taken {
    stream: TcpStream,
    place: Arc<ReaderPlace>,
    /// `server_id` of its dump; zero: it has none yet, or may be beside others.
    dump_of: u32,
    newer: Arc<OnceLock<SocketAddr>>,
}

/// The seat of one reader, until this is dropped.
#[derive(Debug)]
pub(crate) struct Seat<'a> {
    seats: &'a ConnectedReaders,
    connection: u32,
    place: Arc<ReaderPlace>,
    newer: Arc<OnceLock<SocketAddr>>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum NoSeat {
    #[error("all seats are taken")]
    Full,
    #[error(transparent)]
    System(#[from] io::Error),
}

impl ConnectedReaders {
    /// A seat for the reader of this connection, if fewer than `most` are taken.
    pub(crate) fn take(
        &self,
        connection: u32,
        stream: &TcpStream,
        from: SocketAddr,
        most: usize,
    ) -> Result<Seat<'_>, NoSeat> {
        let mut taken = lock(&self.taken);
        if taken.len() >= most {
            return Err(NoSeat::Full);
        }
        let seat = Seat {
            seats: self,
            connection,
            place: Arc::new(ReaderPlace::new(from)),
            newer: Arc::default(),
        };
        let noted = Taken {
            stream: stream.try_clone()?,
            place: seat.place.clone(),
            dump_of: 0,
            newer: seat.newer.clone(),
        };
        taken.insert(connection, noted);
        Ok(seat)
    }

    pub(crate) fn places(&self) -> Vec<Place> {
        let taken = lock(&self.taken);
        taken.values().map(|taken| taken.place.get()).collect()
    }

    pub(crate) fn end_connections(&self) {
        lock(&self.taken).values().for_each(Taken::end_connection);
    }

    /// Has the dumps with this number end, and notes this connection's. The connections of those.
    fn displace_same_server_id(
        &self,
        connection: u32,
        server_id: u32,
        from: SocketAddr,
    ) -> Vec<u32> {
        let mut taken = lock(&self.taken);
        let older = |other: &&u32| taken[*other].dump_of == server_id;
        let older: Vec<u32> = taken.keys().filter(older).copied().collect();
        for other in &older {
            // It may be ending already.
            let _ = taken[other].newer.set(from);
        }
        if let Some(own) = taken.get_mut(&connection) {
            own.dump_of = server_id;
        }
        older
    }

    /// Waits until these connections have ended. Those that hang are ended.
    fn await_end(&self, connections: &[u32]) {
        let is_there = |taken: &mut BTreeMap<u32, Taken>| {
            connections.iter().any(|other| taken.contains_key(other))
        };
        let waited = (self.left).wait_timeout_while(lock(&self.taken), WORDS_LIMIT, is_there);
        let (taken, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let late = connections.iter().filter_map(|other| taken.get(other));
        late.for_each(Taken::end_connection);
        // Its value is the same if another thread has panicked.
        drop(self.left.wait_while(taken, is_there));
    }
}

impl Taken {
    fn end_connection(&self) {
        // It may have ended already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Seat<'_> {
    pub(crate) fn place(&self) -> &ReaderPlace {
        &self.place
    }

    /// Its dump is to begin. Another one with this `server_id` is over when this returns. `wake`
    /// has dumps look that wait for the log.
    pub(crate) fn begin_dump(&self, server_id: u32, wake: impl FnOnce()) {
        if server_id == 0 {
            return;
        }
        let from = self.place.get().from;
        let older = self
            .seats
            .displace_same_server_id(self.connection, server_id, from);
        if older.is_empty() {
            return;
        }
        wake();
        self.seats.await_end(&older);
    }

    /// Address of the reader whose dump ends this one; none: this one continues.
    pub(crate) fn newer(&self) -> Option<SocketAddr> {
        self.newer.get().copied()
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        lock(&self.seats.taken).remove(&self.connection);
        self.seats.left.notify_all();
    }
}

/// A place is noted after so many actions, so that readers that are behind do not note each one.
const STEP: u64 = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) from: SocketAddr,
    /// Its `server_id`; zero: it has not said it yet.
    pub(crate) server_id: u32,
    /// Last action sent; none: no dump was requested yet.
    pub(crate) at: Option<At>,
    /// Position in the request.
    pub(crate) began: Option<At>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) seqno: Seqno,
    pub(crate) gtids: GtidList,
}

/// Position of one reader, written by its thread and read by operators.
#[derive(Debug)]
pub(crate) struct ReaderPlace(Mutex<Place>);

impl ReaderPlace {
    fn new(from: SocketAddr) -> ReaderPlace {
        ReaderPlace(Mutex::new(Place {
            from,
            server_id: 0,
            at: None,
            began: None,
        }))
    }

    pub(crate) fn get(&self) -> Place {
        lock(&self.0).clone()
    }

    pub(crate) fn is_server(&self, server_id: u32) {
        lock(&self.0).server_id = server_id;
    }

    pub(crate) fn begins(&self, seqno: Seqno, gtids: GtidList) {
        lock(&self.0).began = Some(At {
            seqno,
            gtids: gtids.clone(),
        });
        self.is_at(seqno, gtids);
    }

    /// Records that the reader was sent everything up to here.
    pub(crate) fn is_at(&self, seqno: Seqno, gtids: GtidList) {
        lock(&self.0).at = Some(At { seqno, gtids });
    }

    /// [`ReaderPlace::is_at`], recorded only now and then.
    pub(crate) fn moved(&self, seqno: Seqno, gtids: impl FnOnce() -> GtidList) {
        if seqno.0.unsigned_abs().is_multiple_of(STEP) {
            self.is_at(seqno, gtids());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;
    use crate::testing::connection;

    fn from(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// A seat with a dump that nothing is in the way of.
    fn seat_with_dump<'a>(
        seats: &'a ConnectedReaders,
        connection: u32,
        stream: &TcpStream,
        server_id: u32,
    ) -> Seat<'a> {
        let port = connection as u16;
        let seat = seats.take(connection, stream, from(port), 9).unwrap();
        seat.begin_dump(server_id, || panic!("nothing is to end"));
        seat
    }

    #[test]
    fn newer_dump_waits_until_the_older_one_has_told_its_reader() {
        let seats = ConnectedReaders::default();
        let (_reader, stream) = connection();
        let older = seat_with_dump(&seats, 1, &stream, 7);
        let other = seat_with_dump(&seats, 2, &stream, 8);
        let (wake, wakes) = channel();
        thread::scope(|threads| {
            let newer = seats.take(3, &stream, from(3), 9).unwrap();
            let (begun, begins) = channel();
            threads.spawn(move || {
                newer.begin_dump(7, || wake.send(()).unwrap());
                begun.send(newer.seats.places().len()).unwrap();
            });
            wakes.recv().unwrap();
            assert_eq!((older.newer(), other.newer()), (Some(from(3)), None));
            assert!(begins.try_recv().is_err(), "the older one is still there");
            drop(older);
            assert_eq!(begins.recv(), Ok(2));
        });
    }

    #[test]
    fn connection_of_an_older_dump_that_hangs_is_ended() {
        let seats = ConnectedReaders::default();
        let (mut reader, mut stream) = connection();
        let older = seat_with_dump(&seats, 1, &stream, 7);
        thread::scope(|threads| {
            threads.spawn(move || {
                // It waits for its reader, which says nothing.
                assert_eq!(stream.read(&mut [0]).unwrap(), 0);
                drop(older);
            });
            let newer = seats.take(2, &reader, from(2), 9).unwrap();
            newer.begin_dump(7, || {});
            assert_eq!(seats.places().len(), 1);
        });
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn readers_without_a_number_are_beside_each_other() {
        let seats = ConnectedReaders::default();
        let (_reader, stream) = connection();
        let first = seat_with_dump(&seats, 1, &stream, 0);
        let second = seat_with_dump(&seats, 2, &stream, 0);
        assert_eq!((first.newer(), second.newer()), (None, None));
    }

    #[test]
    fn seats_are_taken_up_to_their_number() {
        let seats = ConnectedReaders::default();
        let (_reader, stream) = connection();
        let first = seats.take(1, &stream, from(1), 1).unwrap();
        let second = seats.take(2, &stream, from(2), 1);
        assert!(matches!(second, Err(NoSeat::Full)), "{second:?}");
        drop(first);
        assert!(seats.take(3, &stream, from(3), 1).is_ok());
    }
}
