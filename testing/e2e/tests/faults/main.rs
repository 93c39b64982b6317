//! Servers of a group that crash, fail an action, fill a disk, come back, or need a copy.

mod bad_disk;
mod copy_again;
mod crash;
mod inconsistency;
mod logger;
mod other_replication;
mod recover;
mod regions;
mod returns;
mod starts;
