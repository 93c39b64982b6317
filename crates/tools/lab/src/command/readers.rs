//! `synod-lab readers`: readers of a server's binlog, at the server itself and at a relay of it.

use std::path::PathBuf;

use clap::Args;
use synod_upstream::{UpstreamAddress, UpstreamConfig};

use super::say;
use crate::error::Result;
use crate::meters::command::{Address, parse_server};
use crate::meters::{Server, interrupt};
use crate::readers::{self, Behind, Findings, Late, Paced, Plan, Way};

/// Arguments of `synod-lab readers`.
#[derive(Debug, Args)]
pub(super) struct ReadersArgs {
    /// The server, HOST:PORT, with log_bin. The database 'synod_lab' on it is replaced, and dropped
    #[arg(long, value_parser = parse_server)]
    server: Address,
    /// A relay of this server, HOST:PORT
    #[arg(long, value_parser = parse_server)]
    relay: Address,
    /// Account on the server that may make databases
    #[arg(long, default_value = "root")]
    user: String,
    /// Its password
    #[arg(long, default_value = "")]
    password: String,
    /// Account of readers, on the server and on the relay
    #[arg(long, default_value = "repl")]
    reader: String,
    /// File whose first line is the readers' password
    #[arg(long, value_name = "FILE")]
    reader_password_file: Option<PathBuf>,
    /// Process of the server on this machine, for its processor time and memory
    #[arg(long, value_name = "PID")]
    server_pid: Option<i32>,
    /// Process of the relay on this machine
    #[arg(long, value_name = "PID")]
    relay_pid: Option<i32>,
    /// Transactions per second
    #[arg(
        long,
        value_name = "N,N",
        value_delimiter = ',',
        default_value = "1000,5000"
    )]
    rates: Vec<u32>,
    /// Readers at a time
    #[arg(
        long,
        value_name = "N,N",
        value_delimiter = ',',
        default_value = "1,20"
    )]
    readers: Vec<u32>,
    /// Seconds of each measurement
    #[arg(long, value_name = "N", default_value_t = 10)]
    seconds: u64,
    /// Late readers at a time
    #[arg(long, value_name = "N", default_value_t = 8)]
    late_readers: u32,
    /// Amount that late readers have to read, in MiB; 0: late readers are not measured
    #[arg(long, value_name = "N", default_value_t = 512)]
    late_mib: u32,
    /// JSON output
    #[arg(long)]
    json: bool,
}

/// Measures, and prints the figures.
pub(super) fn run(arguments: &ReadersArgs) -> Result<u8> {
    interrupt::watch_signals()?;
    let findings = readers::run(&arguments.plan())?;
    if arguments.json {
        say(&serde_json::to_string_pretty(&findings).unwrap_or_default());
    } else {
        say(&text(&findings));
    }
    Ok(0)
}

impl ReadersArgs {
    fn plan(&self) -> Plan {
        let named = |name: &str, pid: Option<i32>| Some((name.to_owned(), pid?));
        let processes = [
            named("server", self.server_pid),
            named("relay", self.relay_pid),
        ];
        Plan {
            server: Server {
                name: self.server.name.clone(),
                host: self.server.host.clone(),
                port: self.server.port,
                user: self.user.clone(),
                password: self.password.clone(),
                namespace: None,
                pid: self.server_pid,
            },
            ways: vec![
                self.way("server", &self.server),
                self.way("relay", &self.relay),
            ],
            processes: processes.into_iter().flatten().collect(),
            rates: self.rates.clone(),
            readers: self.readers.clone(),
            seconds: self.seconds,
            late_readers: self.late_readers,
            late_mib: self.late_mib,
        }
    }

    fn way(&self, name: &str, address: &Address) -> Way {
        let address = UpstreamAddress {
            host: address.host.clone(),
            port: address.port,
        };
        // Each reader gets a server_id of its own.
        let mut config = UpstreamConfig::new(address, &self.reader, 1);
        config.password_file.clone_from(&self.reader_password_file);
        Way {
            name: name.to_owned(),
            config,
        }
    }
}

/// The figures as Markdown.
fn text(findings: &Findings) -> String {
    let tables = [
        paced(&findings.paced),
        late(&findings.late),
        behind(&findings.behind),
    ];
    let tables = tables.into_iter().filter(|lines| lines.len() > HEAD);
    tables
        .map(|lines| lines.join("\n"))
        .collect::<Vec<_>>()
        .join("\n\n")
}

