//! A logger's life: it starts, obeys signals, and leaves in an orderly shutdown.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use synod_admin::protocol::{Reply, Request};
use synod_node::{
    Consequence, GroupId, Level, LiveSetting, Node, NodeError, Remedy, StartMode, WritePermission,
};

use crate::commands;
use crate::config::{ConfigError, LoggerConfig};
use crate::directory::{self, DirectoryError};
use crate::host::LoggerHost;
use crate::output::Output;
use crate::signals::Signals;

/// A logger that was in no group before looks for one for so long. Later it waits without end: a
/// member of a group comes back by itself.
const SEARCH_LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) enum News {
    Stop,
    Reload,
    Failed { why: String, remedy: Remedy },
}

#[derive(Debug, thiserror::Error)]
pub enum LoggerError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error("{0}")]
    Start(#[from] NodeError),
    #[error("the system refused what this member needs: {0}. Free memory or raise its limits")]
    System(#[from] std::io::Error),
    #[error("{0}")]
    Service(String),
    #[error(
        "no group has admitted this member within {} s; the lines before say what each address in \
         'peers' answered. Start the servers there, or correct peers, cluster_name or the \
         credentials (synod.secret_file)",
        SEARCH_LIMIT.as_secs()
    )]
    NoGroup,
    #[error(
        "the log of this relay is of no group yet, and its file names no peers. Begin a group with \
         it, once: synod relay --config FILE --bootstrap. If there are other relays already, name \
         them in 'peers'"
    )]
    Alone,
    #[error("this member has stopped: {why}{}", advice(*remedy))]
    Failed { why: String, remedy: Remedy },
}

fn advice(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::Restart => ". Start it again once its disk works",
        Remedy::FullCopy | Remedy::Operator => "",
    }
}

impl LoggerError {
    /// Exit code: 1 if a later start may succeed as things are, 3 if an operator has to act first.
    pub fn exit_code(&self) -> u8 {
        match self {
            LoggerError::Config(_) | LoggerError::Directory(_) => 3,
            LoggerError::Start(error) => match error {
                // The port may be free later, and the other process may end.
                NodeError::Listen { .. } | NodeError::Thread { .. } | NodeError::Open(_) => 1,
                _ => 3,
            },
            LoggerError::Alone => 3,
            LoggerError::System(_) | LoggerError::Service(_) | LoggerError::NoGroup => 1,
            LoggerError::Failed { remedy, .. } => match remedy {
                Remedy::Restart => 1,
                Remedy::FullCopy | Remedy::Operator => 3,
            },
        }
    }
}

pub trait Service: Send + Sync {
    /// Begins, when the node runs. Waits for nothing. The error's text says what to do.
    fn begin(&self, node: &Arc<Node>, output: &Output) -> Result<(), String>;
    /// Ends what it began, if it did, and waits until that has ended. The node has stopped.
    fn end(&self);
    /// Whether this member may write has changed. It is called on the node's threads, also before
    /// [`Service::begin`], and returns at once.
    fn write_permission(&self, _permission: WritePermission) {}
    /// Words for a consequence, in texts for operators ([`synod_node::Host::consequence`]).
    fn consequence(&self, consequence: Consequence) -> &'static str {
        consequence.for_databases()
    }
    /// Answers a request of the program `synod` that is about this service; none: it is not.
    fn answer(&self, _request: &Request) -> Option<Reply> {
        None
    }
}

struct NoService;

impl Service for NoService {
    fn begin(&self, _node: &Arc<Node>, _output: &Output) -> Result<(), String> {
        Ok(())
    }

    fn end(&self) {}
}

pub fn run(file: &Path) -> Result<(), LoggerError> {
    let config = LoggerConfig::read(file)?;
    run_with(&config, StartMode::Join, Arc::new(NoService))
}

/// Runs a logger that serves besides, until a signal ends it. Only a relay may begin a group.
pub fn run_with(
    config: &LoggerConfig,
    mode: StartMode,
    service: Arc<dyn Service>,
) -> Result<(), LoggerError> {
    directory::prepare(&config.log_dir())?;
    // Before any thread: each inherits the mask.
    let signals = Signals::block()?;
    let output = Output::to_stderr();
    let writer = output.start()?;
    let ended = serve(config, mode, &service, signals, &output);
    output.stop();
    // It does not panic: it only writes.
    let _ = writer.join();
    ended
}

fn serve(
    config: &LoggerConfig,
    mode: StartMode,
    service: &Arc<dyn Service>,
    signals: Signals,
    output: &Output,
) -> Result<(), LoggerError> {
    for notice in &config.notices {
        output.log(Level::Warning, notice);
    }
    let (sender, news) = channel();
    signals.report_to(sender.clone())?;
    let events = Arc::default();
    let host = LoggerHost::new(
        output.clone(),
        sender,
        Arc::clone(&events),
        Arc::clone(service),
    );
    let node = Node::start(config.node(), mode, Arc::new(host))?;
    node.set(LiveSetting::LeaderPreference(config.leader_preference()));
    node.set(LiveSetting::FullLogPolicy(config.options.full_log_policy()));
    node.set(LiveSetting::InconsistencyPolicy(
        config.options.inconsistency_policy(),
    ));
    node.set(LiveSetting::RegionPatience(
        config.options.region_patience(),
    ));
    output.log(Level::Info, &greeting(config));
    let commands = commands::serve(config, &node, &events, service, output);
    let begun = service.begin(&node, output).map_err(LoggerError::Service);
    let ended = begun.and_then(|()| obey(&news, &node, config.peers.is_empty(), output));
    commands.stop();
    // Ends the waits of the service for the log.
    node.stop();
    service.end();
    ended
}

fn greeting(config: &LoggerConfig) -> String {
    format!(
        "member '{}' of cluster '{}' listens on {} and is reached at {}",
        config.name,
        config.cluster_name,
        config.options.listen_address(),
        config.address,
    )
}

/// Obeys until the end: an orderly shutdown, or a failure.
fn obey(
    news: &Receiver<News>,
    node: &Node,
    is_alone: bool,
    output: &Output,
) -> Result<(), LoggerError> {
    let search_ends = Instant::now() + SEARCH_LIMIT;
    loop {
        let event = if node.status().group == GroupId::NONE {
            let left = search_ends.saturating_duration_since(Instant::now());
            news.recv_timeout(left)
        } else {
            news.recv().map_err(RecvTimeoutError::from)
        };
        match event {
            Ok(News::Reload) => reload(node, output),
            Ok(News::Failed { why, remedy }) => return Err(LoggerError::Failed { why, remedy }),
            Err(RecvTimeoutError::Timeout) if node.status().group == GroupId::NONE => {
                return Err(match is_alone {
                    true => LoggerError::Alone,
                    false => LoggerError::NoGroup,
                });
            }
            // It has found its group meanwhile.
            Err(RecvTimeoutError::Timeout) => {}
            // The thread that waits for signals keeps a sender until the process ends.
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Ok(News::Stop) => {
                output.log(Level::Info, "leaving the group, as ordered by a signal");
                node.leave();
                output.log(Level::Info, "this member has left");
                return Ok(());
            }
        }
    }
}

fn reload(node: &Node, output: &Output) {
    match node.reload_tls() {
        Ok(()) => output.log(Level::Info, "the credentials were read again (SIGHUP)"),
        Err(error) => {
            let text =
                format!("the credentials in use stay, because the new ones are wrong: {error}");
            output.log(Level::Error, &text);
        }
    }
}
