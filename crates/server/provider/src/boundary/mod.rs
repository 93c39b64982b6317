//! The C boundary: pointers on one side, [`crate::api`] on the other. All unsafe code of the
//! provider is here.
//!
//! Every function of the table goes through a guard of `host`, which checks the table, refuses when
//! the node is fenced, and catches panics: nothing unwinds into the server. After a panic the state
//! behind it cannot be trusted, so the node is *fenced*: a FATAL line says why, and from then on
//! everything that could acknowledge something answers `WSREP_NODE_FAIL`. Exceptions are the
//! answers on which the server would hang or die: see `table`.
//!
//! C++ exceptions that come out of a callback cannot be caught in Rust; they end the process, as
//! they do in any provider that is not C++.
#![allow(unsafe_code)]

mod callbacks;
mod children;
mod convert;
mod exports;
mod host;
mod process;
mod server_exports;
mod services;
mod table;

pub use callbacks::{ApplyFailed, CallbackFailed, Callbacks, RecvContext, ReplayContext};
pub(crate) use children::{end_children, end_leftover_copy};
pub use exports::{
    InterfaceVersion, IsolationMode, isolation_mode, wsrep_interface_version, wsrep_loader,
    wsrep_node_isolation_mode_set_v1,
};
pub use process::run_exit_tasks;
pub(crate) use process::{
    at_process_exit, close_files_on_exec, end_if_started_to_begin, pending_order_to_end, spawn,
};
pub(crate) use server_exports::{
    HeldReply, StatementErrors, can_tell_statement_errors, has_locked_tables,
    hear_statement_errors, next_statement, refuse_statement, statement_error, statement_error_text,
    warn_of_statement,
};
pub use services::{
    peer_ip_allowed, peer_subject_allowed, wsrep_deinit_allowlist_service_v1,
    wsrep_deinit_config_service_v1, wsrep_deinit_connection_monitor_service_v1,
    wsrep_deinit_event_service_v1, wsrep_deinit_membership_service_v1,
    wsrep_deinit_thread_service_v1, wsrep_deinit_tls_service_v1, wsrep_init_allowlist_service_v1,
    wsrep_init_config_service_v1, wsrep_init_connection_monitor_service_v1,
    wsrep_init_event_service_v1, wsrep_init_membership_service_v1, wsrep_init_thread_service_v1,
    wsrep_init_tls_service_v1,
};
pub use table::{PROVIDER_NAME, PROVIDER_VENDOR, PROVIDER_VERSION, fill_table};
