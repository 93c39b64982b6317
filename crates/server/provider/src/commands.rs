//! Commands of operators: what the answers of a server are made of. The threads that serve clients,
//! and the answers that follow from the node alone, are the crate `synod-commands`'.

pub(crate) use synod_commands::{CommandServer, EventLog};

use std::io;
use std::thread::JoinHandle;
use std::time::Instant;

use synod_admin::protocol::{Answer, Reply, Request};
use synod_admin::status::{Counters, Server, Status};
use synod_commands::recovery::plan;
use synod_commands::status::{OwnDatabase, name_of, of_node, with_name};
use synod_commands::{BOUNDS_US, Surroundings, carry_out, unix_ms};
use synod_node::{Level, MemberStatus};

use crate::api::{Callbacks, LogLevel};
use crate::boundary;
use crate::provider::Provider;
use crate::status::inputs::{GroupStatus, LocalState, StatusInputs};

pub(crate) fn answer(provider: &Provider, request: Request) -> Reply {
    match request {
        Request::Status => Reply::Answer(Answer::Status(Box::new(status(provider)))),
        Request::Events => Reply::Answer(Answer::Events(provider.events())),
        Request::Conflicts => {
            let members = provider.running_node().map(|node| node.status().members);
            let name = |member| name_of(members.as_deref().unwrap_or_default(), member);
            let conflicts = provider.counters().conflicts.shown(name);
            Reply::Answer(Answer::Conflicts(conflicts))
        }
        Request::RecoveryPlan => recovery_plan(provider),
        order => carry_out(provider.running_node().as_deref(), order),
    }
}

pub(crate) struct ServerProcess(pub(crate) Callbacks);

impl Surroundings for ServerProcess {
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        boundary::spawn(name, body)
    }

    fn log(&self, level: Level, text: &str) {
        let level = match level {
            Level::Debug => LogLevel::Debug,
            Level::Info => LogLevel::Info,
            Level::Warning => LogLevel::Warn,
            Level::Error => LogLevel::Error,
        };
        self.0.log(level, text);
    }
}

/// The status: what the node knows, and what `SHOW STATUS` shows.
fn status(provider: &Provider) -> Status {
    let connection = provider.newest_connection();
    let inputs = provider.status_inputs(connection.as_deref());
    let node = provider.running_node().map(|node| (node.status(), node));
    let mut members: &[MemberStatus] = &[];
    let mut status = Status::default();
    if let Some((node, running)) = &node {
        members = &node.members;
        let (name, links) = (running.cluster_name(), running.links());
        status = of_node(name, node, &links, &database(&inputs));
    }
    let now = unix_ms();
    status.at_unix_ms = now;
    status.server = server(provider, &inputs);
    let measured = &provider.counters().steps;
    status.commit_steps = measured.shown(Instant::now(), provider.stats_period());
    status.commits = measured.commit_times();
    status.time_bounds_us = BOUNDS_US.to_vec();
    status.counters = counters(&inputs);
    status.log.dir = provider.log_dir().display().to_string();
    status.queues.open_transactions = count(inputs.open_transactions);
    let known = node.as_ref().map(|(node, _)| node);
    status.last_election = provider.last_election().map(|e| with_name(e, known));
    let name = |member| name_of(members, member);
    status.conflicts = provider.counters().conflicts.shown(name);
    status
}

fn database(inputs: &StatusInputs) -> OwnDatabase {
    OwnDatabase {
        state: Some(inputs.state.comment().to_owned()),
        committed_seqno: committed_seqno(inputs),
        apply_queue: Some(count(inputs.recv_queue)),
    }
}

fn committed_seqno(inputs: &StatusInputs) -> Option<i64> {
    let committed = inputs.last_committed.seqno;
    (committed >= 0).then_some(committed)
}

fn server(provider: &Provider, inputs: &StatusInputs) -> Server {
    let group = inputs.group.as_ref();
    let is_primary = group.is_some_and(|group| group.node.primary);
    Server {
        program: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        name: provider.server_name().to_owned(),
        state: inputs.state.comment().to_owned(),
        trouble: Some(inputs.trouble.text()).filter(|text| !text.is_empty()),
        committed_seqno: committed_seqno(inputs),
        is_ready: is_primary && inputs.state == LocalState::Synced,
        is_mysql: false,
        takes_writes: group.is_some_and(|group| group.takes_writes),
    }
}

fn counters(inputs: &StatusInputs) -> Counters {
    let (counted, group) = (&inputs.counters, inputs.group.as_ref());
    Counters {
        local_commits: count(counted.local_commits),
        local_refused: count(counted.local_cert_failures),
        local_replays: count(counted.local_replays),
        writes_refused: count(counted.writes_refused),
        replicated_actions: count(counted.replicated),
        replicated_bytes: count(counted.replicated_bytes),
        received_actions: count(counted.received),
        received_bytes: count(counted.received_bytes),
        causal_reads: count(counted.causal_reads),
        refused_messages: group.map_or(0, |group| group.node.refused_messages),
        compression_saved_bytes: count(group.map_or(0, GroupStatus::compression_saved_bytes)),
    }
}

/// A number of things, which is never negative.
fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn recovery_plan(provider: &Provider) -> Reply {
    let (position, node) = (provider.position(), provider.running_node());
    plan(node.as_deref(), provider.server_name(), |own| {
        own.defects = position.defects();
        own.is_marked = position.record().needs_copy();
    })
}
