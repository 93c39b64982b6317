//! Servers of MySQL 9.7 in a group by the plugin, which is experimental. Needs MySQL:
//! `scripts/test-mysql-group`.

mod applier;
mod commands;
mod crashes;
mod doctor;
mod failures;
mod joining;
mod load;
mod resources;
mod statements;
mod steps;
mod writer_changes;
