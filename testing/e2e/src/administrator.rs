//! The administrator of a server outside any group, and the end of its log.

use std::fs;
use std::path::Path;

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder, Row};

use crate::failure::{Outcome, Why};
use crate::stock_server::PATIENCE;

/// Lines that are shown of a log.
const LOG_LINES: usize = 20;

/// Connects to the server at this port of this machine.
pub(crate) fn connect(port: u16) -> Outcome<Conn> {
    let options = OptsBuilder::new()
        .ip_or_hostname(Some("127.0.0.1"))
        .tcp_port(port)
        .user(Some("root"))
        .prefer_socket(false)
        .read_timeout(Some(PATIENCE))
        .write_timeout(Some(PATIENCE));
    Conn::new(options).why(format_args!("connecting to the server at {port}"))
}

/// Runs statements, one after the other, by one connection.
pub(crate) fn execute(port: u16, statements: &[&str]) -> Outcome {
    let mut conn = connect(port)?;
    for sql in statements {
        conn.query_drop(sql)
            .why(format_args!("server at {port}: {sql}"))?;
    }
    Ok(())
}

/// A query's rows, columns with tabs between them.
pub(crate) fn rows(port: u16, sql: &str) -> Outcome<Vec<String>> {
    let rows: Vec<Row> = connect(port)?
        .query(sql)
        .why(format_args!("server at {port}: {sql}"))?;
    let text = |row: Row| {
        let values = row.unwrap_raw().into_iter().flatten();
        let values: Vec<String> = values.map(|v| v.as_sql(true)).collect();
        values.join("\t").replace('\'', "")
    };
    Ok(rows.into_iter().map(text).collect())
}

/// The end of a log.
pub(crate) fn end_of_log(path: &Path) -> String {
    let log = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    let from = lines.len().saturating_sub(LOG_LINES);
    lines.get(from..).unwrap_or_default().join("\n")
}
