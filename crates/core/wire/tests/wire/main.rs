//! The wire format: round trips, damage, bounds.

mod damage;
mod frames;
mod frozen;
mod handshake;
mod messages;
mod strategies;
