//! Commands of operators: what the program `synod` and its agent get from this server. The threads
//! that serve them are the crate `synod-commands`'.

use std::io;
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use synod_admin::protocol::{Answer, Reason, Reply, Request};
use synod_admin::status::{Counters, Server, Status};
use synod_commands::status::{OwnDatabase, of_node, with_name};
use synod_commands::{
    Answerer, BOUNDS_US, NOT_CONNECTED, Surroundings, carry_out, recovery, remote_handler, unix_ms,
};
use synod_node::{DataState, Level, NodeStatus};

use crate::host::Member;
use crate::status::Stage;

/// Reason for the request for lost transactions: they are not kept.
const NO_CONFLICTS: &str = "a server of MySQL keeps no list of conflicts: one server of the group \
                            writes, so transactions do not conflict. A refused one has got error \
                            3101; SHOW GLOBAL STATUS LIKE 'Synod_refused' counts them";

impl Member {
    /// Serves commands from now on: of this machine by the socket, of others by the node. Without
    /// the socket the server works, so a failure is only logged.
    pub(crate) fn serve_commands(self: &Arc<Member>) {
        let itself = Arc::downgrade(self);
        let answer: Answerer = Arc::new(move |request| match itself.upgrade() {
            Some(member) => member.answer(request),
            None => Reply::refused(Reason::NotConnected, NOT_CONNECTED),
        });
        let process: Arc<dyn Surroundings> = Arc::new(ServerProcess(Arc::downgrade(self)));
        let handler = remote_handler(answer.clone(), process.clone());
        self.node().serve_commands(handler);
        let begun = self
            .command_server
            .begin(&self.settings.log_dir(), answer, &process);
        if let Err(error) = begun {
            let text = format!("{error}. The program synod cannot reach this server");
            self.log(Level::Warning, text);
        }
    }

    fn answer(&self, request: Request) -> Reply {
        let node = self.node();
        match request {
            Request::Status => Reply::Answer(Answer::Status(Box::new(self.full_status()))),
            Request::Events => Reply::Answer(Answer::Events(self.events.events())),
            Request::Conflicts => Reply::refused(Reason::Refused, NO_CONFLICTS),
            Request::RecoveryPlan => recovery::plan(Some(node), self.settings.name(), |_| ()),
            order => carry_out(Some(node), order),
        }
    }

    pub(crate) fn full_status(&self) -> Status {
        let running = self.node();
        let (node, own) = (running.status(), self.status());
        let state = self.state_in_words(&node);
        let lacks = node.commit_seqno.0.saturating_sub(own.applied);
        let database = OwnDatabase {
            state: Some(state.to_owned()),
            committed_seqno: Some(own.applied),
            apply_queue: Some(u64::try_from(lacks).unwrap_or(0)),
        };
        let mut status = of_node(running.cluster_name(), &node, &running.links(), &database);
        status.at_unix_ms = unix_ms();
        status.server = Server {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            name: self.settings.name().to_owned(),
            state: state.to_owned(),
            trouble: Some(own.problem).filter(|text| !text.is_empty()),
            committed_seqno: Some(own.applied),
            is_ready: node.primary && state == SYNCED,
            is_mysql: true,
            takes_writes: node.primary && state == SYNCED && node.leader == Some(node.member),
        };
        status.counters = Counters {
            local_commits: own.ordered,
            writes_refused: own.refused,
            ..Counters::default()
        };
        status.commit_steps = self.steps.shown(Instant::now(), self.stats_period());
        status.commits = self.steps.commit_times();
        status.time_bounds_us = BOUNDS_US.to_vec();
        status.log.dir = self.settings.log_dir().display().to_string();
        let election = self.events.last_election();
        status.last_election = election.map(|election| with_name(election, Some(&node)));
        status
    }

    /// State of the database. A leader that does not take writes yet is not synced: it applies what
    /// was committed before it led.
    fn state_in_words(&self, node: &NodeStatus) -> &'static str {
        let leads = node.leader == Some(node.member);
        let state = self.lock();
        match (state.stage, state.data) {
            (Stage::Stopped, _) => "Disconnected",
            (Stage::Stuck | Stage::Failed, _) => "Inconsistent",
            (Stage::Joining, _) => "Joining",
            (Stage::Following, DataState::Synced) if !leads || state.is_open == Some(true) => {
                SYNCED
            }
            (Stage::Following | Stage::Blocked, _) => "Joined",
        }
    }
}

const SYNCED: &str = "Synced";

/// The server's process and its error log. It blocks signals in all threads but one of its own, and
/// new threads have that from those that start them.
struct ServerProcess(Weak<Member>);

impl Surroundings for ServerProcess {
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        Builder::new().name(name.to_owned()).spawn(body)
    }

    fn log(&self, level: Level, text: &str) {
        if let Some(member) = self.0.upgrade() {
            member.log(level, text);
        }
    }
}
