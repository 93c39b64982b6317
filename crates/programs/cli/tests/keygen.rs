//! Output of `synod keygen`, which members take.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use synod_tls::{GroupSecret, SecretFile};

fn keygen(output: impl Into<Stdio>) -> String {
    let done = Command::new(env!("CARGO_BIN_EXE_synod"))
        .arg("keygen")
        .stdout(output)
        .stderr(Stdio::piped())
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn each_secret_is_one_line_that_is_another_each_time() {
    let lines = [keygen(Stdio::piped()), keygen(Stdio::piped())];
    for line in &lines {
        assert!(GroupSecret::parse(line.trim_end()).is_ok(), "{line}");
        assert_eq!(line.lines().count(), 1);
    }
    assert_ne!(lines[0], lines[1]);
}

#[test]
fn file_is_closed_to_others_and_takes_a_second_secret() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secret");
    keygen(File::create(&path).unwrap());
    let file = SecretFile {
        path: path.clone(),
        setting: "synod.secret_file",
    };
    let first = file.read().unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    keygen(OpenOptions::new().append(true).open(&path).unwrap());
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let both = file.read().unwrap();
    assert_eq!(both.len(), 2);
    assert_eq!(both[0], first[0], "the first stays this member's own");
}

#[test]
fn help_shows_how_a_secret_is_used() {
    let help = Command::new(env!("CARGO_BIN_EXE_synod"))
        .args(["keygen", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for text in [
        "synod keygen > /etc/mysql/synod.secret",
        "synod.secret_file=",
    ] {
        assert!(help.contains(text), "{help}");
    }
}
