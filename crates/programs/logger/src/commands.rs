//! Commands for a running logger: what `synod status` and the others get from it.

use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use synod_admin::conflict::Conflicts;
use synod_admin::protocol::{Answer, Reply, Request};
use synod_admin::status::{Server, Status};
use synod_commands::status::{OwnDatabase, of_node, with_name};
use synod_commands::{
    Answerer, CommandServer, EventLog, Surroundings, carry_out, remote_handler, unix_ms,
};
use synod_node::{Level, Node};

use crate::config::LoggerConfig;
use crate::output::Output;
use crate::run::Service;

/// Serves commands about a node until the returned server is stopped: of this machine by the
/// socket, of others by the node. Without the socket the logger works, so a failure is only logged.
pub(crate) fn serve(
    config: &LoggerConfig,
    node: &Arc<Node>,
    events: &Arc<EventLog>,
    service: &Arc<dyn Service>,
    output: &Output,
) -> CommandServer {
    let answered = Answered {
        node: node.clone(),
        events: events.clone(),
        service: service.clone(),
        name: config.name.clone(),
        log_dir: config.log_dir().display().to_string(),
    };
    let answer: Answerer = Arc::new(move |request| answered.answer(request));
    let process: Arc<dyn Surroundings> = Arc::new(LoggerProcess(output.clone()));
    node.serve_commands(remote_handler(answer.clone(), process.clone()));
    let server = CommandServer::default();
    if let Err(error) = server.begin(&config.log_dir(), answer, &process) {
        let text = format!("{error}. The program synod cannot reach this member from here");
        output.log(Level::Warning, &text);
    }
    server
}

struct Answered {
    node: Arc<Node>,
    events: Arc<EventLog>,
    service: Arc<dyn Service>,
    name: String,
    log_dir: String,
}

impl Answered {
    fn answer(&self, request: Request) -> Reply {
        if let Some(reply) = self.service.answer(&request) {
            return reply;
        }
        match request {
            Request::Status => Reply::Answer(Answer::Status(Box::new(self.status()))),
            Request::Events => Reply::Answer(Answer::Events(self.events.events())),
            // It has no clients whose transactions could lose.
            Request::Conflicts => Reply::Answer(Answer::Conflicts(Conflicts::default())),
            order => carry_out(Some(&self.node), order),
        }
    }

    fn status(&self) -> Status {
        let node = self.node.status();
        let (name, links) = (self.node.cluster_name(), self.node.links());
        let mut status = of_node(name, &node, &links, &OwnDatabase::default());
        status.at_unix_ms = unix_ms();
        status.log.dir = self.log_dir.clone();
        status.last_election = self
            .events
            .last_election()
            .map(|e| with_name(e, Some(&node)));
        status.server = Server {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            name: self.name.clone(),
            state: status.own().map_or("logger", |own| &*own.kind).to_owned(),
            trouble: None,
            // It has no database that could be read or written.
            committed_seqno: None,
            is_ready: false,
            is_mysql: false,
            takes_writes: false,
        };
        status
    }
}

/// The logger's process: its threads inherit the mask of signals.
struct LoggerProcess(Output);

impl Surroundings for LoggerProcess {
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        Builder::new().name(name.to_owned()).spawn(body)
    }

    fn log(&self, level: Level, text: &str) {
        self.0.log(level, text);
    }
}
