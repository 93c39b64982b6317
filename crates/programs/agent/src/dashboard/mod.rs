//! The page for people: the group as a picture, live.
//!
//! ```text
//! asker ──status, once a second──► feed ──look──► viewer's connection ──► browser
//!                                   └─ history: the last minutes, for a page that opens
//! ```
//! The page draws what the server has told. It asks no other machine, and the answers forbid a
//! browser to do so (`Content-Security-Policy`).

pub(crate) mod feed;
pub(crate) mod files;
mod history;
