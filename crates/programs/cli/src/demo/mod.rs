//! `synod demo …`: a cluster for experiments.
//!
//! The commands report their progress on standard error, and answer on standard output. Exit codes
//! are in the help text. What they do to servers is in `synod-local-cluster`.

mod text;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use synod_local_cluster::{
    Cluster, ClusterError, ClusterLock, Format, Result, Settings, SstFiles, SstMethod, random_hex,
};

use crate::number::number;
use crate::{keygen, sst_config, visible};

const SQL_TIMEOUT: Duration = Duration::from_secs(3600);

/// Parent of the cluster's directory when servers cannot reach the default one.
const FALLBACK_PARENT: &str = "/var/tmp";

/// Arguments of `synod demo`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct DemoArgs {
    /// Directory of the cluster [default: ./demo-data]
    #[arg(long, global = true, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(subcommand)]
    command: DemoCommand,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed, see the message
  2  wrong usage
  3  no such cluster or node
  4  refused in this state (running, not running, other settings, another command at work), or
     because the directory or its settings are another user's
  5  something is missing or taken (program, library, port, directory)
  6  a server did not start, stop or become synced
  For 'sql', a failing statement gives 1; 124 when it takes longer than an hour.";

#[derive(Debug, Subcommand)]
enum DemoCommand {
    /// Create the cluster, or start what is not running
    Up(UpArgs),
    /// Shut all nodes down (orderly shutdown); data stays
    Down,
    /// Show all nodes
    Status {
        /// JSON output: a list with one object per node
        #[arg(long)]
        json: bool,
    },
    /// Kill a node's server (SIGKILL), as a crash would
    Kill {
        /// Number of the node, from 1
        #[arg(value_parser = number::<u8, 1, 255>)]
        node: u8,
    },
    /// Start a node
    Start {
        /// Number of the node, from 1
        #[arg(value_parser = number::<u8, 1, 255>)]
        node: u8,
        /// How a node without data gets its full copy (SST); kept for later starts
        #[arg(long, value_enum)]
        sst_method: Option<SstArg>,
    },
    /// Shut a node down (orderly shutdown)
    Stop {
        /// Number of the node, from 1
        #[arg(value_parser = number::<u8, 1, 255>)]
        node: u8,
    },
    /// Run statements on a node, as administrator
    Sql {
        /// Number of the node, from 1
        #[arg(value_parser = number::<u8, 1, 255>)]
        node: u8,
        /// SQL, several statements separated by ';'
        statement: String,
    },
    /// Delete a stopped node's data: its next start is a full copy (SST)
    Wipe {
        /// Number of the node, from 1
        #[arg(value_parser = number::<u8, 1, 255>)]
        node: u8,
    },
    /// Kill all servers and remove the directory with all data
    Destroy,
}

