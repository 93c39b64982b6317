//! HAProxy with the settings of `packaging/kubernetes`, before servers with agents on this machine.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use synod_local_cluster::find_program;

use crate::agent_process::AgentProcess;
use crate::failure::{Outcome, Why, ensure};
use crate::harness::TestCluster;
use crate::monitor::Tool;
use crate::place;

/// The ports on which it listens.
#[derive(Clone, Copy, Debug)]
pub struct ProxyPorts {
    pub writer: u16,
    /// Reads: servers that lag at most a second.
    pub readers: u16,
    /// Servers for which Galera's `clustercheck` would say yes.
    pub clustercheck: u16,
    pub health: u16,
}

/// A server on this machine, as HAProxy knows it.
#[derive(Clone, Copy, Debug)]
pub struct Backend {
    /// The port for clients.
    pub sql: u16,
    /// The port of its agent.
    pub agent: u16,
}

/// Starts it; `agents` are those of nodes 1, 2, 3, and take this token.
///
/// # Errors
/// When HAProxy is not installed, or the packaged file is not as this function knows it.
pub fn start(
    cluster: &TestCluster,
    agents: &[AgentProcess],
    token: &str,
    dir: &Path,
    ports: ProxyPorts,
) -> Outcome<Tool> {
    let backends = (1..).zip(agents).map(|(node, agent)| Backend {
        sql: cluster.port(node),
        agent: agent.port,
    });
    start_before(&backends.collect::<Vec<_>>(), token, dir, ports)
}

/// Starts it before three servers; their agents take this token.
///
/// # Errors
/// When HAProxy is not installed, or the packaged file is not as this function knows it.
pub fn start_before(
    backends: &[Backend],
    token: &str,
    dir: &Path,
    ports: ProxyPorts,
) -> Outcome<Tool> {
    let program = find_program("haproxy", "haproxy").why("finding HAProxy")?;
    fs::create_dir_all(dir).why("HAProxy's directory")?;
    let file = dir.join("haproxy.cfg");
    fs::write(&file, settings(backends, ports)?).why("HAProxy's settings")?;
    Command::new(program)
        .args(["-db", "-f"])
        .arg(&file)
        .env("SYNOD_AGENT_TOKEN", token)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map(Tool::new)
        .why("starting HAProxy")
}

/// The packaged settings with addresses of this machine, and Galera's check beside them.
fn settings(backends: &[Backend], ports: ProxyPorts) -> Outcome<String> {
    let path = place::workspace().join("packaging/kubernetes/haproxy.cfg");
    let mut text = fs::read_to_string(&path).why(path.display())?;
    let mut servers = String::new();
    let mut replace = |from: &str, to: &str| {
        ensure(text.contains(from), || {
            format!("no '{from}' in {}", path.display())
        })?;
        text = text.replace(from, to);
        Ok(())
    };
    replace("bind :3306", &format!("bind 127.0.0.1:{}", ports.writer))?;
    replace("bind :3307", &format!("bind 127.0.0.1:{}", ports.readers))?;
    replace("bind :8404", &format!("bind 127.0.0.1:{}", ports.health))?;
    replace(" resolvers cluster init-addr none", "")?;
    replace("check port 4580 ", "check ")?;
    for (node, backend) in (1..).zip(backends) {
        let name = format!(
            "\"synod-{}.synod-members.${{NAMESPACE}}.svc.${{CLUSTER_DOMAIN}}:3306\"",
            node - 1
        );
        let here = format!("127.0.0.1:{} port {}", backend.sql, backend.agent);
        replace(&name, &here)?;
        servers += &format!("  server node{node} {here} check inter 1s fall 2 rise 1\n");
    }
    Ok(format!(
        "{text}\nlisten clustercheck\n  bind 127.0.0.1:{}\n  option httpchk\n  \
         http-check send meth GET uri /clustercheck hdr Authorization \
         \"Bearer ${{SYNOD_AGENT_TOKEN}}\"\n  \
         http-check expect string \"Galera cluster node is synced.\"\n{servers}",
        ports.clustercheck
    ))
}
