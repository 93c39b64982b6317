//! Bytes that compression has saved since the start of the node.

use std::sync::atomic::{AtomicU64, Ordering};

use synod_member::lock;
use synod_wire::Compression;

use super::Transport;

/// Bytes sent over the bulk lanes, with and without compression, for operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompressionStatus {
    /// Bytes of the messages, without compression.
    pub plain_bytes: u64,
    /// Bytes that were sent in their place.
    pub sent_bytes: u64,
    /// Members to which messages are compressed at the moment, ascending.
    pub members: Vec<synod_consensus::MemberId>,
}

#[derive(Debug, Default)]
pub(super) struct CompressionTotals {
    plain: AtomicU64,
    sent: AtomicU64,
}

impl CompressionTotals {
    pub(super) fn add(&self, bytes: Compression) {
        self.plain.fetch_add(bytes.plain as u64, Ordering::Relaxed);
        self.sent.fetch_add(bytes.sent as u64, Ordering::Relaxed);
    }
}

impl Transport {
    /// Bytes sent over the bulk lanes so far.
    pub(crate) fn compression_status(&self) -> CompressionStatus {
        let links = lock(&self.links);
        let compressing = links.values().filter(|link| link.compresses());
        let mut members: Vec<_> = compressing.map(|link| link.member()).collect();
        members.sort_unstable();
        CompressionStatus {
            plain_bytes: self.compression_totals.plain.load(Ordering::Relaxed),
            sent_bytes: self.compression_totals.sent.load(Ordering::Relaxed),
            members,
        }
    }
}
