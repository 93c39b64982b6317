//! A member's process: a node, a host that keeps what is applied, and a socket for clients.
//!
//! The node is production code; the host stands for the provider and the server.

mod copy;
mod host;
mod join;
mod serve;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use synod_node::{
    CompressionChoice, DatabasePosition, GroupId, Limits, LogOptions, MemberConfig, Node,
    NodeConfig, OUR_VERSIONS, Seqno, StartMode, Timing, VoterPolicy,
};

use crate::database::Database;
use crate::parent::die_with;
use host::StoreHost;

/// The socket for clients, in the member's directory.
pub(crate) const CONTROL_SOCKET: &str = "control.sock";
/// Directory of the log, in the member's directory.
pub(crate) const LOG_DIR: &str = "log";
/// Size of a chunk in bytes; larger actions are split.
const CHUNK_BYTES: usize = 32 << 10;
/// Time between two writes to the database's file.
const FLUSH_PERIOD: Duration = Duration::from_millis(700);

/// A mistake in the host, to see whether the oracle finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Planted {
    /// Causal reads do not ask the group.
    LocalRead,
    /// Rows are not held while their transactions are under way.
    NoLocks,
}

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The member's directory.
    #[arg(long)]
    dir: PathBuf,
    /// Its name.
    #[arg(long)]
    name: String,
    /// Address at which it listens for its peers.
    #[arg(long)]
    address: String,
    /// Addresses at which the others listen.
    #[arg(long, value_delimiter = ',')]
    seeds: Vec<String>,
    /// Begin a new group.
    #[arg(long)]
    bootstrap: bool,
    /// `LogOptions::retain_bytes`.
    #[arg(long)]
    retain_bytes: u64,
    /// Process to end with.
    #[arg(long)]
    parent: i32,
    #[arg(long)]
    planted: Option<Planted>,
}

pub(crate) fn main(options: Options) -> ExitCode {
    die_with(options.parent);
    match start(options) {
        Ok(never) => match never {},
        Err(why) => {
            eprintln!("the member cannot run: {why}");
            ExitCode::FAILURE
        }
    }
}

type Failure = Box<dyn std::error::Error>;

fn start(options: Options) -> Result<std::convert::Infallible, Failure> {
    let log_dir = options.dir.join(LOG_DIR);
    fs::create_dir_all(&log_dir)?;
    let database = Database::open(&options.dir)?;
    let position = position_of(&database)?;
    eprintln!(
        "database of group '{}' at {}",
        database.group(),
        position.seqno
    );
    let host = Arc::new(StoreHost::new(database, options.planted));
    let mode = if options.bootstrap {
        StartMode::Bootstrap
    } else {
        StartMode::Join
    };
    let node = Node::start(config(&options, log_dir, position), mode, host.clone())?;
    host.attach(&node);
    flush_periodically(host.clone());
    serve::start(&options, node.clone(), host.clone())?;
    join::join(&options.dir, &node, &host)?;
    // The other threads work; they end with the process.
    loop {
        std::thread::park();
    }
}

fn position_of(database: &Database) -> Result<DatabasePosition, Failure> {
    Ok(match database.group() {
        "" => DatabasePosition::new(GroupId::NONE, Seqno::UNDEFINED),
        group => DatabasePosition::new(group.parse()?, Seqno(database.position())),
    })
}

fn config(options: &Options, log_dir: PathBuf, database: DatabasePosition) -> NodeConfig {
    NodeConfig {
        member: MemberConfig {
            name: options.name.clone(),
            cluster_name: "chaos".to_owned(),
            address: options.address.clone(),
            incoming: options.address.clone(),
            timing: Timing {
                heartbeat_us: 50_000,
                promise_us: 400_000,
                election_timeout_min_us: 700_000,
                election_timeout_max_us: 1_400_000,
                retry_us: 200_000,
            },
            limits: Limits::default(),
            suspect: Duration::from_secs(2),
            keeps_log_only: false,
            apply_lag_max: Duration::from_millis(200),
            certification_span: 100_000,
            has_data: true,
            region: None,
            wants_vote: true,
            voter_policy: VoterPolicy::default(),
            database,
            versions: OUR_VERSIONS,
            certificate: None,
        },
        listen: options.address.clone(),
        seeds: options.seeds.clone(),
        log_dir,
        log: LogOptions {
            segment_bytes: 1 << 20,
            cache_bytes: 1 << 20,
            retain_bytes: options.retain_bytes,
            // However large the disk of the test is.
            free_percent_min: 100,
            ..LogOptions::default()
        },
        chunk_bytes: CHUNK_BYTES,
        pending_bytes: 8 << 20,
        compression: CompressionChoice::Auto,
        flush_period: FLUSH_PERIOD,
        tls: None,
    }
}

fn flush_periodically(host: Arc<StoreHost>) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(FLUSH_PERIOD);
            host.flush();
        }
    });
}
