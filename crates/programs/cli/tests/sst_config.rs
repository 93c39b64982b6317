//! Output of `synod sst-config`: the same on all members with one secret.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use synod_tls::GroupSecret;
use tempfile::TempDir;

fn member(secret: u8) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let line = GroupSecret::from_random([secret; 32]).to_line();
    let path = dir.path().join("secret");
    fs::write(&path, line).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    dir
}

fn sst_config(dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_synod"))
        .arg("sst-config")
        .arg("--secret-file")
        .arg(dir.join("secret"))
        .arg("--dir")
        .arg(dir)
        .output()
        .unwrap()
}

/// The files and the text, without the directory's name.
fn made(dir: &TempDir) -> [String; 3] {
    let output = sst_config(dir.path());
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let read = |name| fs::read_to_string(dir.path().join(name)).unwrap();
    [
        text.replace(&*dir.path().to_string_lossy(), "DIR"),
        read("synod-sst.pem"),
        read("synod-sst.key"),
    ]
}

#[test]
fn members_with_one_secret_make_the_same_and_others_do_not() {
    let (one, two, other) = (member(1), member(1), member(2));
    let first = made(&one);
    assert_eq!(made(&two), first);
    assert_eq!(made(&one), first, "again, over the old files");
    for (other, first) in made(&other).iter().zip(&first) {
        assert_ne!(other, first);
    }
    for line in [
        "ssl-mode = VERIFY_CA",
        "ssl-key = DIR/synod-sst.key",
        "wsrep_sst_auth = ",
    ] {
        assert!(first[0].contains(line), "{}", first[0]);
    }
}

#[test]
fn only_the_owner_may_read_the_files() {
    let dir = member(1);
    made(&dir);
    for name in ["synod-sst.pem", "synod-sst.key"] {
        let mode = fs::metadata(dir.path().join(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn unusable_secret_is_named_and_nothing_is_written() {
    let dir = member(1);
    fs::write(dir.path().join("secret"), "hunter2").unwrap();
    let output = sst_config(dir.path());
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("line 1 of") && text.contains("--secret-file"),
        "{text}"
    );
    assert!(!dir.path().join("synod-sst.key").exists());
}
