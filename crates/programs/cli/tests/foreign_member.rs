//! A member that another user of the machine plays: `synod` of root does not ask it.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The user `nobody`.
const OTHER: u32 = 65_534;
const PATIENCE: Duration = Duration::from_secs(60);

/// A logger that runs as the other user and finds no group. Killed when dropped.
struct Played {
    process: Child,
    dir: TempDir,
}

impl Drop for Played {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Played {
    fn start() -> Played {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(path("log")).unwrap();
        chown(path("log"), Some(OTHER), Some(OTHER)).unwrap();
        // The other user may not enter the directory of the build.
        fs::copy(env!("CARGO_BIN_EXE_synod"), path("synod")).unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        drop(taken);
        let text = format!(
            "cluster_name = \"played\"\nname = \"played\"\naddress = \"{address}\"\n\
             synod.listen_addr = \"{address}\"\n\
             peers = [\"127.0.0.1:1\"]\nsynod.log_dir = {:?}\nsynod.insecure = true\n",
            path("log").display().to_string(),
        );
        fs::write(path("logger.toml"), text).unwrap();
        let process = Command::new(path("synod"))
            .args(["logger", "--config"])
            .arg(path("logger.toml"))
            .uid(OTHER)
            .gid(OTHER)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let played = Played { process, dir };
        let deadline = Instant::now() + PATIENCE;
        while !played.log_dir().join("synod.sock").exists() {
            assert!(Instant::now() < deadline, "it does not listen");
            std::thread::yield_now();
        }
        played
    }

    fn log_dir(&self) -> PathBuf {
        self.dir.path().join("log")
    }
}

/// Answer and errors of a command.
fn synod(arguments: &[&str]) -> (String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_synod"))
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn member_of_another_user_is_asked_only_if_its_directory_is_named() {
    if !rustix::process::geteuid().is_root() {
        // Only root can stand for two users.
        return;
    }
    let played = Played::start();
    let (log_dir, socket) = (played.log_dir(), played.log_dir().join("synod.sock"));

    // Other members may run on this machine.
    for command in [&["status"][..], &["leader", "transfer"]] {
        let (answer, errors) = synod(command);
        let told = format!(
            "{} is left aside: user {OTHER} has made it",
            socket.display()
        );
        assert!(errors.contains(&told), "{command:?}: {errors}");
        assert!(!answer.contains("played"), "{command:?}: {answer}");
    }

    // A process of the other user listens where the directory is root's.
    let named = played.dir.path().join("named");
    fs::create_dir(&named).unwrap();
    symlink(&socket, named.join("synod.sock")).unwrap();
    let (answer, errors) = synod(&["status", "--dir", &text(&named)]);
    let told = format!("is not asked: a process of user {OTHER} listens there");
    assert!(
        errors.contains(&told) && answer.is_empty(),
        "{errors}{answer}"
    );

    let (answer, errors) = synod(&["status", "--dir", &text(&log_dir)]);
    assert!(answer.contains("played"), "{errors}");
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
