//! A certificate on three hosts by SSH: each is a network on this machine, with an `sshd`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use synod_e2e::programs::printed;
use synod_e2e::{Outcome, Why, ensure, place};
use synod_local_cluster::wait_for;

use crate::certify::{cells, sum};
use crate::lab::{INTERRUPTED, Labs, end_by, found};

const HOSTS: [&str; 3] = ["10.81.0.1", "10.81.0.2", "10.81.0.3"];
const NAME: &str = "e2essh";

/// Time limit for a first server to be made, and for a host to remove all.
const TIMEOUT: Duration = Duration::from_secs(90);

struct Remote {
    dir: PathBuf,
    labs: Labs,
    sshd: Vec<Child>,
}

impl Remote {
    fn create() -> Outcome<Remote> {
        let mut remote = Remote {
            dir: place::cluster_dir("remote")?,
            labs: Labs::find(NAME)?,
            sshd: Vec::new(),
        };
        remote.remove(); // an earlier run may have been killed
        for dir in [Path::new("/run/sshd"), &remote.dir.join("bin")] {
            fs::create_dir_all(dir).why("making a directory")?;
        }
        let key = remote.dir.join("key");
        printed(
            Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(&key),
        )?;
        let key = key.display();
        let ssh = remote.dir.join("bin/ssh");
        let text = format!(
            "#!/bin/sh\nexec /usr/bin/ssh -F none -i {key} -o IdentitiesOnly=yes -o LogLevel=ERROR \
             -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \"$@\"\n"
        );
        fs::write(&ssh, text).why("writing ssh")?;
        fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).why("ssh")?;
        ip(&format!("link add {NAME} type bridge"))?;
        ip(&format!("addr add 10.81.0.254/24 dev {NAME}"))?;
        ip(&format!("link set {NAME} up"))?;
        for host in HOSTS {
            let device = device(host);
            ip(&format!("netns add {device}"))?;
            ip(&format!(
                "link add {device} type veth peer name eth0 netns {device}"
            ))?;
            ip(&format!("link set {device} master {NAME} up"))?;
            ip(&format!("-n {device} addr add {host}/24 dev eth0"))?;
            ip(&format!("-n {device} link set lo up"))?;
            ip(&format!("-n {device} link set eth0 up"))?;
            let options = format!(
                "-D -e -f /dev/null -h {key} -o ListenAddress={host} -o StrictModes=no \
                 -o AuthorizedKeysFile={key}.pub -o PidFile=none"
            );
            let mut sshd = Command::new("nsenter");
            sshd.arg(format!("--net=/run/netns/{device}"))
                .arg("/usr/sbin/sshd");
            remote
                .sshd
                .push(sshd.args(options.split(' ')).spawn().why("starting sshd")?);
        }
        let (first, ssh) = (HOSTS[0], remote.dir.join("bin/ssh"));
        let answers = || printed(Command::new(&ssh).args([first, "true"])).ok();
        found(wait_for(TIMEOUT, answers), "answer of sshd")?;
        Ok(remote)
    }

    fn certify(&self, faults: &str) -> Outcome<Command> {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut lab = self
            .labs
            .command(&["certify", "--short", "--faults", faults, "--seed", "7"]);
        lab.args(["--hosts", &HOSTS.join(","), "--out"])
            .arg(self.dir.join("out"));
        lab.arg("--provider").arg(place::provider()?);
        lab.env("PATH", format!("{}:{path}", self.dir.join("bin").display()));
        Ok(lab)
    }

    /// Directories of hosts; their processes, but for sshd; rules that lose packets.
    fn left(&self) -> Outcome<Vec<String>> {
        let mut left = Vec::new();
        for (host, sshd) in HOSTS.iter().zip(&self.sshd) {
            let (dir, device) = (format!("/var/tmp/synod-lab-{NAME}-{host}"), device(host));
            left.extend(Path::new(&dir).exists().then_some(dir));
            let pids = printed(Command::new("ip").args(["netns", "pids", &device]))?;
            let own = sshd.id().to_string();
            let others = pids.split_whitespace().filter(|pid| *pid != own);
            left.extend(others.map(|pid| format!("process {pid}")));
            left.push(printed(
                Command::new("ip").args(["netns", "exec", &device, "nft", "list", "tables"]),
            )?);
        }
        left.retain(|what| !what.is_empty());
        Ok(left)
    }

    fn remove(&self) {
        for host in HOSTS {
            let _ = ip(&format!("link del {}", device(host)));
            let _ = ip(&format!("netns del {}", device(host)));
        }
        let _ = ip(&format!("link del {NAME}"));
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        for sshd in &mut self.sshd {
            let _ = sshd.kill().and_then(|()| sshd.wait());
        }
        self.remove();
    }
}

fn device(host: &str) -> String {
    format!("{NAME}{}", host.rsplit('.').next().unwrap_or(host))
}

fn ip(arguments: &str) -> Outcome {
    printed(Command::new("ip").args(arguments.split(' '))).map(drop)
}

#[test]
#[ignore = "needs root; scripts/run-e2e runs it"]
fn three_hosts_lose_nothing_and_keep_nothing_also_of_a_lab_that_was_ended() -> Outcome {
    let remote = Remote::create()?;
    let ended = remote.certify("kill,cut")?.stdin(Stdio::null()).status();
    let code = ended.why("starting synod-lab")?.code();
    let mut cells = cells(&remote.dir.join("out"))?;
    cells.retain(|cell| cell["not_tried"].is_null()); // there is no logger
    ensure(code == Some(0) && cells.len() == 4, || {
        format!("{code:?}: {cells:#?}")
    })?;
    for cell in &cells {
        let (acknowledged, lost) = (sum(cell, "acknowledged"), sum(cell, "lost"));
        ensure(acknowledged > 0 && lost == 0, || format!("{cell:#}"))?;
    }
    let left = remote.left()?;
    ensure(left.is_empty(), || format!("left behind: {left:?}"))?;
    for (how, code) in [
        ("-INT", Some(INTERRUPTED)),
        ("-KILL", None),
        ("agent", Some(1)),
    ] {
        let mut lab = remote.certify("kill")?.spawn().why("starting synod-lab")?;
        let dir = format!("/var/tmp/synod-lab-{NAME}-{}", HOSTS[2]);
        let server = Path::new(&dir).join("data/node3/data");
        found(
            wait_for(TIMEOUT, || server.exists().then_some(())),
            "third server",
        )?;
        let ended = if how == "agent" {
            let agent = format!("{dir}/synod-lab agent");
            printed(Command::new("pkill").args(["-KILL", "-f", &agent]))?;
            let ended = wait_for(TIMEOUT, || lab.try_wait().ok().flatten());
            found(ended, "end of the lab")?.code()
        } else {
            end_by(how, lab)?
        };
        // The end of a connection takes a moment, and a killed lab waits for nothing.
        let limit = Duration::from_secs(if code.is_some() { 2 } else { 60 });
        let is_clean = || remote.left().is_ok_and(|left| left.is_empty());
        wait_for(limit, || is_clean().then_some(()));
        let left = remote.left()?;
        ensure(ended == code && left.is_empty(), || {
            format!("{how}: {ended:?}, {left:?}")
        })?;
    }
    Ok(())
}
