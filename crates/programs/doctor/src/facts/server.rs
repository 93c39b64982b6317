//! Facts that the server reports.

use std::collections::BTreeMap;
use std::time::Duration;

use super::client::{ClientError, SqlClient};
use super::tables::{self, SequenceFacts, TableFacts};

#[derive(Debug, Default)]
pub struct ServerFacts {
    pub version: String,
    /// Why it does not answer: only its files tell; none: it answers.
    pub silence: Option<String>,
    /// Global variables by name; paths with the data directory in front.
    pub variables: BTreeMap<String, String>,
    /// Variables that the configuration files of the server's machine set, if they are this
    /// server's: what it has after its next start.
    pub in_files: BTreeMap<String, String>,
    /// Global status by name in lower case.
    pub status: BTreeMap<String, String>,
    pub tables: Vec<TableFacts>,
    /// Plugins of MySQL that are active; empty of MariaDB.
    pub plugins: Vec<String>,
    pub sequences: Option<Vec<SequenceFacts>>,
    pub events: Vec<String>,
    /// From which servers this one replicates, beside its group; none: the doctor's account may not
    /// see that.
    pub sources: Option<Vec<SourceFacts>>,
    /// Events that the server knows, and does not run because another server made them.
    pub events_elsewhere: Vec<String>,
    /// Statements with GET_LOCK since the start; none: the server does not count statements.
    pub get_lock_statements: Option<u64>,
    /// Accounts that a user of the server's machine has by its name alone; none: the doctor's
    /// account may not see accounts.
    pub socket_accounts: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFacts {
    /// The connection's name; empty for the only one of most replicas.
    pub name: String,
    /// Whether the replica notes by GTID what it has executed.
    pub by_gtid: bool,
}

/// Debian's data directory, if no file names another.
const USUAL_DATA_DIR: &str = "/var/lib/mysql";

/// Plugins that a group of MySQL needs, or that are in its way.
const PLUGINS: &str = "\
SELECT plugin_name FROM information_schema.plugins
WHERE plugin_status = 'ACTIVE' AND plugin_name IN ('synod', 'clone', 'group_replication')";

const EVENTS: &str = "\
SELECT CONCAT(event_schema, '.', event_name) FROM information_schema.events WHERE status = 'ENABLED'";

const EVENTS_ELSEWHERE: &str = "\
SELECT CONCAT(event_schema, '.', event_name) FROM information_schema.events
WHERE status = 'SLAVESIDE_DISABLED'";

const GET_LOCK: &str = "\
SELECT IFNULL(SUM(count_star), 0) FROM performance_schema.events_statements_summary_by_digest
WHERE digest_text LIKE '%GET_LOCK%' AND digest_text NOT LIKE '%events_statements_summary%'";

/// Locked accounts have the word, too, and cannot be used.
const SOCKET_ACCOUNTS: &str = "\
SELECT user FROM mysql.global_priv
WHERE host = 'localhost' AND priv LIKE '%unix_socket%' AND priv NOT LIKE '%\"account_locked\":true%'";

impl ServerFacts {
    pub(super) fn gather(client: &SqlClient) -> Result<ServerFacts, ClientError> {
        let version = client.rows("SELECT VERSION()")?;
        let version = version.into_iter().flatten().next().unwrap_or_default();
        let mut facts = ServerFacts {
            version,
            variables: pairs(client.rows("SHOW GLOBAL VARIABLES")?),
            status: pairs(client.rows("SHOW GLOBAL STATUS")?),
            ..ServerFacts::default()
        };
        match facts.is_mysql() {
            true => facts.ask_mysql(client)?,
            false => facts.ask_mariadb(client)?,
        }
        facts.make_pid_file_absolute();
        Ok(facts)
    }

    fn ask_mysql(&mut self, client: &SqlClient) -> Result<(), ClientError> {
        self.tables = tables::of_mysql(client)?;
        self.plugins = client.rows(PLUGINS)?.into_iter().flatten().collect();
        Ok(())
    }

    fn ask_mariadb(&mut self, client: &SqlClient) -> Result<(), ClientError> {
        let list = |query: &str| -> Result<Vec<String>, ClientError> {
            Ok(client.rows(query)?.into_iter().flatten().collect())
        };
        self.tables = tables::gather(client)?;
        // An account that may not see these is no reason to see nothing.
        self.sequences = tables::sequences(client).ok();
        self.events = list(EVENTS)?;
        self.events_elsewhere = list(EVENTS_ELSEWHERE)?;
        let sources = client.rows("SHOW ALL SLAVES STATUS").ok();
        self.sources = sources.map(|rows| rows.iter().filter_map(|row| source(row)).collect());
        let accounts = client.rows(SOCKET_ACCOUNTS).ok();
        self.socket_accounts = accounts.map(|rows| rows.into_iter().flatten().collect());
        if self.variable("performance_schema") == "ON" {
            let count = client.rows(GET_LOCK)?.into_iter().flatten().next();
            self.get_lock_statements = count.and_then(|count| count.parse().ok());
        }
        Ok(())
    }

