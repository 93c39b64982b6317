//! Runs a group step by step from a text: the script decides which message arrives, which disk
//! answers, and whose timer fires. The group is that of the harness, so every step is checked
//! against its rules, too.

#![allow(unreachable_pub)]

mod clock;
pub mod command;
mod network;
mod report;
pub mod script;
pub mod show;
pub mod world;
