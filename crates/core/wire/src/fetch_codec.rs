//! Fetch requests and their answers as bytes.

use synod_consensus::{LogIndex, Seqno, SessionId};

use crate::codec::{Reader, Writer};
use crate::consensus_codec::{read_entries, read_entry_id, write_entries, write_entry_id};
use crate::error::{DecodeError, EncodeError};
use crate::fetch::{FetchAnswer, FetchFrom, FetchRefusal, FetchRequest, FetchedEntries};
use crate::message_codec::{payloads_fit, read_payloads, write_payloads};

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
                return Err(DecodeError::UnknownCode { what, code });
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
                return Err(DecodeError::UnknownCode { what, code });
            }
        },
    })
}
