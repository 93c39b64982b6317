//! Fetching: a member asks another one for committed entries that its own log lacks.
//!
//! ```text
//!  the asker's log          base ─────────────── last
//!  its database      after ◄──────►
//!                      what is missing: fetched, in as many answers as it takes
//! ```

use bytes::Bytes;
use synod_consensus::{EntryHeader, EntryId, LogIndex, Seqno, SessionId};

use crate::codec::{Reader, Writer};
use crate::consensus_codec::{
    payloads_fit, read_entries, read_payloads, write_entries, write_payloads,
};
use crate::error::{DecodeError, EncodeError};
use crate::layout::{Wire, coded, record};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchRequest {
    pub session: SessionId,
    /// The sender's number for it in that session. It asks several members with the same number.
    pub number: u64,
    pub from: FetchFrom,
    /// The last one, at most `base.index`. The answer may end before it.
    pub to: LogIndex,
    /// The last entry before the sender's own log, which is committed. A log that has this entry
    /// has the same ones before it (Raft, section 5.3, Log Matching).
    pub base: EntryId,
    /// The sender will ask for no entry before this one; zero: it does not know yet.
    pub needed_from: LogIndex,
    /// Whether payloads are wanted. Otherwise only those of views are.
    pub with_payloads: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FetchFrom {
    /// Right after the entry of this action.
    After(Seqno),
    /// With the entry at this index.
    At(LogIndex),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchAnswer {
    pub session: SessionId,
    pub number: u64,
    pub result: Result<FetchedEntries, FetchRefusal>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchedEntries {
    /// Consecutive, ascending by index.
    pub headers: Vec<EntryHeader>,
    /// One per entry, each of the length that its header says. `None`: it was not wanted.
    pub payloads: Vec<Option<Bytes>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchRefusal {
    /// Its log has lost them, and begins with this action.
    Purged { first: Seqno },
    /// The asked member has not committed the entry before the asker's log: it lags itself.
    Behind,
}

record! {
    FetchRequest { session, number, from, to, base, needed_from, with_payloads }
    FetchAnswer { session, number, result }
}
coded! { "beginning of a fetch": FetchFrom {
    0 (seqno) [FetchFrom::After(seqno)]
    1 (index) [FetchFrom::At(index)]
} }
coded! { "answer to a fetch": Result<FetchedEntries, FetchRefusal> {
    0 (entries) [Ok(entries)]
    1 (first) [Err(FetchRefusal::Purged { first })]
    2 () [Err(FetchRefusal::Behind)]
} }

impl Wire for FetchedEntries {
    fn write(&self, w: &mut Writer) -> Result<(), EncodeError> {
        payloads_fit(&self.headers, &self.payloads)?;
        write_entries(w, &self.headers)?;
        write_payloads(w, &self.payloads);
        Ok(())
    }

    fn read(r: &mut Reader) -> Result<FetchedEntries, DecodeError> {
        let headers = read_entries(r, None)?;
        let payloads = read_payloads(r, &headers)?;
        Ok(FetchedEntries { headers, payloads })
    }
}
