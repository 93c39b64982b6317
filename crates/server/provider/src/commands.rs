//! Commands of operators: what the answers of a server are made of. The threads that serve clients,
//! and the answers that follow from the node alone, are the crate `synod-commands`'.

pub(crate) use synod_commands::{CommandServer, EventLog};

use std::io;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use synod_admin::protocol::{Answer, Reason, Reply, Request};
use synod_admin::recovery::{Holdings, Recovery, Survivor};
use synod_admin::status::{Counters, Server, Status};
use synod_commands::status::{OwnDatabase, name_of, of_node, with_name};
use synod_commands::{NOT_CONNECTED, Surroundings, carry_out, unix_ms};
use synod_node::{GroupId, Level, MemberStatus, Node, NodeStatus, SurvivorReport};

use crate::api::{Callbacks, LogLevel};
use crate::boundary;
use crate::provider::Provider;
use crate::status::inputs::{GroupStatus, LocalState, StatusInputs};
use crate::status::times::BOUNDS_US;

/// Longest wait for the first calls to the voters, and the time between two looks.
const FIRST_CALLS: Duration = Duration::from_secs(8);
const LOOK: Duration = Duration::from_millis(50);

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

/// Threads without signals, and the server's error log.
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
    let is_primary = inputs
        .group
        .as_ref()
        .is_some_and(|group| group.node.primary);
    Server {
        program: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        name: provider.server_name().to_owned(),
        state: inputs.state.comment().to_owned(),
        trouble: Some(inputs.trouble.text()).filter(|text| !text.is_empty()),
        committed_seqno: committed_seqno(inputs),
        is_ready: is_primary && inputs.state == LocalState::Synced,
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
    let Some(node) = provider.running_node() else {
        return Reply::refused(Reason::NotConnected, NOT_CONNECTED);
    };
    let status = after_first_calls(&node);
    if status.group == GroupId::NONE {
        let text = "this server belongs to no group yet: nothing of it can be recovered here";
        return Reply::refused(Reason::NotConnected, text);
    }
    let mut recovery = recovery(provider.server_name(), node.cluster_name(), &status);
    for own in recovery.members.iter_mut().filter(|member| member.is_own) {
        own.defects = provider.position().defects();
        own.is_marked = provider.position().record().needs_copy();
    }
    Reply::Answer(Answer::Recovery(Box::new(recovery)))
}

/// Status once the first call to each voter has ended, or has lasted too long. A server that has
/// just started knows no more of the others until then.
fn after_first_calls(node: &Node) -> NodeStatus {
    let deadline = Instant::now() + FIRST_CALLS;
    loop {
        let status = node.status();
        if !status.is_calling || Instant::now() >= deadline {
            return status;
        }
        std::thread::sleep(LOOK);
    }
}

fn recovery(server: &str, group: &str, node: &NodeStatus) -> Recovery {
    let now = unix_ms();
    let mut members: Vec<Survivor> = node
        .members
        .iter()
        .map(|member| survivor(node, member, now))
        .collect();
    members.sort_by(|a, b| a.name.cmp(&b.name));
    Recovery {
        at_unix_ms: now,
        server: server.to_owned(),
        group_id: node.group.to_string(),
        group: group.to_owned(),
        is_primary: node.primary,
        unheard: node.unheard.clone(),
        members,
    }
}

fn survivor(node: &NodeStatus, member: &MemberStatus, now: u64) -> Survivor {
    let known = node.survivors.iter().find(|s| s.member == member.member);
    let report = known.and_then(|s| s.report.as_ref());
    let mut presence = node.presence.iter();
    let seen = presence.find(|p| p.member == member.member);
    let heard = seen.and_then(|p| p.silent_for);
    Survivor {
        id: member.member.to_string(),
        name: member.name.clone(),
        address: member.address.clone(),
        is_own: member.member == node.member,
        is_voter: member.voter,
        has_database: member.has_data,
        heard_unix_ms: heard.map(|ago| before(now, ago)),
        has: report.map(|report| holdings(&node.members, report, now)),
        defects: Vec::new(),
        is_marked: false,
    }
}

fn holdings(members: &[MemberStatus], report: &SurvivorReport, now: u64) -> Holdings {
    let incomplete = report.incomplete_us.map(Duration::from_micros);
    let applied = report.applied.0;
    Holdings {
        last_term: report.last.term.0,
        last_index: report.last.index.0,
        durable_index: report.durable.0,
        commit_index: report.commit.0,
        stated_index: report.stated.0,
        complete_unix_ms: incomplete.map(|ago| before(now, ago)),
        applied_seqno: (applied >= 0).then_some(applied),
        is_under_repair: report.is_under_repair,
        leader: report.leader.map(|leader| name_of(members, leader)),
    }
}

/// So long before a time, in milliseconds.
fn before(now: u64, ago: Duration) -> u64 {
    let ago = u64::try_from(ago.as_millis()).unwrap_or(u64::MAX);
    now.saturating_sub(ago)
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_node::{
        LogIndex, MemberId, MemberPresence, Presence, Seqno, SurvivorStatus, VersionRange,
    };

    fn configured(id: u64, name: &str) -> MemberStatus {
        MemberStatus {
            member: MemberId(id),
            session: None,
            name: name.into(),
            address: format!("{name}:4567"),
            voter: true,
            leader_weight: None,
            region: None,
            has_data: true,
            versions: VersionRange { min: 1, max: 5 },
        }
    }

    #[test]
    fn survivor_has_what_it_reports_and_a_silent_member_nothing() {
        let report = SurvivorReport {
            durable: LogIndex(9),
            incomplete_us: Some(2_000_000),
            applied: Seqno::UNDEFINED,
            leader: Some(MemberId(2)),
            ..SurvivorReport::default()
        };
        let node = NodeStatus {
            member: MemberId(1),
            members: vec![configured(1, "db1"), configured(2, "db2")],
            survivors: vec![
                SurvivorStatus {
                    member: MemberId(1),
                    report: Some(report),
                },
                SurvivorStatus {
                    member: MemberId(2),
                    report: None,
                },
            ],
            presence: vec![MemberPresence {
                member: MemberId(2),
                presence: Presence::Absent,
                silent_for: Some(Duration::from_secs(60)),
                readers_at: None,
            }],
            ..NodeStatus::default()
        };
        let found = recovery("db1", "group", &node);
        let [own, silent] = found.members.as_slice() else {
            panic!("{found:?}");
        };
        let has = own.has.as_ref().unwrap();
        assert!(own.is_own && has.durable_index == 9);
        assert_eq!(has.complete_unix_ms, Some(found.at_unix_ms - 2000));
        assert_eq!(
            (has.applied_seqno, has.leader.as_deref()),
            (None, Some("db2"))
        );
        assert_eq!(silent.has, None);
        assert_eq!(silent.heard_unix_ms, Some(found.at_unix_ms - 60_000));
    }
}
