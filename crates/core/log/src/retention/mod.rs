//! Retention of entries: their location, and the making and reclaiming of space.
//!
//! - [`cache`]: the newest entries, in memory.
//! - [`index`]: where every other live entry is on disk.
//! - [`summaries`]: term, kind and seqno of every entry, in memory.
//! - [`spare`]: the next segment, made ahead of need.
//! - [`purge`]: whole segments purged from the old end, and their files removed beside the writer.
//!   The caller decides up to where.

pub(crate) mod cache;
pub(crate) mod index;
pub(crate) mod purge;
pub(crate) mod spare;
pub(crate) mod summaries;
