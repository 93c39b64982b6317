//! Options that say which servers are started.

use std::path::{Path, PathBuf};

use clap::Args;

use super::own_program;
use crate::error::{IoContext, Result};
use crate::hosts::place::Place;
use crate::systems::Setup;

const GALERA: &str = "/usr/lib/galera/libgalera_smm.so";

/// The directory that `scripts/mysql-root` makes.
const MYSQL: &str = "/var/tmp/synod-mysql";

/// The servers' programs and settings.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Servers")]
pub(crate) struct ServerArgs {
    /// Synod's library [default: libsynod.so beside this program]
    #[arg(long, value_name = "FILE")]
    provider: Option<PathBuf>,
    /// Galera's library
    #[arg(long, value_name = "FILE", default_value = GALERA)]
    galera: PathBuf,
    /// Directory with a Debian that has MySQL, which 'scripts/mysql-root' makes
    #[arg(long, value_name = "DIR", default_value = MYSQL)]
    mysql: PathBuf,
    /// A line for the configuration of every server of every system; may be repeated
    #[arg(long, value_name = "LINE")]
    server_option: Vec<String>,
    /// First port of the servers, on hosts of their own
    #[arg(long, value_name = "PORT", default_value_t = 13306)]
    base_port: u16,
}

impl ServerArgs {
    /// `next` is a library that others are replaced by.
    pub(super) fn setup(&self, lab: &Place, next: Option<&Path>) -> Result<Setup> {
        let program = own_program()?;
        let provider = match &self.provider {
            Some(path) => path.clone(),
            None => program.with_file_name("libsynod.so"),
        };
        // Servers load it by its absolute path.
        let absolute = |path: &Path| std::path::absolute(path).context("find", path);
        let synod = absolute(&provider)?;
        Ok(Setup {
            data: lab.data().to_owned(),
            base_port: self.base_port,
            synod,
            next_synod: next.map(absolute).transpose()?,
            galera: self.galera.clone(),
            mysql: self.mysql.clone(),
            program,
            extra_lines: self.server_option.clone(),
        })
    }
}
