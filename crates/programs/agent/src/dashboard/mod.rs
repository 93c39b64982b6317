//! The page for people: the group as a picture, live.
//!
//! ```text
//! asker ──status, once a second──► feed ──look──► viewer's connection ──► browser
//!                                   └─ history: the last minutes, for a page that opens
//! ```
//! - [`files`]: what a browser loads once; compiled into the program.
//! - [`feed`]: what viewers are sent while they watch, by server-sent events.
//! - [`history`]: the rates and delays of the last minutes.
//!
//! The page draws what the server has told. It has no other source: it asks no other machine, and
//! the answers forbid a browser to do so (`Content-Security-Policy`).

pub(crate) mod feed;
pub(crate) mod files;
mod history;
