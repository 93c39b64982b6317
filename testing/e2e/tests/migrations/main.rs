//! The drills of the manual, by the manual's own commands; migrations from Galera and back.

mod drills;
mod migration;
mod migration_live;
mod migration_relayed;
