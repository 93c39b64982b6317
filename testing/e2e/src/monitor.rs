//! The tools with which operators watch a cluster: the Prometheus exporter, and HAProxy with the
//! health check of `clustercheck` (a node serves if `wsrep_local_state` is 4).
//!
//! Both are the packaged programs; a test that cannot find them fails and names the package.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use synod_local_cluster::find_program;

use crate::failure::{Outcome, Why, ensure};
use crate::harness::{PASSWORD, TestCluster, USER};

/// Time limit for a page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(10);

/// A running tool; killed when dropped.
#[derive(Debug)]
pub struct Tool(Child);

impl Tool {
    pub(crate) fn new(process: Child) -> Tool {
        Tool(process)
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the exporter for one node; its page is at `http://127.0.0.1:port/metrics`.
pub fn start_exporter(cluster: &TestCluster, node: u8, port: u16) -> Outcome<Tool> {
    let program = find_program("prometheus-mysqld-exporter", "prometheus-mysqld-exporter")
        .why("finding the exporter")?;
    let account = format!("{USER}:{PASSWORD}@(127.0.0.1:{})/", cluster.port(node));
    Command::new(program)
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .env("DATA_SOURCE_NAME", account)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map(Tool)
        .why("starting the exporter")
}

/// Starts HAProxy in front of all nodes: clients connect to `port` and get the first node that is
/// healthy; which are is on the page `http://127.0.0.1:stats_port/`.
///
/// # Errors
/// When it is not installed, or its files cannot be written to `dir`.
pub fn start_balancer(
    cluster: &TestCluster,
    nodes: &[u8],
    dir: &Path,
    (port, stats_port): (u16, u16),
) -> Outcome<Tool> {
    let program = find_program("haproxy", "haproxy").why("finding HAProxy")?;
    fs::create_dir_all(dir).why("HAProxy's directory")?;
    let check = dir.join("check");
    fs::write(&check, health_check()).why("the health check")?;
    fs::set_permissions(&check, fs::Permissions::from_mode(0o755)).why("the health check")?;
    let mut settings = format!(
        "global\n  external-check\n  insecure-fork-wanted\n\
         defaults\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n\
         frontend stats\n  mode http\n  bind 127.0.0.1:{stats_port}\n\
         \x20 stats enable\n  stats uri /\n\
         listen sql\n  mode tcp\n  bind 127.0.0.1:{port}\n  option external-check\n  \
         external-check path \"/usr/bin:/bin\"\n  external-check command {}\n",
        check.display()
    );
    for (position, node) in nodes.iter().enumerate() {
        let backup = if position == 0 { "" } else { " backup" };
        settings += &format!(
            "  server node{node} 127.0.0.1:{} check inter 500 fall 2 rise 1 on-marked-down \
             shutdown-sessions{backup}\n",
            cluster.port(*node)
        );
    }
    let file = dir.join("haproxy.cfg");
    fs::write(&file, settings).why("HAProxy's settings")?;
    Command::new(program)
        .args(["-db", "-f"])
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map(Tool)
        .why("starting HAProxy")
}

/// The question that `clustercheck` asks; HAProxy gives the server's address as arguments 3 and 4.
fn health_check() -> String {
    format!(
        "#!/bin/sh\n\
         state=$(mariadb --no-defaults -h \"$3\" -P \"$4\" -u {USER} -p{PASSWORD} \\\n  \
         --connect-timeout=3 \\\n  \
         -Nse \"SHOW GLOBAL STATUS LIKE 'wsrep_local_state'\") || exit 1\n\
         [ \"${{state##*[!0-9]}}\" = 4 ]\n"
    )
}

/// State of each server by HAProxy, such as `UP`, as on its page.
pub fn balancer_states(stats_port: u16) -> Outcome<Vec<(String, String)>> {
    const NAME: usize = 1;
    const STATUS: usize = 17;
    let page = http_get(stats_port, "/;csv")?;
    let rows = page.lines().map(|line| line.split(',').collect::<Vec<_>>());
    Ok(rows
        .filter(|row| row.first() == Some(&"sql") && row.len() > STATUS)
        .filter(|row| row[NAME].starts_with("node"))
        .map(|row| (row[NAME].to_owned(), row[STATUS].to_owned()))
        .collect())
}

/// One page from a tool on this machine.
pub fn http_get(port: u16, path: &str) -> Outcome<String> {
    let (code, body) = http_answer(port, path, "")?;
    ensure(code == 200, || format!("{path}: {code} {body}"))?;
    Ok(body)
}

/// Status and body of the answer of a tool on this machine. Headers are added as they are.
pub fn http_answer(port: u16, path: &str, headers: &str) -> Outcome<(u16, String)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).why("connecting")?;
    stream
        .set_read_timeout(Some(PAGE_TIMEOUT))
        .why("a time limit")?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).why("asking")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).why("reading")?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let code = code
        .ok_or("no status")
        .why(format_args!("{path}: {head}"))?;
    Ok((code, body.to_owned()))
}
