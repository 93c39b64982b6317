//! Commands and checks of a group, as an operator uses them.

mod agent;
mod commands;
mod demo;
mod doctor;
mod error_logs;
mod point_in_time;
mod read_only;
mod remote_commands;
mod restore;
