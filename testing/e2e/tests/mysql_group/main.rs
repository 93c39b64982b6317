//! Servers of MySQL 9.7 in a group by the plugin, which is experimental. Needs MySQL:
//! `scripts/test-mysql-group`.

mod applier;
mod commands;
mod consistency;
mod crashes;
mod doctor;
mod events;
mod face;
mod failures;
mod group_replication;
mod joining;
mod large;
mod load;
mod locks;
mod misuse;
mod other_data;
mod resources;
mod statements;
mod steps;
mod writer_changes;
