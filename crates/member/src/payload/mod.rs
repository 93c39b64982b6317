//! What entries carry: actions and their chunks, views, discards, outcome decisions. Encoding and
//! decoding only; what a payload leads to is decided elsewhere.
//!
//! Bytes that do not decode are a [`action::PayloadError`], never a panic: they come from peers and disks.

pub(crate) mod action;
pub(crate) mod decision;
pub(crate) mod discard;
pub(crate) mod view;
