//! The relays of a migration (`docs/operating/migration-relays.md`): `relay1` keeps the binlog of
//! the old primary, and `relay2` serves the log of the new group. Both have the lines that the page
//! shows.

use std::path::PathBuf;
use std::process::Command;

use crate::failure::{Failure, Outcome};
use crate::harness::TestCluster;
use crate::logger::Logger;
use crate::machines::RELAYED;
use crate::place;
use crate::programs::printed;
use crate::relay::{PASSWORD, Relay};
use crate::relay_group::RelayGroup;

/// Ports of `relay1`, from the base port of the old servers on.
const PORTS: u16 = 70;
/// The account on the primary that `relay1` pulls by, as the page has it in the address.
const ACCOUNT: &str = "relay";

/// Both relays. Killed when dropped.
#[derive(Debug)]
pub struct MigrationRelays {
    kept: RelayGroup,
    served: Relay,
}

impl MigrationRelays {
    /// Makes the relays of these two sides, which run, and starts them.
    pub fn start(old: &TestCluster, new: &TestCluster) -> Outcome<MigrationRelays> {
        old.execute(
            1,
            &format!("CREATE USER {ACCOUNT} IDENTIFIED BY '{PASSWORD}'"),
        )?;
        let grant = format!("GRANT REPLICATION SLAVE ON *.* TO {ACCOUNT}");
        old.execute(1, &grant)?;
        let settings = old.settings();
        let (primary, dir) = (old.port(1), &settings.dir);
        let mut kept = RelayGroup::of_port(primary, dir, settings.base_port + PORTS, 1)?;
        let lines = RELAYED.file("# on relay1")?;
        let lines = lines.replace("db1:3306", &format!("127.0.0.1:{primary}"));
        configure(&mut kept.relays[0], &lines)?;
        kept.begin()?;
        let secret = new.settings().group_secret.clone().unwrap_or_default();
        let mut served = Relay::beside(new, 2, &secret)?;
        configure(&mut served, &RELAYED.file("# on relay2")?)?;
        served.join()?;
        Ok(MigrationRelays { kept, served })
    }

    /// Whether this machine is one of them.
    pub fn has(&self, machine: &str) -> bool {
        self.log_dir(machine).is_ok()
    }

    /// Output of a relay for a command of the page.
    ///
    /// # Errors
    /// When the command fails, or is none of `synod`.
    pub fn show(&self, machine: &str, command: &str) -> Outcome<String> {
        let arguments = command.strip_prefix("synod ");
        let arguments = arguments
            .ok_or_else(|| Failure(format!("this test does not know the command {command:?}")))?;
        let mut synod = Command::new(place::program()?);
        synod.args(arguments.split_whitespace());
        printed(synod.arg("--dir").arg(self.log_dir(machine)?))
    }

    /// A command of the page with the ports of the relays.
    pub fn here(&self, command: &str) -> String {
        let host = |port| format!("MASTER_HOST='127.0.0.1', MASTER_PORT={port}");
        let page = |name| format!("MASTER_HOST='{name}', MASTER_PORT=3310");
        command
            .replace(&page("relay1"), &host(self.kept.relays[0].port))
            .replace(&page("relay2"), &host(self.served.port))
    }

    /// Logs of both.
    pub fn says(&self) -> String {
        format!("{}\nrelay2:\n{}", self.kept.says(), self.served.says())
    }

    fn log_dir(&self, machine: &str) -> Outcome<PathBuf> {
        match machine {
            "relay1" => Ok(self.kept.relays[0].log_dir()),
            "relay2" => Ok(self.served.log_dir()),
            other => Err(Failure(format!("no relay '{other}'"))),
        }
    }
}

/// Has a relay read these lines of the page.
fn configure(relay: &mut Logger, lines: &str) -> Outcome {
    for line in lines.lines().filter(|line| !line.starts_with('#')) {
        let pair = line.split_once(" = ");
        let (key, value) = pair.ok_or_else(|| Failure(format!("no line of a file: {line}")))?;
        relay.set(key, value);
    }
    Ok(())
}
