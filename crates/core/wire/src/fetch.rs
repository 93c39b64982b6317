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
    payloads_fit, read_entries, read_entry_id, read_payloads, write_entries, write_entry_id,
    write_payloads,
};
use crate::error::{DecodeError, EncodeError};

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
    /// The entries, or why there are none.
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
    Purged {
        /// The first action in its log.
        first: Seqno,
    },
    /// The asked member has not committed the entry before the asker's log: it lags itself.
    Behind,
}

pub(crate) fn write_fetch_request(w: &mut Writer, request: &FetchRequest) {
    w.u64(request.session.0);
    w.u64(request.number);
    match request.from {
        FetchFrom::After(seqno) => {
            w.u8(0);
            w.i64(seqno.0);
        }
        FetchFrom::At(index) => {
            w.u8(1);
            w.u64(index.0);
        }
    }
    w.u64(request.to.0);
    write_entry_id(w, request.base);
    w.u64(request.needed_from.0);
    w.bool(request.with_payloads);
}

pub(crate) fn read_fetch_request(r: &mut Reader) -> Result<FetchRequest, DecodeError> {
    Ok(FetchRequest {
        session: SessionId(r.u64()?),
        number: r.u64()?,
        from: match r.u8()? {
            0 => FetchFrom::After(Seqno(r.i64()?)),
            1 => FetchFrom::At(LogIndex(r.u64()?)),
            code => {
                let what = "beginning of a fetch";
                return Err(DecodeError::unknown(what, code));
            }
        },
        to: LogIndex(r.u64()?),
        base: read_entry_id(r)?,
        needed_from: LogIndex(r.u64()?),
        with_payloads: r.bool()?,
    })
}

pub(crate) fn write_fetch_answer(w: &mut Writer, answer: &FetchAnswer) -> Result<(), EncodeError> {
    w.u64(answer.session.0);
    w.u64(answer.number);
    match &answer.result {
        Ok(FetchedEntries { headers, payloads }) => {
            payloads_fit(headers, payloads)?;
            w.u8(0);
            write_entries(w, headers)?;
            write_payloads(w, payloads);
        }
        Err(FetchRefusal::Purged { first }) => {
            w.u8(1);
            w.i64(first.0);
        }
        Err(FetchRefusal::Behind) => w.u8(2),
    }
    Ok(())
}

pub(crate) fn read_fetch_answer(r: &mut Reader) -> Result<FetchAnswer, DecodeError> {
    Ok(FetchAnswer {
        session: SessionId(r.u64()?),
        number: r.u64()?,
        result: match r.u8()? {
            0 => {
                let headers = read_entries(r, None)?;
                let payloads = read_payloads(r, &headers)?;
                Ok(FetchedEntries { headers, payloads })
            }
            1 => Err(FetchRefusal::Purged {
                first: Seqno(r.i64()?),
            }),
            2 => Err(FetchRefusal::Behind),
            code => {
                let what = "answer to a fetch";
                return Err(DecodeError::unknown(what, code));
            }
        },
    })
}
