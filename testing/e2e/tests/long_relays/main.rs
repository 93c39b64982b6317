//! Relays killed, cut off from power, and older than their readers, under load.

mod relay_age;
mod relay_clocks;
mod relay_kills;
mod relay_power;
mod relay_rotation;