#[derive(Debug, Args)]
struct UpArgs {
    /// Port of node 1 for SQL; 400 ports from it on are used [default: 13306]
    #[arg(long, value_name = "PORT", value_parser = number::<u16, 1, 65_535>)]
    base_port: Option<u16>,
    /// Number of nodes, 1 to 9 [default: 3]
    #[arg(long, value_name = "COUNT", value_parser = number::<u8, 1, 9>)]
    nodes: Option<u8>,
    /// The provider library [default: libsynod.so beside this program]
    #[arg(long, value_name = "FILE")]
    provider: Option<PathBuf>,
    /// How a node without data gets its full copy (SST) [default: rsync]
    #[arg(long, value_enum)]
    sst_method: Option<SstArg>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SstArg {
    Rsync,
    Mariabackup,
}

impl From<SstArg> for SstMethod {
    fn from(argument: SstArg) -> SstMethod {
        match argument {
            SstArg::Rsync => SstMethod::Rsync,
            SstArg::Mariabackup => SstMethod::Mariabackup,
        }
    }
}

pub fn run(arguments: &DemoArgs) -> Result<u8> {
    let dir = arguments
        .dir
        .clone()
        .unwrap_or_else(|| PathBuf::from("demo-data"));
    match &arguments.command {
        DemoCommand::Up(up) => run_up(&dir, arguments.dir.is_none(), up)?,
        DemoCommand::Status { json } => text::print_status(&Cluster::open(&dir)?, *json)?,
        DemoCommand::Sql { node, statement } => {
            return run_sql(&Cluster::open(&dir)?, *node, statement);
        }
        command => run_change(&dir, command)?,
    }
    Ok(0)
}

fn run_change(dir: &Path, command: &DemoCommand) -> Result<()> {
    let mut cluster = Cluster::open(dir)?;
    let _lock = ClusterLock::take(&cluster.settings().dir)?;
    let reporter = text::Reporter::new();
    let progress = |node: u8, what: &str| reporter.say(node, what);
    match command {
        DemoCommand::Down => run_down(&mut cluster, &progress),
        DemoCommand::Kill { node } => {
            let text = match cluster.kill(*node)? {
                Some(pid) => format!("killed node{node} (pid {pid}) with SIGKILL"),
                None => format!("node{node} was not running"),
            };
            answer(&text)
        }
        DemoCommand::Start { node, sst_method } => {
            if let Some(method) = sst_method {
                cluster.settings_mut().sst_method = (*method).into();
                cluster.settings().save()?;
            }
            let started = cluster.start(*node, &progress)?;
            answer(&text::started(*node, started))
        }
        DemoCommand::Stop { node } => {
            let was = if cluster.stop(*node)? {
                "has shut down"
            } else {
                "was not running"
            };
            answer(&format!("node{node} {was}"))
        }
        DemoCommand::Wipe { node } => {
            cluster.wipe(*node)?;
            answer(&format!(
                "deleted the data of node{node}; 'synod demo start {node}' brings it back by a \
                 full copy \
                 (SST)"
            ))
        }
        DemoCommand::Destroy => run_destroy(dir, &mut cluster),
        // Handled by the caller, without the lock or with another way to open the cluster.
        DemoCommand::Up(_) | DemoCommand::Status { .. } | DemoCommand::Sql { .. } => Ok(()),
    }
}

fn run_up(dir: &Path, is_default: bool, arguments: &UpArgs) -> Result<()> {
    let reporter = text::Reporter::new();
    let mut cluster = open_or_create(dir, is_default, arguments, &reporter)?;
    let _lock = ClusterLock::take(&cluster.settings().dir)?;
    if let Some(method) = arguments.sst_method {
        cluster.settings_mut().sst_method = method.into();
        cluster.settings().save()?;
    }
    cluster.up(&|node, what| reporter.say(node, what))?;
    text::print_status(&cluster, false)?;
    answer(&text::what_next(dir, is_default, &cluster))
}

fn run_down(cluster: &mut Cluster, progress: &dyn Fn(u8, &str)) -> Result<()> {
    if cluster.running_count() == 0 {
        return answer("nothing was running");
    }
    cluster.down(progress)?;
    answer("all nodes have shut down; 'synod demo up' starts them again")
}

fn run_destroy(dir: &Path, cluster: &mut Cluster) -> Result<()> {
    cluster.destroy()?;
    if dir.is_symlink() {
        // The link that stood in for the default directory.
        std::fs::remove_file(dir).map_err(|source| io_error("remove", dir, source))?;
    }
    answer(&format!("removed {}", cluster.settings().dir.display()))
}

fn run_sql(cluster: &Cluster, node: u8, statement: &str) -> Result<u8> {
    let status = cluster
        .sql_command(node, statement, Format::Table, SQL_TIMEOUT)?
        .status()
        .map_err(|source| io_error("start", Path::new("mariadb"), source))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.unwrap_or(1))
}

/// Opens the cluster, or makes a new one from the arguments and defaults.
fn open_or_create(
    dir: &Path,
    is_default: bool,
    arguments: &UpArgs,
    reporter: &text::Reporter,
) -> Result<Cluster> {
    match Cluster::open(dir) {
        Ok(cluster) => {
            check_same(cluster.settings(), arguments)?;
            Ok(cluster)
        }
        Err(ClusterError::NoCluster { .. }) => {
            let absolute = std::path::absolute(dir).map_err(|e| io_error("find", dir, e))?;
            match create(new_settings(absolute, arguments)?) {
                Err(ClusterError::Unreachable { user, .. }) if is_default => {
                    create_elsewhere(dir, arguments, &user, reporter)
                }
                other => other,
            }
        }
        Err(other) => Err(other),
    }
}

