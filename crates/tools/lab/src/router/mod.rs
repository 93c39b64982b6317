//! The emulated network: a process that delays, limits and cuts packets between hosts.
//!
//! Each host is a network namespace with one TUN device. The router owns the other end of all of
//! them. The router reads each packet of a host, keeps it until it is due, and writes it to the
//! device of the receiver. The kernel needs no queueing discipline for it.
//!
//! ```text
//!   db1 ──lab0──┐ read                          write ┌──lab0── db2
//!   db3 ──lab0──┤──────► link db1→db2: due at ───────►├──lab0── db3
//!   ...         │        now + delay                  │  ...
//!               └─────────── one process ─────────────┘
//! ```
//!
//! The process gets a real-time priority, so that servers that use all cores do not add to the
//! delays.

pub mod control;
pub mod handle;
pub mod packet;
pub mod process;
pub mod queue;
pub mod stalls;
