//! Requests to the certifier, from a proposed action or an appended one, and its verdicts.

use crate::key_set::KeySet;

/// Epoch of a member whose local row locks serialised a write set. Two write sets of one source
/// never conflict: the database that sent both has already decided; the later one depends on the
/// earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    pub member: u64,
    /// Changes whenever locks of the member were released without a known result: with each
    /// session, and when a client gives up a proposal.
    pub epoch: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub source: Source,
    /// Seqno up to which the origin had everything applied when it made the action.
    pub last_seen: i64,
    pub keys: &'a KeySet,
    pub class: Class,
}

/// The class of an action: whether it may conflict, and what it depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Row changes of a transaction. It may conflict.
    WriteSet {
        /// The server says that nothing may be applied in parallel with it.
        pa_unsafe: bool,
    },
    /// A statement executed at one position everywhere (DDL). Never fails; runs alone. Its keys,
    /// EXCLUSIVE on what it alters, make later write sets there that have not seen it conflict.
    /// With the key without parts EXCLUSIVE, every later write set that has not seen it conflicts:
    /// so an action whose keys are not known can be ingested safely.
    TotalOrder,
    /// A view: it has no keys and runs alone; everything later depends on it.
    Barrier,
}

impl Class {
    /// Whether the action depends on everything before it and everything later depends on it.
    pub(crate) fn runs_alone(self) -> bool {
        match self {
            Class::WriteSet { pa_unsafe } => pa_unsafe,
            Class::TotalOrder | Class::Barrier => true,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    Pass {
        /// Last seqno that must be applied before the action; below its own seqno.
        depends_on: i64,
    },
    /// The action holds a key that an action which it has not seen has changed.
    Conflict {
        /// Seqno of the latest such action.
        with: i64,
    },
    /// Its snapshot position is before the certification window. The client may try again.
    TooOld {
        last_seen: i64,
        /// The smallest snapshot position that could have passed.
        window_start: i64,
    },
}