fn new_settings(dir: PathBuf, arguments: &UpArgs) -> Result<Settings> {
    let provider = match &arguments.provider {
        Some(path) => absolute(path)?,
        None => beside_this_program("libsynod.so")?,
    };
    let mut settings = Settings::new(dir, provider)?;
    settings.base_port = arguments.base_port.unwrap_or(settings.base_port);
    settings.nodes = arguments.nodes.unwrap_or(settings.nodes);
    settings.sst_method = arguments
        .sst_method
        .map_or(settings.sst_method, SstMethod::from);
    Ok(settings)
}

/// Makes a cluster whose members have a group secret, from which the encryption of its full copies
/// follows. Galera's library has neither.
fn create(mut settings: Settings) -> Result<Cluster> {
    if settings.is_galera() {
        return Cluster::create(settings);
    }
    let failed = |what: &Path, text: String| io_error("write", what, std::io::Error::other(text));
    let secret = keygen::new_secret().map_err(|e| failed(&settings.dir, e.to_string()))?;
    settings.group_secret = Some(secret.to_line());
    settings.encrypts_copies = true;
    let cluster = Cluster::create(settings)?;
    let files = SstFiles::of(&cluster.settings().dir);
    files.create(cluster.user())?;
    sst_config::write_files(&secret, &files.dir, &files)
        .map_err(|error| failed(&files.dir, error.to_string()))?;
    Ok(cluster)
}

/// The default directory may be closed to the servers' user, typically below `/root`. Then the
/// cluster gets a directory of its own elsewhere, and a link here, so that all later commands find
/// it.
fn create_elsewhere(
    dir: &Path,
    arguments: &UpArgs,
    user: &str,
    reporter: &text::Reporter,
) -> Result<Cluster> {
    // No other user can have made a directory of that name before.
    let name = format!("synod-demo-{}", random_hex(8)?);
    let elsewhere = Path::new(FALLBACK_PARENT).join(name);
    let cluster = create(new_settings(elsewhere.clone(), arguments)?)?;
    std::os::unix::fs::symlink(&elsewhere, dir).map_err(|e| io_error("link", dir, e))?;
    reporter.note(&format!(
        "servers run as user '{user}', who cannot reach {}: the cluster lives in {}, and {} links \
         there",
        std::path::absolute(dir).unwrap_or_default().display(),
        elsewhere.display(),
        dir.display(),
    ));
    Ok(cluster)
}

/// Refuses options that contradict what the cluster was created with.
fn check_same(settings: &Settings, arguments: &UpArgs) -> Result<()> {
    let differs = |name, stored: String, asked: String| ClusterError::SettingsDiffer {
        dir: settings.dir.clone(),
        name,
        stored,
        asked,
    };
    if let Some(port) = arguments
        .base_port
        .filter(|port| *port != settings.base_port)
    {
        return Err(differs(
            "--base-port",
            settings.base_port.to_string(),
            port.to_string(),
        ));
    }
    if let Some(nodes) = arguments.nodes.filter(|nodes| *nodes != settings.nodes) {
        return Err(differs(
            "--nodes",
            settings.nodes.to_string(),
            nodes.to_string(),
        ));
    }
    if let Some(path) = &arguments.provider {
        let asked = absolute(path)?;
        if asked != settings.provider {
            let stored = settings.provider.display().to_string();
            return Err(differs("--provider", stored, asked.display().to_string()));
        }
    }
    Ok(())
}

fn absolute(path: &Path) -> Result<PathBuf> {
    if !path.is_file() {
        return Err(ClusterError::ProviderMissing {
            path: path.to_owned(),
        });
    }
    std::path::absolute(path).map_err(|e| io_error("find", path, e))
}

fn beside_this_program(name: &str) -> Result<PathBuf> {
    let program = std::env::current_exe().map_err(|e| io_error("find", Path::new("synod"), e))?;
    let path = program.with_file_name(name);
    if path.is_file() {
        Ok(path)
    } else {
        Err(ClusterError::ProviderMissing { path })
    }
}

/// Prints an answer. A reader that has closed the pipe is no error.
fn answer(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{}", visible(text)) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(io_error("write", Path::new("standard output"), e))
        }
        _ => Ok(()),
    }
}

fn io_error(action: &'static str, path: &Path, source: std::io::Error) -> ClusterError {
    ClusterError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}
