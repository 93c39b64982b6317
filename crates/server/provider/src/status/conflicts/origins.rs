//! Origins of the last actions, without a lock, since each delivery adds one.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use synod_node::MemberId;

/// Last actions whose origin is known.
pub(super) const ORIGINS: usize = 4096;

/// Origin of an action, as far as known.
pub(super) enum Origin {
    Known(MemberId),
    /// The action was not delivered yet.
    Later,
    /// Too many were delivered since.
    Forgotten,
}

/// The origins of the last actions.
pub(super) struct DeliveredOrigins(Box<[(AtomicI64, AtomicU64)]>);

impl Default for DeliveredOrigins {
    fn default() -> DeliveredOrigins {
        DeliveredOrigins(
            (0..ORIGINS)
                .map(|_| <(AtomicI64, AtomicU64)>::default())
                .collect(),
        )
    }
}

impl DeliveredOrigins {
    /// An action of this member was delivered. One thread at a time delivers.
    pub(super) fn note(&self, seqno: i64, origin: MemberId) {
        let (place, member) = self.place(seqno);
        // Not to be taken for the new one's while it is half written.
        place.store(0, Ordering::Release);
        member.store(origin.0, Ordering::Release);
        place.store(seqno, Ordering::Release);
    }

    /// Origin of the action with this seqno.
    pub(super) fn of(&self, seqno: i64) -> Origin {
        let (place, member) = self.place(seqno);
        let before = place.load(Ordering::Acquire);
        let origin = MemberId(member.load(Ordering::Acquire));
        match before.cmp(&seqno) {
            Less => Origin::Later,
            Greater => Origin::Forgotten,
            Equal if place.load(Ordering::Acquire) == seqno => Origin::Known(origin),
            Equal => Origin::Forgotten,
        }
    }

    fn place(&self, seqno: i64) -> &(AtomicI64, AtomicU64) {
        &self.0[seqno.unsigned_abs() as usize % ORIGINS] // any bits will do
    }
}
