//! The program `synod` as a new user tries it: `synod demo`, its output, and its end.
//!
//! The demo must leave no process behind, however it ends.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use synod_e2e::{Failure, Outcome, Why, ensure, place};
use synod_local_cluster::Cluster;

const BASE_PORT: u16 = 24306;

/// The directory of the demo; its servers end when this is dropped.
struct Demo {
    dir: PathBuf,
}

impl Demo {
    fn new() -> Outcome<Demo> {
        let demo = Demo {
            dir: place::cluster_dir("demo")?,
        };
        demo.remove();
        Ok(demo)
    }

    fn run(&self, arguments: &[&str]) -> Outcome<Output> {
        Command::new(place::program()?)
            .arg("demo")
            .arg("--dir")
            .arg(&self.dir)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .why("starting synod")
    }

    /// Runs a command that must succeed; gives what it printed.
    fn ok(&self, arguments: &[&str]) -> Outcome<String> {
        let output = self.run(arguments)?;
        ensure(output.status.success(), || {
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            format!(
                "synod demo {arguments:?} failed ({}):\n{errors}",
                output.status
            )
        })?;
        let both = [output.stdout, output.stderr].concat();
        Ok(String::from_utf8_lossy(&both).into_owned())
    }

    fn up(&self) -> Outcome<String> {
        let provider = place::provider()?.display().to_string();
        let port = BASE_PORT.to_string();
        self.ok(&["up", "--base-port", &port, "--provider", &provider])
    }

