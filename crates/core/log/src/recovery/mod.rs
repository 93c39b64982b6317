//! From the files of a directory to an open log. [`open`] runs the whole course: lock, finish a
//! decided repair, read the stream ([`replay`], which reads batches with [`scan`]), and hand out
//! writer and reader. What an end or a gap of the stream means is decided by the tables in
//! [`decisions`] and nowhere else. Damage below a durable floor leads to [`repair`], which asks
//! [`beyond_damage`] what the member had promised. [`offline`] reads the same way and changes
//! nothing. Invariant: until everything was read and judged, no file of the directory is changed.

pub(crate) mod beyond_damage;
pub(crate) mod decisions;
pub mod offline;
pub(crate) mod open;
pub(crate) mod repair;
pub(crate) mod replay;
pub(crate) mod scan;
