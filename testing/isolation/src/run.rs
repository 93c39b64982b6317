//! One run: a group, clients, faults, and the verdict.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use synod_e2e::logger::Logger;
use synod_e2e::programs::new_group_secret;
use synod_e2e::{Failure, Outcome, TestCluster, Why, agreement, ensure, place};
use synod_local_cluster::ports::Ports;

use crate::checker::anomaly::{Anomaly, Kind, Promise};
use crate::checker::check;
use crate::checker::history::{Outcome as End, Transaction};
use crate::clients::{Clients, Settings, USER};
use crate::faults::{Fault, Faults};
use crate::network::Network;
use crate::workload::Workload;

/// Bound of the statements that make tables.
const SQL_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Args)]
pub struct Options {
    /// The transactions of the clients.
    #[arg(long, value_enum)]
    pub workload: Workload,
    #[arg(long, default_value_t = 60)]
    pub seconds: u64,
    #[arg(long, value_enum, value_delimiter = ',')]
    pub faults: Vec<Fault>,
    /// Decides about faults and statements; another one each time, which is printed.
    #[arg(long)]
    pub seed: Option<u64>,
    #[arg(long, default_value_t = 9)]
    pub clients: u32,
    #[arg(long, default_value_t = 3)]
    pub nodes: u8,
    /// wsrep_sync_wait=1: reads show what was acknowledged anywhere before.
    #[arg(long)]
    pub causal: bool,
    /// synod.max_staleness in milliseconds, with wsrep_sync_wait=1: reads show what was
    /// acknowledged anywhere longer before.
    #[arg(long, default_value_t = 0)]
    pub max_staleness: u64,
    /// synod.commit_wait=applied. Without faults, reads show what was acknowledged before.
    #[arg(long)]
    pub commit_wait: bool,
    /// synod.writers=leader.
    #[arg(long)]
    pub one_writer: bool,
    /// A logger in the quorum, beside the nodes.
    #[arg(long)]
    pub logger: bool,
    /// Each statement of a transaction is a fragment of its own.
    #[arg(long)]
    pub streamed: bool,
    /// Lists begin with an INSERT ... ON DUPLICATE KEY UPDATE, not as empty rows.
    #[arg(long)]
    pub upserts: bool,
    /// innodb_snapshot_isolation=OFF, the default of MariaDB 10.11.
    #[arg(long)]
    pub no_snapshot_isolation: bool,
    /// More options of the library, as in wsrep_provider_options.
    #[arg(long)]
    pub provider_options: Option<String>,
    /// Another library than Synod's: Galera's, as a control.
    #[arg(long)]
    pub provider: Option<PathBuf>,
    /// Writes the history into this file.
    #[arg(long)]
    pub history: Option<PathBuf>,
    #[arg(long, default_value_t = 26306)]
    pub base_port: u16,
}

impl Options {
    fn is_causal(&self) -> bool {
        self.causal || self.max_staleness > 0
    }
}

/// Outcome of a run.
#[derive(Debug)]
pub struct Report {
    /// Transactions committed, refused, and of unknown outcome.
    pub counts: [usize; 3],
    pub anomalies: Vec<Anomaly>,
    pub promise: Promise,
    /// Why the group did not come back, or its databases differ.
    pub trouble: Option<Failure>,
}

impl Report {
    pub fn count(&self, kind: Kind) -> usize {
        self.anomalies
            .iter()
            .filter(|anomaly| anomaly.kind == kind)
            .count()
    }

    /// Whether nothing happened that the promise excludes.
    pub fn is_good(&self) -> bool {
        let broken = self
            .anomalies
            .iter()
            .any(|anomaly| self.promise.excludes(anomaly.kind));
        !broken && self.trouble.is_none() && self.counts[0] > 0
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [committed, refused, unknown] = self.counts;
        writeln!(
            f,
            "  {committed} committed, {refused} refused, {unknown} unknown"
        )?;
        let mut smallest: BTreeMap<Kind, &Anomaly> = BTreeMap::new();
        for anomaly in &self.anomalies {
            let best = smallest.entry(anomaly.kind).or_insert(anomaly);
            if anomaly.witness.len() < best.witness.len() {
                *best = anomaly;
            }
        }
        for (kind, anomaly) in smallest {
            let count = self.count(kind);
            if self.promise.excludes(kind) {
                writeln!(f, "  ANOMALY {kind}: {count}; the smallest:")?;
                for line in &anomaly.witness {
                    writeln!(f, "    {line}")?;
                }
            } else {
                writeln!(
                    f,
                    "  not promised: {kind}: {count}, e.g. {}",
                    anomaly.witness[0]
                )?;
            }
        }
        match &self.trouble {
            Some(Failure(why)) => writeln!(f, "  TROUBLE {why}"),
            None => Ok(()),
        }
    }
}

