//! `synod-lab certify`: the command line of the certificate.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::Args;

use super::servers::ServerArgs;
use super::{PlaceArgs, say};
use crate::certify::compare::compare;
use crate::certify::plan::{Fault, cells, is_certifiable};
use crate::certify::record::{Certificate, FORMAT};
use crate::certify::site::Site;
use crate::certify::{self, Plan};
use crate::error::{IoContext, LabError, Result};
use crate::hosts::SERVERS_MAX;
use crate::network::Network;
use crate::report::certificate::{markdown, page};
use crate::systems::agent::Agent;
use crate::systems::configuration;
use crate::systems::kind::{MeasuredSystem, SystemKind};
use crate::topology::Topology;

/// Programs without which no fault of a disk can be made.
const PROGRAMS: [(&str, &str); 4] = [
    ("python3", "python3"),
    ("mkfs.ext4", "e2fsprogs"),
    ("fsfreeze", "util-linux"),
    ("mount", "mount"),
];

const FILE: &str = "certificate.json";

/// Arguments of `synod-lab certify`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct CertifyArgs {
    /// Systems, one after the other: synod, synod-logger (two servers and a logger), galera,
    /// galera-flush1, semisync; of MySQL synod-mysql, mgr, mgr-after, mgr-single-leader,
    /// mysql-semisync
    #[arg(long, value_delimiter = ',', default_value = "synod")]
    systems: Vec<MeasuredSystem>,
    /// A dozen faults, one round: some ten minutes for each system. Otherwise every fault of every
    /// target, three rounds: a night
    #[arg(long)]
    short: bool,
    /// How often each fault is made [default: 1 with --short, or else 3]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: Option<u32>,
    /// Only these: kill, stop, cut-one-way, cut, hung-disk, slow-disk, full-disk, power-loss,
    /// disk-loss, hand-over, rolling-restart, upgrade
    #[arg(long, value_delimiter = ',')]
    faults: Vec<Fault>,
    /// Synod's library that 'upgrade' gives the servers, such as that of 'make build-next-version';
    /// a logger keeps its program
    #[arg(long, value_name = "FILE")]
    next_library: Option<PathBuf>,
    /// Directory for certificate.json and certificate.html
    #[arg(long, value_name = "DIR", required_unless_present = "compare")]
    out: Option<PathBuf>,
    /// Chooses the followers that are hit, and the moments [default: the time]
    #[arg(long)]
    seed: Option<u64>,
    /// Time after a repair within which a system has to come back by itself
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    patience: u64,
    /// same-dc, three-dc, two-region, three-region, or a file
    #[arg(long, value_name = "NAME|FILE", default_value = "three-dc")]
    topology: String,
    /// Run the servers on these test machines, as root by SSH, and clients on this one; synod only;
    /// docs/certificate.md says what they need
    #[arg(
        long,
        value_name = "HOST,HOST,HOST",
        value_delimiter = ',',
        conflicts_with = "topology"
    )]
    hosts: Vec<String>,
    /// Show what changed from one run to another (directories or files); code 1: it is worse
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"], exclusive = true)]
    compare: Option<Vec<PathBuf>>,
    #[command(flatten)]
    servers: ServerArgs,
}

const EXAMPLE: &str = "\
Exit code 1: Synod lost what it had acknowledged, answered wrongly, or needed a person.

  synod-lab certify --systems synod,synod-logger,galera,mgr --short --out certificate

docs/certificate.md says what is counted, and what came out.";

