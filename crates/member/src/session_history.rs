//! Session history: the sessions that took part in a range of the log.
//!
//! A host that continues from an old position asks which sessions' open transactions the actions
//! after that position may still refer to.

use std::collections::BTreeSet;

use synod_consensus::{EntryKind, MemberId, Seqno, SessionId};
use synod_log::{LogError, LogReader};

use crate::payload::view::View;

/// Bytes read from the log at a time.
const READ_BYTES: usize = 1 << 20;

/// Sessions whose actions are ordered after `after` and up to `up_to`, and sessions present in
/// views there. No action after `after` refers to an open transaction of any other session.
///
/// # Errors
/// If the log cannot be read.
pub fn sessions_between(
    reader: &LogReader,
    after: Seqno,
    up_to: Seqno,
) -> Result<BTreeSet<(MemberId, SessionId)>, LogError> {
    let mut sessions = BTreeSet::new();
    if after >= up_to {
        return Ok(sessions);
    }
    let mut next = reader.seek_seqno(after.next())?;
    let end = reader.seek_seqno(up_to)?;
    while next <= end {
        for entry in reader.read(next, end, READ_BYTES)? {
            let header = entry.header;
            next = header.index.next();
            match header.kind {
                EntryKind::Action => {
                    sessions.insert((header.origin.member, header.origin.session));
                }
                EntryKind::View => {
                    // A malformed view is reported by its delivery.
                    let view = View::decode(header.seqno, entry.payload).unwrap_or_default();
                    sessions.extend(view.members.iter().map(|m| (m.member, m.session)));
                }
                EntryKind::NoOp
                | EntryKind::Config
                | EntryKind::Chunk
                | EntryKind::Discard
                | EntryKind::Decision => {}
            }
        }
    }
    Ok(sessions)
}