/// Runs a group with clients and faults, and checks what the clients saw.
///
/// # Errors
/// When the group could not be made or read. What it did wrong is in the report.
pub fn run(options: &Options) -> Outcome<Report> {
    let seed = options.seed.unwrap_or_else(place::seed);
    eprintln!(
        "{:?}, {} s, faults {:?}, seed {seed}",
        options.workload, options.seconds, options.faults
    );
    let needs_network = options.faults.iter().any(|fault| fault.needs_network());
    ensure(!(needs_network && options.logger), || {
        "a logger is on this machine's own address, and cannot be cut off".to_owned()
    })?;
    let network = needs_network
        .then(|| Network::create(options.nodes))
        .transpose()?;
    let (mut cluster, logger) = start(options, network.as_ref())?;
    for sql in tables(options) {
        cluster.query(1, &sql, SQL_TIMEOUT).why(&sql)?;
    }
    let made = options.workload.tables(options.upserts);
    let table = made[0].split(' ').nth(4).unwrap_or_default();
    for node in cluster.nodes() {
        // A client must not find the table without its rows.
        let sql = format!("SET wsrep_sync_wait = 1; SELECT COUNT(*) FROM {USER}.{table}");
        cluster.query(node, &sql, SQL_TIMEOUT).why(&sql)?;
    }
    let settings = cluster.settings();
    let server = |node| {
        (
            node,
            (
                settings.address(node),
                Ports::of(settings.base_port, node).sql,
            ),
        )
    };
    let servers = cluster.nodes().map(server).collect();
    let mut clients = Clients::start(
        Settings {
            workload: options.workload,
            servers,
            causal: options.is_causal(),
            // Another server may lack what this one has shown.
            is_ordered_across_servers: options.max_staleness == 0 && options.causal,
            streamed: options.streamed,
            upserts: options.upserts,
            seed,
        },
        options.clients,
    );
    let mut faults = Faults::new(options.faults.clone(), seed, network, logger);
    let mut trouble = faults
        .run(&mut cluster, Duration::from_secs(options.seconds))
        .err();
    if let Some(Failure(why)) = &trouble {
        eprintln!("  TROUBLE {why}\n{}", cluster.describe());
    }
    clients.stop();
    if options.max_staleness > 0 {
        // The last reads are to show everything.
        for node in cluster.nodes() {
            let sql = "SET GLOBAL wsrep_provider_options = 'synod.max_staleness=0'";
            cluster.query(node, sql, SQL_TIMEOUT).why(sql)?;
        }
    }
    let history = clients.finish()?;
    let nodes: Vec<u8> = cluster.nodes().collect();
    trouble = trouble.or(agreement::check(&cluster, &nodes).err());
    if let Some(path) = &options.history {
        let mut text = String::new();
        for (at, transaction) in history.iter().enumerate() {
            let _ = writeln!(text, "T{at}: {transaction}");
        }
        std::fs::write(path, text).why(path.display())?;
    }
    eprintln!(
        "  faults: {:?}; {} transactions",
        faults.counts,
        history.len()
    );
    Ok(report(options, &history, trouble))
}

fn report(options: &Options, history: &[Transaction], trouble: Option<Failure>) -> Report {
    let count = |end| {
        let clients = history.iter().filter(|transaction| !transaction.is_final);
        clients
            .filter(|transaction| transaction.outcome == end)
            .count()
    };
    Report {
        counts: [
            count(End::Committed),
            count(End::Refused),
            count(End::Unknown),
        ],
        anomalies: check(history, 1000 * options.max_staleness),
        promise: Promise {
            level: options.workload.level(),
            // With commit_wait, a write without an acknowledgement may be seen on one server.
            real_time: options.is_causal(),
        },
        trouble,
    }
}

fn start(options: &Options, network: Option<&Network>) -> Outcome<(TestCluster, Option<Logger>)> {
    let provider = options.provider.clone().map_or_else(place::provider, Ok)?;
    let (port, nodes) = (options.base_port, options.nodes);
    let mut cluster = TestCluster::with_provider("isolation", port, nodes, provider)?;
    let mut words = Vec::new();
    words.extend(options.commit_wait.then_some("synod.commit_wait=applied"));
    words.extend(options.one_writer.then_some("synod.writers=leader"));
    let staleness = format!("synod.max_staleness={}ms", options.max_staleness);
    words.extend((options.max_staleness > 0).then_some(staleness.as_str()));
    words.extend(options.provider_options.as_deref());
    let all: Vec<u8> = cluster.nodes().collect();
    let settings = cluster.settings_mut();
    settings.provider_options = words.join(";");
    for node in all {
        if let Some(network) = network {
            settings.hosts.insert(node, network.host(node));
        }
        if options.no_snapshot_isolation {
            let own = settings.overrides.entry(node).or_default();
            own.extra_lines
                .push("innodb_snapshot_isolation = OFF".to_owned());
        }
    }
    let secret = new_group_secret()?;
    settings.group_secret = (!settings.is_galera()).then(|| secret.trim().to_owned());
    cluster.up(&|_, _| ()).why("starting the servers")?;
    if !options.logger {
        return Ok((cluster, None));
    }
    let mut logger = Logger::beside(&cluster, "witness", &secret)?;
    logger.join()?;
    Ok((cluster, Some(logger)))
}

fn tables(options: &Options) -> Vec<String> {
    let mut statements = vec![format!(
        "CREATE DATABASE {USER};
         CREATE USER '{USER}'@'%' IDENTIFIED BY '{USER}';
         GRANT ALL ON *.* TO '{USER}'@'%'"
    )];
    let tables = options.workload.tables(options.upserts);
    statements.extend(tables.iter().map(|table| format!("USE {USER}; {table}")));
    statements
}