    pub(super) fn silent(why: String) -> ServerFacts {
        ServerFacts {
            silence: Some(why),
            ..ServerFacts::default()
        }
    }

    /// Whether it is MySQL, which knows nothing of wsrep.
    pub fn is_mysql(&self) -> bool {
        let is_known = !self.version.is_empty() && !self.version.contains("MariaDB");
        is_known && !self.variables.contains_key("wsrep_provider")
    }

    pub fn is_silent(&self) -> bool {
        self.silence.is_some()
    }

    /// A variable's value, that of the files if the server does not answer; empty if it is not
    /// known.
    pub fn variable(&self, name: &str) -> &str {
        let known = if self.is_silent() {
            &self.in_files
        } else {
            &self.variables
        };
        known.get(name).map_or("", String::as_str)
    }

    /// A variable's value in the group that the server is in, or that its files have it join.
    pub fn planned(&self, name: &str) -> &str {
        match self.in_files.get(name) {
            Some(value) if !self.replicates() => value,
            _ => self.variable(name),
        }
    }

    pub fn data_dir(&self) -> &str {
        match self.variable("datadir") {
            "" => USUAL_DATA_DIR,
            named => named,
        }
    }

    /// How long it has run.
    pub fn uptime(&self) -> Option<Duration> {
        let seconds = self.status.get("uptime")?.parse().ok()?;
        Some(Duration::from_secs(seconds))
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.variables.get(name)?.parse().ok()
    }

    pub fn counter(&self, name: &str) -> u64 {
        let value = self.status.get(&name.to_lowercase());
        value.and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    pub fn replicates(&self) -> bool {
        is_on(self.variable("wsrep_on")) && !matches!(self.variable("wsrep_provider"), "" | "none")
    }

    /// Whether it is a replica, as far as the doctor's account sees.
    pub fn is_replica(&self) -> bool {
        let is_configured = self.sources.as_ref().is_some_and(|known| !known.is_empty());
        is_configured || self.counter("Slaves_running") > 0
    }

    pub fn is_in_group(&self) -> bool {
        self.replicates() && self.variable("wsrep_provider").contains("libsynod")
    }

    /// Takes what configuration files set, unless they are another server's.
    pub(super) fn take_files(&mut self, configured: BTreeMap<String, String>) {
        let of_files = configured
            .get("datadir")
            .map_or(USUAL_DATA_DIR, String::as_str);
        let own = self.variable("datadir");
        if self.is_silent() || own.trim_end_matches('/') == of_files.trim_end_matches('/') {
            self.in_files = configured;
        }
    }

    fn make_pid_file_absolute(&mut self) {
        let pid_file = self.variable("pid_file");
        if !pid_file.is_empty() && !pid_file.starts_with('/') {
            let absolute = format!("{}{pid_file}", self.variable("datadir"));
            self.variables.insert("pid_file".to_owned(), absolute);
        }
    }
}

/// Whether a switch is on, in the words of a file or of a server.
pub(crate) fn is_on(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "1" | "on" | "true")
}

fn pairs(rows: Vec<Vec<String>>) -> BTreeMap<String, String> {
    let pairs = rows.into_iter().filter_map(|row| {
        let mut cells = row.into_iter();
        Some((cells.next()?.to_lowercase(), cells.next()?))
    });
    pairs.collect()
}

/// Versions differ in their columns: the first is the name, and one says how the place is noted.
fn source(row: &[String]) -> Option<SourceFacts> {
    let is_by_gtid = |cell: &String| matches!(cell.as_str(), "Slave_Pos" | "Current_Pos");
    Some(SourceFacts {
        name: row.first()?.clone(),
        by_gtid: row.iter().any(is_by_gtid),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_another_server_say_nothing_of_this_one() {
        let mut facts = ServerFacts::default();
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        facts.variables.extend([set("datadir", "/var/lib/mysql/")]);
        facts.take_files([set("datadir", "/srv/other")].into());
        assert!(facts.in_files.is_empty());
        facts.take_files([set("binlog_format", "ROW")].into());
        assert_eq!(facts.in_files["binlog_format"], "ROW");
    }

    #[test]
    fn pid_file_is_in_the_data_directory_unless_it_says_otherwise() {
        let mut facts = ServerFacts::default();
        let set = |facts: &mut ServerFacts, file: &str| {
            facts
                .variables
                .insert("pid_file".to_owned(), file.to_owned());
            facts.make_pid_file_absolute();
            facts.variable("pid_file").to_owned()
        };
        facts
            .variables
            .insert("datadir".to_owned(), "/data/".to_owned());
        assert_eq!(set(&mut facts, "a.pid"), "/data/a.pid");
        assert_eq!(set(&mut facts, "/run/a.pid"), "/run/a.pid");
    }
}
