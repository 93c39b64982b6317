//! Payloads of entries: actions and their chunks, views, discards, outcome decisions. Encoding and
//! decoding only; other modules decide what a payload leads to. Bytes that cannot be decoded give
//! an [`action::PayloadError`], never a panic: they come from peers and disks.

pub(crate) mod action;
pub(crate) mod decision;
pub(crate) mod discard;
#[cfg(test)]
mod frozen_tests;
mod version;
pub(crate) mod view;
