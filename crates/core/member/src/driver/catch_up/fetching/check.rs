//! Checks that fetched entries are the ones that were asked for.

use synod_consensus::{EntryId, LogIndex, Seqno};
use synod_log::Entry;
use synod_wire::{FetchFrom, FetchedEntries};

#[derive(Clone, Copy, Debug)]
pub(in crate::driver) struct Expected {
    pub(in crate::driver) from: FetchFrom,
    pub(in crate::driver) to: LogIndex,
    /// The last entry before the own log, and the last action at or before it.
    pub(in crate::driver) base: (EntryId, Seqno),
    pub(in crate::driver) with_payloads: bool,
}

/// The entries with their payloads, if they begin where they should, follow one another, and join
/// the own log. Payloads that were not wanted are empty. Errors: the cause in words, if the entries
/// do not meet the requirements.
pub(super) fn check_entries(
    expected: &Expected,
    fetched: FetchedEntries,
) -> Result<Vec<Entry>, String> {
    let FetchedEntries { headers, payloads } = fetched;
    let mut entries: Vec<Entry> = Vec::with_capacity(headers.len());
    for (header, payload) in headers.into_iter().zip(payloads) {
        let entry = match payload {
            Some(payload) => Entry::checked(header, payload).map_err(|error| error.to_string())?,
            None if expected.with_payloads => {
                return Err(format!("entry {} comes without its payload", header.index));
            }
            None => Entry {
                header,
                payload: bytes::Bytes::new(),
            },
        };
        match entries.last() {
            None => begins_right(expected, &entry)?,
            Some(before) => follows(before, &entry)?,
        }
        entries.push(entry);
    }
    let last = entries.last().ok_or("there are none")?;
    joins(expected, last)?;
    Ok(entries)
}

fn begins_right(expected: &Expected, first: &Entry) -> Result<(), String> {
    let header = &first.header;
    let is_right = match expected.from {
        FetchFrom::At(index) => header.index == index,
        FetchFrom::After(seqno) => is_next_seqno(seqno, first),
    };
    if is_right {
        return Ok(());
    }
    let (id, seqno, from) = (header.id(), header.seqno, expected.from);
    Err(format!(
        "they begin with entry {id} at seqno {seqno}, not {from:?}"
    ))
}

fn follows(before: &Entry, entry: &Entry) -> Result<(), String> {
    let (before, header) = (&before.header, &entry.header);
    let is_next = header.index == before.index.next()
        && header.term >= before.term
        && is_next_seqno(before.seqno, entry);
    if is_next {
        return Ok(());
    }
    let (id, seqno) = (header.id(), header.seqno);
    let (last, last_seqno) = (before.id(), before.seqno);
    Err(format!(
        "entry {id} at seqno {seqno} does not follow {last} at seqno {last_seqno}"
    ))
}

fn is_next_seqno(before: Seqno, entry: &Entry) -> bool {
    let header = &entry.header;
    match header.kind.is_ordered() {
        true => header.seqno == before.next(),
        false => header.seqno == before,
    }
}

/// The entry before the own log has to be the one that this log was begun with.
fn joins(expected: &Expected, last: &Entry) -> Result<(), String> {
    let header = &last.header;
    let (base, seqno) = expected.base;
    if header.index > expected.to {
        return Err(format!(
            "they end with {}, after {}",
            header.id(),
            expected.to
        ));
    }
    let is_base = header.index == base.index;
    if header.term > base.term || is_base && (header.id(), header.seqno) != (base, seqno) {
        return Err(format!(
            "they end with {} at seqno {}, and this member's log begins after {base} at seqno \
             {seqno}",
            header.id(),
            header.seqno,
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use synod_consensus::{EntryHeader, EntryKind, Term};

    /// An entry of the log: entries 1, 2, 3 ... are an action, a no-op, an action, and so on.
    fn entry(index: u64) -> (EntryHeader, Option<Bytes>) {
        let payload = Bytes::from(vec![index as u8; 10]);
        let is_action = !index.is_multiple_of(2);
        let kind = if is_action {
            EntryKind::Action
        } else {
            EntryKind::NoOp
        };
        let header = EntryHeader {
            payload_len: 10,
            payload_crc: crc32c::crc32c(&payload),
            ..EntryHeader::bare(
                Term(1 + index / 10),
                LogIndex(index),
                Seqno(index.div_ceil(2) as i64),
                kind,
            )
        };
        (header, Some(payload))
    }

    fn entries(indexes: impl IntoIterator<Item = u64>) -> FetchedEntries {
        let (headers, payloads) = indexes.into_iter().map(entry).unzip();
        FetchedEntries { headers, payloads }
    }

    /// Everything from here up to entry 12, with which the own log was begun.
    fn expected(from: FetchFrom) -> Expected {
        let base = entry(12).0;
        Expected {
            from,
            to: base.index,
            base: (base.id(), base.seqno),
            with_payloads: true,
        }
    }

    fn refused(from: FetchFrom, fetched: FetchedEntries) -> String {
        check_entries(&expected(from), fetched).unwrap_err()
    }

    #[test]
    fn consecutive_entries_up_to_the_own_log_are_taken() {
        let from = FetchFrom::After(Seqno(3));
        let taken = check_entries(&expected(from), entries(6..=12)).unwrap();
        assert_eq!(taken.len(), 7);
        assert!(check_entries(&expected(from), entries(6..=8)).is_ok());
        // Right after the no-op there is the next action.
        assert!(check_entries(&expected(from), entries(7..=8)).is_ok());
        let at = FetchFrom::At(LogIndex(9));
        assert!(check_entries(&expected(at), entries(9..=9)).is_ok());
    }

    #[test]
    fn entries_that_begin_elsewhere_or_leave_one_out_are_refused() {
        let after = FetchFrom::After(Seqno(3));
        assert!(refused(after, entries(9..=12)).contains("they begin with"));
        assert!(refused(FetchFrom::At(LogIndex(8)), entries(9..=9)).contains("they begin with"));
        assert!(refused(after, entries([6, 7, 9])).contains("does not follow"));
        let mut jump = entries(6..=8);
        jump.headers[1].seqno = Seqno(9);
        assert!(refused(after, jump).contains("does not follow"));
        assert!(refused(after, entries([])).contains("none"));
    }

    #[test]
    fn entries_that_do_not_join_the_own_log_are_refused() {
        let at = FetchFrom::At(LogIndex(11));
        let mut other_term = entries(11..=12);
        other_term.headers[1].term = Term(3);
        assert!(refused(at, other_term).contains("log begins after"));
        let mut other_seqno = entries(12..=12);
        other_seqno.headers[0].seqno = Seqno(7);
        let at_base = FetchFrom::At(LogIndex(12));
        assert!(refused(at_base, other_seqno).contains("log begins after"));
        assert!(refused(at, entries(11..=13)).contains("after 12"));
    }

    #[test]
    fn payload_that_is_not_the_entrys_is_refused() {
        let at = FetchFrom::At(LogIndex(9));
        let mut changed = entries(9..=10);
        changed.payloads[1] = entry(8).1;
        assert!(check_entries(&expected(at), changed).is_err());
        let mut left_out = entries(9..=10);
        left_out.payloads[0] = None;
        assert!(refused(at, left_out.clone()).contains("without its payload"));
        let headers_only = Expected {
            with_payloads: false,
            ..expected(at)
        };
        let taken = check_entries(&headers_only, left_out).unwrap();
        assert!(taken[0].payload.is_empty() && taken[1].payload.len() == 10);
    }
}
