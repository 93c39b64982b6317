//! Scaffolding for tests, fuzz targets and the simulator. No production path uses it.
//!
//! The module is in the crate because tests of other crates and the simulator need the same disks:
//! [`MemoryFiles`] keeps what was synced apart from what was only written, and can lose power;
//! [`FaultyFiles`] wraps any files and fails chosen operations. The module `fuzzing`, behind the
//! feature of that name, opens private decoders to the fuzz targets.

mod faulty;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod memory;

pub use faulty::{Fault, FaultKind, FaultyFiles, Op};
pub use memory::MemoryFiles;