pub(super) fn run(place: &PlaceArgs, arguments: &CertifyArgs) -> Result<u8> {
    if let Some([before, after]) = arguments.compare.as_deref() {
        let comparison = compare(&read(before)?, &read(after)?);
        for line in comparison.lines {
            say(&line);
        }
        for line in &comparison.regressions {
            say(&format!("WORSE: {line}"));
        }
        return Ok(u8::from(!comparison.regressions.is_empty()));
    }
    let topology = Topology::find(&arguments.topology)?;
    let lab = place.place()?;
    let setup = arguments
        .servers
        .setup(&lab, arguments.next_library.as_deref())?;
    for system in &arguments.systems {
        check(*system, &arguments.hosts)?;
        configuration::check(system.kind, &setup)?;
    }
    for (program, package) in PROGRAMS {
        synod_local_cluster::find_program(program, package)?;
    }
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let plan = Plan {
        systems: arguments.systems.clone(),
        cells: cells(arguments.short, &arguments.faults),
        rounds: arguments
            .rounds
            .unwrap_or(if arguments.short { 1 } else { 3 }),
        seed: arguments.seed.unwrap_or(now.as_secs()),
        patience: Duration::from_secs(arguments.patience),
    };
    let out = arguments.out.clone().unwrap_or_default();
    fs::create_dir_all(&out).context("create", &out)?;
    let own = place.take()?;
    let keep = |certificate: &Certificate| write(&out, certificate);
    let progress = |line: &str| eprintln!("{line}");
    let certificate = match arguments.hosts.as_slice() {
        [] => {
            let network = Network::create(own, topology.servers, &setup.program)?;
            let site = Site::Lab(&network, &topology);
            certify::run(&plan, &setup, site, &keep, &progress)?
        }
        hosts => {
            let start = |(number, host)| Agent::start(host, number, &setup).map(Arc::new);
            let named = hosts.iter().map(String::as_str).enumerate();
            let agents: Vec<Arc<Agent>> = named.map(start).collect::<Result<_>>()?;
            certify::run(&plan, &setup, Site::Remote(&agents), &keep, &progress)?
        }
    };
    say(&markdown(&certificate));
    let breaches = certificate.breaches();
    for breach in &breaches {
        say(&format!("FAILED: {breach}"));
    }
    Ok(u8::from(!breaches.is_empty()))
}

fn check(system: MeasuredSystem, hosts: &[String]) -> Result<()> {
    let is_plain = system.kind == SystemKind::Synod && !system.has_logger;
    let (name, value, reason) = match hosts.len() {
        0 if is_certifiable(system.kind) => return Ok(()),
        3..=SERVERS_MAX if is_plain => return Ok(()),
        0 => (
            "--systems",
            system.to_string(),
            "it has no certificate; see 'certify --help'",
        ),
        3..=SERVERS_MAX => (
            "--systems",
            system.to_string(),
            "on --hosts, only 'synod' is tried",
        ),
        _ => (
            "--hosts",
            hosts.join(","),
            "three are needed, or more: with fewer, nothing fails over",
        ),
    };
    let reason = reason.into();
    Err(LabError::BadArgument {
        name,
        value,
        reason,
    })
}

fn write(dir: &Path, certificate: &Certificate) -> Result<()> {
    let json = serde_json::to_string_pretty(certificate).map_err(std::io::Error::from);
    let files = [
        (FILE, json.context("write", dir)? + "\n"),
        ("certificate.html", page(certificate)),
    ];
    files.into_iter().try_for_each(|(name, text)| {
        let path = dir.join(name);
        fs::write(&path, text).context("write", path)
    })
}

fn read(path: &Path) -> Result<Certificate> {
    let path = match path.is_dir() {
        true => path.join(FILE),
        false => path.to_owned(),
    };
    let text = fs::read_to_string(&path).context("read", &path)?;
    let refused = |reason: String| LabError::BadArgument {
        name: "--compare",
        value: path.display().to_string(),
        reason,
    };
    let certificate: Certificate = serde_json::from_str(&text)
        .map_err(|error| refused(format!("it is no certificate of this version: {error}")))?;
    if certificate.format != FORMAT {
        return Err(refused(format!(
            "it has format {}, not {FORMAT}",
            certificate.format
        )));
    }
    Ok(certificate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_is_read_back_as_it_was_written_and_other_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let certificate = Certificate {
            format: FORMAT,
            seed: 7,
            ..Certificate::default()
        };
        write(dir.path(), &certificate).unwrap();
        assert_eq!(read(dir.path()).unwrap(), certificate);
        fs::write(dir.path().join(FILE), "{}").unwrap();
        let error = read(dir.path()).unwrap_err().to_string();
        assert!(error.contains(FILE), "{error}");
    }
}
