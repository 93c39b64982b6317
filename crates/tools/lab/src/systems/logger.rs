//! A logger in the place of the last server: it votes and stores the log, without a database.

use std::fs::{self, File};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use synod_local_cluster::ports::Ports;
use synod_local_cluster::{Settings, wait_for};

use super::Setup;
use super::configuration::group_secret;
use super::process::Process;
use crate::error::{IoContext, LabError, Result};
use crate::hosts::Host;
use crate::tools;

/// Its name in the group, and that of its directory.
pub(super) const NAME: &str = "logger";

/// Time limit for joining a group that serves.
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Logger {
    pub(super) process: Process,
    host: Host,
    program: PathBuf,
    /// The directory of its log. Its other files are beside it, not on its disk: nothing there
    /// would be synced before a loss of power.
    dir: PathBuf,
}

impl Logger {
    /// Makes the file of a logger for these servers, without starting it. `prepare` is given the
    /// directory of its log.
    pub(super) fn create(
        host: Host,
        setup: &Setup,
        settings: &Settings,
        prepare: &mut dyn FnMut(&Path) -> Result<()>,
    ) -> Result<Logger> {
        let dir = settings.dir.join(NAME);
        prepare(&dir)?;
        let address = |of: IpAddr, node| {
            let port = Ports::of(settings.base_port, node).group;
            format!("{of}:{port}")
        };
        let own = address(host.address.into(), settings.nodes + 1);
        let servers = 1..=settings.nodes;
        let peers = servers.map(|node| address(settings.address(node), node));
        let credentials = match settings.group_secret {
            Some(_) => format!("secret_file = {:?}", group_secret(setup)?),
            // The hosts have addresses that are no loopback ones, so clear must be asked for.
            None => "insecure = true".to_owned(),
        };
        let text = format!(
            "cluster_name = {:?}\nname = {NAME:?}\naddress = {own:?}\npeers = {:?}\n\
             synod.listen_addr = {own:?}\nsynod.log_dir = {dir:?}\nsynod.{credentials}\n",
            settings.cluster_name,
            peers.collect::<Vec<_>>(),
        );
        let file = dir.with_extension("toml");
        fs::write(&file, text).context("write", &file)?;
        Ok(Logger {
            process: Process::default(),
            host,
            program: setup.synod_program(),
            dir,
        })
    }

    pub(super) fn start(&mut self) -> Result<()> {
        let errors = self.dir.with_extension("err");
        let errors = File::create(&errors).context("create", &errors)?;
        let mut command = self.host.command(&self.program);
        command.args(["logger", "--config"]);
        let command = command.arg(self.dir.with_extension("toml"));
        self.process.start(command, errors.into())
    }

    /// Whether the server with these data hears it.
    pub(super) fn is_present(&self, data: &Path) -> bool {
        let mut list = Command::new(&self.program);
        list.args(["member", "list", "--dir"]).arg(data);
        let members = tools::output_of(&mut list).unwrap_or_default();
        let mut rows = members.lines().map(|row| row.split_whitespace().take(3));
        rows.any(|row| row.eq([NAME, "logger", "present"]))
    }

    pub(super) fn await_present(&self, data: &Path) -> Result<()> {
        let is_present = wait_for(TIMEOUT, || self.is_present(data).then_some(()));
        is_present.ok_or_else(|| LabError::Timeout {
            what: "the logger to take part".into(),
            seconds: TIMEOUT.as_secs(),
            now: fs::read_to_string(self.dir.with_extension("err")).unwrap_or_default(),
        })
    }
}
