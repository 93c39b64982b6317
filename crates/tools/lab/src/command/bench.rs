//! `synod-lab bench`: the command line of the bench.

use std::path::PathBuf;

use clap::Args;

use super::servers::ServerArgs;
use super::{PlaceArgs, say};
use crate::bench;
use crate::bench::plan::{Plan, WriteTo};
use crate::bench::workload::{Sizes, Workload};
use crate::error::Result;
use crate::network::Network;
use crate::report::{self, Report};
use crate::systems::kind::MeasuredSystem;
use crate::topology::Topology;

/// Arguments of `synod-lab bench`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct BenchArgs {
    /// Systems to measure, in turns: synod, galera, galera-flush1, galera-flush2, semisync, async,
    /// standalone; of MySQL synod-mysql (its plugin, beside the library), mgr, mgr-after,
    /// mgr-single-leader (Group Replication at its defaults, with consistency=AFTER, with
    /// paxos_single_leader=ON), mysql-semisync; with '-tls' behind it, replication is encrypted:
    /// synod's by a group secret, that of others by a certificate
    #[arg(long = "system", value_delimiter = ',', default_value = "synod")]
    systems: Vec<MeasuredSystem>,
    /// same-dc, three-dc, two-region, three-region
    #[arg(long = "topology", value_delimiter = ',', default_value = "same-dc")]
    topologies: Vec<String>,
    /// oltp_write_only, oltp_read_write, oltp_read_only, oltp_update_index, hot-rows
    #[arg(
        long = "workload",
        value_delimiter = ',',
        default_value = "oltp_write_only"
    )]
    workloads: Vec<Workload>,
    /// Numbers of clients, for each server that is written to
    #[arg(long, value_delimiter = ',', default_value = "1,16,64", value_parser = clap::value_parser!(u32).range(1..=900))]
    threads: Vec<u32>,
    /// Servers that are written to, by clients beside each: leader, follower, far, all
    #[arg(long, default_value = "leader")]
    write_to: WriteTo,
    /// Measured time of each measurement
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// Load before that, not counted
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=3600))]
    warm_up: u32,
    /// How often each measurement is made
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Tables of the oltp_* loads
    #[arg(long, default_value_t = 4)]
    tables: u32,
    /// Rows of each of them
    #[arg(long, default_value_t = 100_000)]
    table_rows: u32,
    /// Rows of hot-rows
    #[arg(long, default_value_t = 1_000)]
    hot_rows: u32,
    /// Write the results to this file, after each measurement
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    servers: ServerArgs,
}

const EXAMPLE: &str = "\
Synod beside Galera, which syncs nothing at commit, and Galera that syncs:

  synod-lab bench --system synod,galera,galera-flush1 --topology same-dc,three-dc \\
      --threads 1,16,64 --seconds 30 --repeat 3 --json bench.json

docs/performance.md says how it measures, and what to mind when reading the figures.";

pub(super) fn run(place: &PlaceArgs, arguments: &BenchArgs) -> Result<u8> {
    let plan = plan(arguments)?;
    let lab = place.place()?;
    let setup = arguments.servers.setup(&lab, None)?;
    bench::check(&plan, &setup)?;
    let servers = plan.topologies[0].servers;
    let network = Network::create(place.take()?, servers, &setup.program)?;
    let results = bench::run(
        &plan,
        &setup,
        &network,
        arguments.json.as_deref(),
        &|line| eprintln!("{line}"),
    )?;
    drop(network);
    let failed = results.measurements.iter().any(|m| m.failure.is_some());
    let report = Report {
        benches: vec![results],
        ..Report::default()
    };
    say(&report::markdown(&report));
    Ok(u8::from(failed))
}

fn plan(arguments: &BenchArgs) -> Result<Plan> {
    Ok(Plan {
        command: std::env::args().collect::<Vec<_>>().join(" "),
        systems: systems(arguments),
        topologies: arguments
            .topologies
            .iter()
            .map(|name| Topology::find(name))
            .collect::<Result<_>>()?,
        workloads: arguments.workloads.clone(),
        threads: arguments.threads.clone(),
        seconds: arguments.seconds,
        warm_up_seconds: arguments.warm_up,
        repetitions: arguments.repeat,
        write_to: arguments.write_to,
        sizes: Sizes {
            tables: arguments.tables,
            table_rows: arguments.table_rows,
            hot_rows: arguments.hot_rows,
        },
    })
}

/// The systems of the command line, each once.
fn systems(arguments: &BenchArgs) -> Vec<MeasuredSystem> {
    let mut seen = std::collections::BTreeSet::new();
    let systems = arguments.systems.iter().copied();
    systems.filter(|system| seen.insert(*system)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan::WRITE_TO_NAMES;
    use crate::systems::kind::NAMES;

    #[test]
    fn help_lists_what_is_understood() {
        let help = <BenchArgs as Args>::augment_args(clap::Command::new("bench"))
            .render_long_help()
            .to_string();
        let words: Vec<&str> = help.split([' ', ',', '\n', ':', ';']).collect();
        let workloads = crate::bench::workload::NAMES.into_iter();
        let names = NAMES.split(", ").chain(WRITE_TO_NAMES.split(", "));
        for name in names.chain(workloads) {
            assert!(words.contains(&name), "{name} is not in the help");
        }
    }
}
