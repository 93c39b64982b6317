//! The thread that reads old entries for members far behind, so that the core thread never waits for
//! a disk.

use std::sync::Arc;

use crossbeam_channel::Receiver;
use synod_consensus::{MemberId, SendEntries};
use synod_log::{Entry, LogReader};

use crate::driver::append_message;
use crate::host::{Host, Level};
use crate::peers::Peers;

/// Payload bytes in one message.
pub(crate) const CATCH_UP_BYTES: usize = 4 << 20;

/// A range that some follower needs.
pub(crate) struct CatchUp {
    pub(crate) from: MemberId,
    pub(crate) range: SendEntries,
}

/// Serves ranges until the sender is gone.
pub(crate) fn run(
    requests: &Receiver<CatchUp>,
    reader: &LogReader,
    peers: &Peers,
    host: &Arc<dyn Host>,
) {
    for CatchUp { from, range } in requests {
        let bytes = if range.may_cut {
            CATCH_UP_BYTES
        } else {
            usize::MAX
        };
        match reader.read(range.first, range.last, bytes) {
            Ok(entries) if !entries.is_empty() => {
                let entries: Vec<&Entry> = entries.iter().collect();
                peers.send(range.to, append_message(from, &range, &entries));
            }
            // Cut or purged meanwhile: the core finds out and asks for something else.
            Ok(_) => {}
            Err(error) => host.log(
                Level::Warning,
                &format!(
                    "cannot read entries {}-{} for a member: {error}",
                    range.first, range.last
                ),
            ),
        }
    }
}
