//! Meters: commands that observe servers of the lab by SQL.
//!
//! | command | question |
//! |---|---|
//! | [`delay`] | does a read on another server show what was just acknowledged, and if not, when? |
//! | [`giant`] | what does a statement that changes millions of rows do to everything else? |
//! | [`lag`] | what does one slow server do to the group, and does it catch up again? |
//!
//! Clients are threads of this process; all times are by one clock.

pub mod clients;
pub mod command;
pub mod delay;
pub mod error;
pub mod giant;
pub mod group;
pub mod lag;
pub mod memory;
pub mod record;
pub(crate) mod surroundings;
pub mod throttle;
pub mod timeline;
pub mod visibility;
pub mod watch;

pub use command::MeterCommand;
pub use error::MeterError;
pub use group::{Group, Server};
pub use record::{Findings, MeterRecord};