    /// Runs a command that must be refused with this exit code; gives what it said.
    fn refused(&self, arguments: &[&str], code: i32) -> Outcome<String> {
        let output = self.run(arguments)?;
        ensure(output.status.code() == Some(code), || {
            format!(
                "synod demo {arguments:?} gave {}, not {code}",
                output.status
            )
        })?;
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn status(&self) -> Outcome<Vec<serde_json::Value>> {
        let output = self.run(&["status", "--json"])?;
        let value: serde_json::Value =
            serde_json::from_slice(&output.stdout).why("status --json")?;
        value
            .as_array()
            .cloned()
            .ok_or_else(|| Failure(format!("not a list: {value}")))
    }

    fn remove(&self) {
        if let Ok(mut cluster) = Cluster::open(&self.dir)
            && let Err(error) = cluster.destroy()
        {
            eprintln!("could not remove the demo: {error}");
        }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        self.remove();
    }
}

/// In a place where everybody may write, another user has prepared the directory that the command
/// takes by default, with a program that is run to enter a node's host.
#[test]
fn cluster_of_another_user_is_not_touched() -> Outcome {
    const OTHER: u32 = 65_534;
    if std::fs::metadata("/proc/self").why("/proc/self")?.uid() != 0 {
        // Only root can stand for two users.
        return Ok(());
    }
    let dir = place::cluster_dir("demo-of-another-user")?;
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(dir.join("node1/data")).why("the directory")?;
    let proof = dir.join("proof");
    let settings = serde_json::json!({
        "cluster_name": "x", "base_port": 18506, "nodes": 1, "provider": "/bin/true",
        "sst_method": "rsync", "sst_password": "x",
        "hosts": {"1": {"address": "127.0.0.1", "enter": ["touch", proof]}},
    });
    let files = [
        ("cluster.json", settings.to_string()),
        ("formed", String::new()),
        ("node1/data/ibdata1", String::new()),
    ];
    for (file, text) in files {
        std::fs::write(dir.join(file), text).why(file)?;
    }
    let refused = |owner_of_dir: u32, owner_of_file: u32| -> Outcome {
        chown(&dir, Some(owner_of_dir), None).why("giving the directory away")?;
        let file = dir.join("cluster.json");
        chown(file, Some(owner_of_file), None).why("giving the settings away")?;
        for command in ["up", "down", "status"] {
            let output = Command::new(place::program()?)
                .args(["demo", "--dir"])
                .arg(&dir)
                .arg(command)
                .output()
                .why("starting synod")?;
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let is_told = text.contains("owned by user 65534");
            ensure(output.status.code() == Some(4) && is_told, || {
                format!("{command}: {}: {text}", output.status)
            })?;
        }
        ensure(!proof.exists(), || {
            "a program of the other user was run".into()
        })
    };
    refused(OTHER, OTHER)?;
    refused(0, OTHER)?;
    std::fs::remove_dir_all(&dir).why("removing the directory")
}

#[test]
fn demo_can_be_tried_from_up_to_destroy() -> Outcome {
    let demo = Demo::new()?;
    let first = demo.up()?;
    for expected in [
        "node3",
        "127.0.0.1:24308",
        "mariadb -h 127.0.0.1 -P 24306",
        "Try next",
    ] {
        ensure(first.contains(expected), || {
            format!("'{expected}' is missing in:\n{first}")
        })?;
    }
    check_schema(&demo.status()?)?;
    check_secured(&demo)?;

    let again = demo.up()?;
    ensure(again.matches("already running").count() == 3, || {
        format!("up again said:\n{again}")
    })?;

    demo.ok(&["sql", "1", "INSERT INTO demo.notes (text) VALUES ('hello')"])?;
    let select = "SET SESSION wsrep_sync_wait=1; SELECT text FROM demo.notes";
    let read = demo.ok(&["sql", "2", select])?;
    ensure(read.contains("hello"), || format!("node 2 reads:\n{read}"))?;

    demo.refused(&["wipe", "3"], 4)?;
    demo.ok(&["kill", "3"])?;
    let down = demo.status()?;
    ensure(
        down[2]["member_state"] == "down" && down[2]["pid"].is_null(),
        || format!("killed node is shown as {}", down[2]),
    )?;
    demo.ok(&["wipe", "3"])?;
    demo.ok(&["start", "3", "--sst-method", "mariabackup"])?;
    check_encrypted_copy(&demo)?;
    demo.ok(&["stop", "2"])?;
    demo.ok(&["start", "2"])?;
    demo.refused(&["kill", "7"], 3)?;

    demo.ok(&["down"])?;
    demo.up()?;
    let kept = demo.ok(&["sql", "3", select])?;
    ensure(kept.contains("hello"), || {
        format!("after down and up, node 3 reads:\n{kept}")
    })?;
    let other = demo.refused(&["up", "--base-port", "25306"], 4)?;
    ensure(other.contains("--base-port 24306"), || other.clone())?;
    demo.ok(&["destroy"])?;
    demo.refused(&["status"], 3)?;
    ensure(!Path::new(&demo.dir).exists(), || {
        "destroy left the directory".into()
    })
}

/// The demo shows the secure way.
fn check_secured(demo: &Demo) -> Outcome {
    let log = demo.dir.join("node2/error.log");
    let text = std::fs::read_to_string(&log).why(log.display())?;
    ensure(text.contains("encrypted by TLS 1.3: group secret"), || {
        "the demo's members have no group secret".to_owned()
    })
}

/// Both ends of the copy have checked each other: no script says `verify=0`.
fn check_encrypted_copy(demo: &Demo) -> Outcome {
    let log = demo.dir.join("node3/error.log");
    let text = std::fs::read_to_string(&log).why(log.display())?;
    let receives = "openssl-listen";
    ensure(
        text.contains(receives) && !text.contains("verify=0"),
        || "the demo's full copy is not encrypted, or checks nothing".to_owned(),
    )
}

fn check_schema(nodes: &[serde_json::Value]) -> Outcome {
    ensure(nodes.len() == 3, || format!("{} nodes", nodes.len()))?;
    for node in nodes {
        let wrong = || format!("status --json: {node}");
        ensure(
            node["name"].is_string() && node["member_state"] == "Synced",
            wrong,
        )?;
        ensure(node["pid"].is_i64() && node["port"].is_u64(), wrong)?;
        ensure(
            node["last_committed"].is_i64() && node["view_size"] == 3,
            wrong,
        )?;
        ensure(node["primary"] == true, wrong)?;
        let role = node["role"].as_str().unwrap_or_default();
        ensure(
            ["leader", "follower", "learner", "logger", "relay"].contains(&role),
            wrong,
        )?;
        ensure(
            node["term"].is_u64() && node["commit_index"].is_u64(),
            wrong,
        )?;
    }
    let leaders = nodes.iter().filter(|node| node["role"] == "leader").count();
    ensure(leaders == 1, || format!("{leaders} leaders: {nodes:?}"))
}

#[test]
fn port_in_use_is_named_before_anything_is_started() -> Outcome {
    let demo = Demo {
        dir: place::cluster_dir("demo-port")?,
    };
    demo.remove();
    let port = "24806";
    let _listener = std::net::TcpListener::bind(("127.0.0.1", 24807)).why("taking a port")?;
    let provider = place::provider()?.display().to_string();
    let said = demo.refused(&["up", "--base-port", port, "--provider", &provider], 5)?;
    ensure(
        said.contains("port 24807") && said.contains("node 2"),
        || said.clone(),
    )
}

#[test]
fn missing_library_is_named() -> Outcome {
    let demo = Demo {
        dir: place::cluster_dir("demo-library")?,
    };
    let said = demo.refused(&["up", "--provider", "/nowhere/libsynod.so"], 5)?;
    ensure(
        said.contains("/nowhere/libsynod.so") && said.contains("make build"),
        || said.clone(),
    )
}
