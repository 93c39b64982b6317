//! Prometheus, with the packaged rules, and its tool that checks rules and pages.
//!
//! Both are the packaged programs; a test that cannot find them fails and names the package.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use synod_local_cluster::find_program;

use crate::agent_process::AgentProcess;
use crate::failure::{Outcome, Why, ensure};
use crate::monitor::{Tool, http_get};
use crate::place;

/// The folder of the files for Prometheus that users get.
pub fn packaged_rules() -> PathBuf {
    place::workspace().join("packaging/prometheus")
}

/// Runs `promtool` with these arguments and this input, which must succeed without a remark.
pub fn promtool(arguments: &[&str], input: &str) -> Outcome {
    let program = find_program("promtool", "prometheus").why("finding promtool")?;
    let mut tool = Command::new(program)
        .args(arguments)
        .current_dir(packaged_rules())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .why("starting promtool")?;
    let stdin = tool.stdin.take().ok_or("no input").why("promtool")?;
    { stdin }
        .write_all(input.as_bytes())
        .why("promtool's input")?;
    let ended = tool.wait_with_output().why("promtool")?;
    let says = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (output, errors) = (says(&ended.stdout), says(&ended.stderr));
    ensure(ended.status.success() && errors.is_empty(), || {
        format!("promtool {arguments:?}: {output}{errors}")
    })
}

/// Starts Prometheus on this port, with its files in `dir`: it asks these agents each second, and
/// evaluates the packaged rules as often.
pub fn start_prometheus(dir: &Path, port: u16, agents: &[AgentProcess]) -> Outcome<Tool> {
    let program = find_program("prometheus", "prometheus").why("finding Prometheus")?;
    fs::create_dir_all(dir).why("Prometheus' directory")?;
    let targets: Vec<String> = agents
        .iter()
        .map(|agent| format!("127.0.0.1:{}", agent.port))
        .collect();
    let settings = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n\
         rule_files: ['{}']\n\
         scrape_configs:\n  - job_name: synod\n    static_configs: [{{targets: {targets:?}}}]\n",
        packaged_rules().join("synod.rules.yml").display()
    );
    let file = dir.join("prometheus.yml");
    fs::write(&file, settings).why("Prometheus' settings")?;
    let log = fs::File::create(dir.join("prometheus.log")).why("Prometheus' log")?;
    let spawned = Command::new(program)
        .arg(format!("--config.file={}", file.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            dir.join("data").display()
        ))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn();
    spawned.map(Tool::new).why("starting Prometheus")
}

/// Answer of the Prometheus on this port to a query of its interface, such as `alerts`.
pub fn ask_prometheus(port: u16, question: &str) -> Outcome<Value> {
    let answer = http_get(port, &format!("/api/v1/{question}"))?;
    let mut answer: Value = serde_json::from_str(&answer).why("Prometheus' answer")?;
    ensure(answer["status"] == "success", || answer.to_string())?;
    Ok(answer["data"].take())
}
