//! Fetching: entries that this member's database needs and its log lacks come from other members,
//! which keep them meanwhile (decision 045).
//!
//! ```text
//!  reader           driver                other members
//!    |-- Event::Fetch ->|-- Fetch ----------->|  one member at a time
//!    |                  |<----------- Fetched-|  entries, or why there are none
//!    |<-- FetchBox -----|                     |  the next one is asked if this one has none
//! ```
//!
//! Three parts:
//!
//! - [`Search`]: which member this one asks next, and when it asks no more;
//! - [`check_entries`]: whether what has come is what was asked for;
//! - [`Serving`]: as the one that is asked, what is read for whom, and what the log keeps for it.
//!
//! Everything that is fetched is before the beginning of the asker's log, so it is committed.

mod check;
mod coordinate;
mod search;
mod serving;

pub(super) use check::{Expected, check_entries};
pub(super) use search::{Next, Search};
pub(super) use serving::Serving;

/// The component that fetches entries, and lets others fetch them.
#[derive(Default)]
pub(super) struct Fetching {
    pub(super) search: Search,
    pub(super) serving: Serving,
}
