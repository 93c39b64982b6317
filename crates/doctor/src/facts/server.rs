//! What the server says of itself.

use std::collections::BTreeMap;

use super::client::{ClientError, SqlClient};

/// What the server says of itself.
#[derive(Debug, Default)]
pub struct ServerFacts {
    /// As `VERSION()` has it.
    pub version: String,
    /// Global variables by name; paths with the data directory in front.
    pub variables: BTreeMap<String, String>,
    /// Global status by name in lower case.
    pub status: BTreeMap<String, String>,
    /// Tables of users.
    pub tables: Vec<TableFacts>,
    /// Events that the server would run, as `schema.name`.
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

/// A server that another one replicates from, as a replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFacts {
    /// The connection's name; empty for the only one of most replicas.
    pub name: String,
    /// Whether the replica notes by GTID what it has executed.
    pub by_gtid: bool,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFacts {
    /// `schema.name`, quoted as SQL needs it.
    pub name: String,
    /// Its engine.
    pub engine: String,
    /// Data and indexes, in bytes.
    pub bytes: u64,
    /// Whether it has a primary key.
    pub has_primary_key: bool,
}

const TABLES: &str = "\
SELECT t.table_schema, t.table_name, IFNULL(t.engine, ''),
       IFNULL(t.data_length, 0) + IFNULL(t.index_length, 0),
       k.table_name IS NOT NULL
FROM information_schema.tables t
LEFT JOIN (SELECT table_schema, table_name FROM information_schema.statistics
           WHERE index_name = 'PRIMARY' AND seq_in_index = 1) k
  ON k.table_schema = t.table_schema AND k.table_name = t.table_name
WHERE t.table_type = 'BASE TABLE'
  AND t.table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')";

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
            tables: client
                .rows(TABLES)?
                .iter()
                .filter_map(|row| table(row))
                .collect(),
            events: client.rows(EVENTS)?.into_iter().flatten().collect(),
            events_elsewhere: client
                .rows(EVENTS_ELSEWHERE)?
                .into_iter()
                .flatten()
                .collect(),
            sources: None,
            get_lock_statements: None,
            socket_accounts: None,
        };
        let sources = client.rows("SHOW ALL SLAVES STATUS").ok();
        facts.sources = sources.map(|rows| rows.iter().filter_map(|row| source(row)).collect());
        // An account that may not see this is no reason to see nothing.
        let accounts = client.rows(SOCKET_ACCOUNTS).ok();
        facts.socket_accounts = accounts.map(|rows| rows.into_iter().flatten().collect());
        if facts.variable("performance_schema") == "ON" {
            let count = client.rows(GET_LOCK)?.into_iter().flatten().next();
            facts.get_lock_statements = count.and_then(|count| count.parse().ok());
        }
        facts.make_pid_file_absolute();
        Ok(facts)
    }

    /// A variable's value; empty if the server does not know it.
    pub fn variable(&self, name: &str) -> &str {
        self.variables.get(name).map_or("", String::as_str)
    }

    /// A variable's value as a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.variables.get(name)?.parse().ok()
    }

    /// A counter of the server's; zero if it does not have it.
    pub fn counter(&self, name: &str) -> u64 {
        let value = self.status.get(&name.to_lowercase());
        value.and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    /// Whether the server runs in a group now.
    pub fn replicates(&self) -> bool {
        self.variable("wsrep_on") == "ON" && !matches!(self.variable("wsrep_provider"), "" | "none")
    }

    /// Whether it is a replica, as far as the doctor's account sees.
    pub fn is_replica(&self) -> bool {
        let is_configured = self.sources.as_ref().is_some_and(|known| !known.is_empty());
        is_configured || self.counter("Slaves_running") > 0
    }

    /// Whether it runs in a group with Synod now.
    pub fn is_in_group(&self) -> bool {
        self.replicates() && self.variable("wsrep_provider").contains("libsynod")
    }

    fn make_pid_file_absolute(&mut self) {
        let pid_file = self.variable("pid_file");
        if !pid_file.is_empty() && !pid_file.starts_with('/') {
            let absolute = format!("{}{pid_file}", self.variable("datadir"));
            self.variables.insert("pid_file".to_owned(), absolute);
        }
    }
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

fn table(row: &[String]) -> Option<TableFacts> {
    let [schema, name, engine, bytes, has_primary_key] = row else {
        return None;
    };
    Some(TableFacts {
        name: format!("{}.{}", quoted(schema), quoted(name)),
        engine: engine.clone(),
        bytes: bytes.parse().unwrap_or(0),
        has_primary_key: has_primary_key == "1",
    })
}

fn quoted(name: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let has_letter = name.chars().any(|char| !char.is_ascii_digit());
    if has_letter && name.chars().all(is_plain) {
        name.to_owned()
    } else {
        format!("`{}`", name.replace('`', "``"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_sql_needs_it() {
        let name = ["my-app", "t`1", "InnoDB", "16384", "1"].map(str::to_owned);
        let table = table(&name).unwrap();
        assert_eq!(table.name, "`my-app`.`t``1`");
        assert_eq!((table.bytes, table.has_primary_key), (16384, true));
        assert_eq!(
            (quoted("orders_2"), quoted("2024")),
            ("orders_2".into(), "`2024`".into())
        );
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
