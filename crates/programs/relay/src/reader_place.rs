//! Positions of readers, for operators.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use synod_binlog::GtidList;
use synod_node::Seqno;

/// A place is noted after so many actions, so that readers that are behind do not note each one.
const STEP: u64 = 256;

/// Position of one reader.
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

/// A place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct At {
    /// After this action.
    pub(crate) seqno: Seqno,
    /// The newest GTID of each domain up to there.
    pub(crate) gtids: GtidList,
}

/// Position of one reader, written by its thread and read by operators.
#[derive(Debug)]
pub(crate) struct ReaderPlace(Mutex<Place>);

impl ReaderPlace {
    /// A reader that has asked for nothing yet.
    pub(crate) fn new(from: SocketAddr) -> ReaderPlace {
        ReaderPlace(Mutex::new(Place {
            from,
            server_id: 0,
            at: None,
            began: None,
        }))
    }

    pub(crate) fn get(&self) -> Place {
        self.lock().clone()
    }

    /// Records the reader's `server_id`.
    pub(crate) fn is_server(&self, server_id: u32) {
        self.lock().server_id = server_id;
    }

    /// Its dump begins here.
    pub(crate) fn begins(&self, seqno: Seqno, gtids: GtidList) {
        self.lock().began = Some(At {
            seqno,
            gtids: gtids.clone(),
        });
        self.is_at(seqno, gtids);
    }

    /// Records that the reader was sent everything up to here.
    pub(crate) fn is_at(&self, seqno: Seqno, gtids: GtidList) {
        self.lock().at = Some(At { seqno, gtids });
    }

    /// [`ReaderPlace::is_at`], recorded only now and then.
    pub(crate) fn moved(&self, seqno: Seqno, gtids: impl FnOnce() -> GtidList) {
        if seqno.0.unsigned_abs().is_multiple_of(STEP) {
            self.is_at(seqno, gtids());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Place> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