/// Lines of a table without rows.
const HEAD: usize = 2;

fn head(columns: &str) -> Vec<String> {
    let rule = "---|".repeat(columns.matches('|').count() - 1);
    vec![columns.to_owned(), format!("|{rule}")]
}

fn paced(all: &[Paced]) -> Vec<String> {
    let processes = all.first().map_or(&[][..], |paced| &paced.processes);
    let columns = processes.iter();
    let columns = columns.map(|used| format!(" cores of the {0} | its memory |", used.name));
    let columns: String = columns.collect();
    let mut lines = head(&format!(
        "| asked/s | committed/s | readers | of the | p50, ms | p99, ms | p99.9, ms | OK, p50 |{columns}"
    ));
    lines.extend(all.iter().map(|paced| {
        let used = paced.processes.iter();
        let used = used.map(|used| {
            let mib = used.resident_bytes >> 20;
            format!(" {:.2} | {mib} MiB |", used.cores)
        });
        format!(
            "| {} | {:.0} | {} | {} | {:.2} | {:.2} | {:.2} | {:.2} |{}",
            paced.rate,
            paced.committed,
            paced.readers,
            paced.way,
            paced.age.p50_ms,
            paced.age.p99_ms,
            paced.age_p999_ms,
            paced.commit.p50_ms,
            used.collect::<String>()
        )
    }));
    lines
}

fn late(all: &[Late]) -> Vec<String> {
    let mut lines = head(
        "| late readers | of the | transactions | MB each | MB/s each | MB/s in all \
         | new rows, p50/p99, ms | before |",
    );
    lines.extend(all.iter().map(|late| {
        format!(
            "| {} | {} | {} | {:.0} | {:.0} | {:.0} | {:.2}/{:.2} | {:.2}/{:.2} |",
            late.who(),
            late.way,
            late.what(),
            late.bytes as f64 / 1e6,
            late.each_mb_s,
            late.all_mb_s,
            late.tail.p50_ms,
            late.tail.p99_ms,
            late.tail_alone.p50_ms,
            late.tail_alone.p99_ms,
        )
    }));
    lines
}

fn behind(all: &[Behind]) -> Vec<String> {
    let mut lines = head(
        "| readers | of the | one is behind by, MB | new rows at the others, p50/p99, ms | memory at \
         most |",
    );
    lines.extend(all.iter().map(|behind| {
        format!(
            "| {} | {} | {:.0} | {:.2}/{:.2} | {} |",
            behind.readers,
            behind.way,
            behind.behind_bytes as f64 / 1e6,
            behind.age.p50_ms,
            behind.age.p99_ms,
            behind.memory()
        )
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readers::{Kind, Used};
    use crate::statistics::Distribution;

    #[test]
    fn rows_of_tables_have_the_columns_of_their_heads() {
        let way = || "relay".to_owned();
        let findings = Findings {
            paced: vec![Paced {
                way: way(),
                rate: 1000,
                committed: 999.0,
                readers: 20,
                age: Distribution::default(),
                age_p999_ms: 0.0,
                commit: Distribution::default(),
                processes: ["server", "relay"].map(used).to_vec(),
            }],
            late: vec![Late {
                kind: Kind::Small,
                way: way(),
                readers: 8,
                are_apart: true,
                bytes: 1,
                each_transactions_s: Some(1.0),
                each_mb_s: 1.0,
                all_mb_s: 1.0,
                tail: Distribution::default(),
                tail_alone: Distribution::default(),
            }],
            behind: vec![Behind {
                way: way(),
                readers: 20,
                behind_bytes: 1,
                age: Distribution::default(),
                peak_bytes: vec![("relay".to_owned(), 1 << 20)],
            }],
        };
        let text = text(&findings);
        for table in text.split("\n\n") {
            let columns = table.lines().map(|line| line.matches('|').count());
            let columns: Vec<usize> = columns.collect();
            assert_eq!(columns, vec![columns[0]; 3], "{table}");
        }
        assert!(text.contains("relay 1 MiB"), "{text}");
    }

    fn used(name: &str) -> Used {
        Used {
            name: name.to_owned(),
            cores: 0.5,
            resident_bytes: 1 << 20,
        }
    }
}
