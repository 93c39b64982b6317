//! The commands `synod-lab …`. `router` is the process that emulates the network, started by the
//! others.

mod bench;
mod certify;
mod meter;
mod network;
mod report;
pub(crate) mod servers;

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::error::{IoContext, Result};
use crate::hosts::place::{OwnPlace, Place};
use crate::meters::MeterCommand;
use crate::router::handle::parse_argument;
use crate::router::process::{self, RouterHost};
use crate::systems::agent;

/// Parent of the servers' data directories: on a disk, whose syncs are part of what is measured.
const DATA_PARENT: &str = "/var/tmp";

/// Arguments of `synod-lab`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct LabArgs {
    #[command(flatten)]
    place: PlaceArgs,
    #[command(subcommand)]
    command: LabCommand,
}

const EXIT_CODES: &str = "\
The lab runs as root. It makes network namespaces named synod-lab-NAME-*, and removes them at its
end, also after Ctrl-C. What a killed lab left is removed by the next one of the same name.

Exit codes:
  0    done
  1    failed, see the message
  2    wrong usage
  4    another lab of this name is running
  5    something is missing (rights, program, library, device)
  6    the network or a server did not start in time
  130  interrupted; nothing is left behind";

/// Name of the lab, and the directory of its data.
#[derive(Debug, Clone, Args)]
pub struct PlaceArgs {
    /// Name of the lab; labs of different names run side by side
    #[arg(long, global = true, default_value = "main")]
    name: String,
    /// Directory for the servers' data, which are removed at the end; on the disk to be measured
    #[arg(long, global = true, value_name = "DIR", default_value = DATA_PARENT)]
    dir: PathBuf,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Measure systems in turns
    Bench(bench::BenchArgs),
    /// Make faults of systems under load, and count what they cost
    Certify(certify::CertifyArgs),
    /// Bring an emulated network up and measure its round trips
    Network(network::NetworkArgs),
    #[command(flatten)]
    Meter(MeterCommand),
    /// Make one page from the files of several runs
    Report(report::ReportArgs),
    /// Remove what a killed lab left behind
    Clean,
    /// The process on a host of 'certify --hosts'
    #[command(hide = true)]
    Agent { number: usize, dir: PathBuf },
    /// The process that emulates the network
    #[command(hide = true)]
    Router(RouterArgs),
}

#[derive(Debug, Args)]
struct RouterArgs {
    #[arg(long)]
    socket: PathBuf,
    #[arg(value_parser = parse_argument)]
    hosts: Vec<RouterHost>,
}

pub fn run(arguments: &LabArgs) -> Result<u8> {
    let place = &arguments.place;
    match &arguments.command {
        LabCommand::Bench(bench) => bench::run(place, bench),
        LabCommand::Certify(certify) => certify::run(place, certify),
        LabCommand::Network(network) => network::run(place, network),
        LabCommand::Meter(meter) => meter::run(place, meter),
        LabCommand::Report(report) => report::run(report),
        LabCommand::Clean => clean(place),
        LabCommand::Agent { number, dir } => agent::serve(*number, dir).map(|()| 0),
        LabCommand::Router(router) => run_router(router),
    }
}

impl PlaceArgs {
    fn place(&self) -> Result<Place> {
        Place::new(&self.name, &self.dir)
    }

    /// Takes the place, and has everything removed when a signal ends this process.
    fn take(&self) -> Result<OwnPlace> {
        crate::hosts::check_machine()?;
        let place = self.place()?;
        let (own, removed) = place.clone().take()?;
        if let Some(removed) = removed {
            eprintln!(
                "removed what an earlier lab named '{}' left: {removed}",
                self.name
            );
        }
        crate::interrupt::remove_at_signal(place)?;
        Ok(own)
    }
}

fn clean(place: &PlaceArgs) -> Result<u8> {
    crate::hosts::check_machine()?;
    let (own, removed) = place.place()?.take()?;
    drop(own);
    match removed {
        Some(removed) => say(&format!("removed {removed}")),
        None => say(&format!("a lab named '{}' has left nothing", place.name)),
    }
    Ok(0)
}

fn run_router(arguments: &RouterArgs) -> Result<u8> {
    process::run(&arguments.socket, &arguments.hosts).context("run the router", "/dev/net/tun")?;
    Ok(0)
}

/// The program that runs now, which is the router's program, too.
fn own_program() -> Result<PathBuf> {
    std::env::current_exe().context("find", "synod-lab")
}

/// Prints an answer. A reader that has closed the pipe is no error.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
