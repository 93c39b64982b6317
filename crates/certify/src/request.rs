//! What is asked of the certifier, and what it answers.

use crate::key_set::KeySet;

/// Whose local row locks serialised a write set. Two write sets of one source never conflict: the
/// database that sent both has already decided; the later one depends on the earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// The member (one life of its disk).
    pub member: u64,
    /// The life of its database: grows or changes whenever local locks were forgotten (a session).
    pub epoch: u64,
}

/// An action that would be, or has been, ordered.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Who made it.
    pub source: Source,
    /// Seqno up to which the origin had everything applied when it made the action.
    pub last_seen: i64,
    /// What it touches. Not looked at for [`Class::Barrier`].
    pub keys: &'a KeySet,
    /// What it is.
    pub class: Class,
}

/// What kind of action it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Row changes of a transaction. May conflict.
    WriteSet {
        /// The server says that nothing may be applied in parallel with it.
        pa_unsafe: bool,
    },
    /// A statement executed at one position everywhere (DDL). Never fails; runs alone. Its keys,
    /// EXCLUSIVE on what it alters, make later write sets there that have not seen it conflict.
    /// With the key without parts EXCLUSIVE, every later write set that has not seen it conflicts:
    /// so an action whose keys are not known can be ingested safely.
    TotalOrder,
    /// A view or the like: no keys, runs alone, everything later depends on it.
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

/// The certifier's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It may be ordered.
    Pass {
        /// Everything up to this seqno must be applied before it; below its own seqno.
        depends_on: i64,
    },
    /// It touches something that an action it has not seen changed.
    Conflict {
        /// The latest such action.
        with: i64,
    },
    /// It is based on a position older than the known history. Worth a retry by the client.
    TooOld {
        /// The request's.
        last_seen: i64,
        /// Smallest `last_seen` that could have passed.
        window_start: i64,
    },
}
