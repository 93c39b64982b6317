//! Three servers of MySQL 9.7 in a group by the plugin, which is experimental. Needs MySQL:
//! `scripts/test-mysql-group`.

mod applier;
mod consistency;
mod crashes;
mod failures;
mod group_replication;
mod load;
mod other_data;
mod statements;
mod writer_changes;
