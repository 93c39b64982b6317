//! Relays for minutes: killed, cut off from power, older than their readers, under load, with
//! readers that are away, and as the way into a group.

mod relay_age;
mod relay_into_group;
mod relay_kills;
mod relay_power;
mod relay_registered;
mod relay_rotation;
mod upstream;
