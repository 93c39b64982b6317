//! Groups whose members prove themselves by a secret.

use std::fs;
use std::path::PathBuf;

use synod_node::{Credentials, GroupSecret, NodeConfig, SecretFile, StartMode, TlsConfig};
use tempfile::TempDir;

use crate::support::{Group, Member, seqno_of};

pub(crate) fn secret(byte: u8) -> String {
    GroupSecret::from_random([byte; 32]).to_line()
}

/// The members' files of secrets.
pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new() -> Files {
        Files(tempfile::tempdir().unwrap())
    }

    fn path(&self, member: &str) -> PathBuf {
        self.0.path().join(member)
    }

    /// Writes a member's file. The directory keeps others out, and the file's mode is set too.
    pub(crate) fn write(&self, member: &str, secrets: &[&str]) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(member);
        fs::write(&path, secrets.join("\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn config(&self, member: &str) -> Option<TlsConfig> {
        Some(TlsConfig {
            credentials: self.credentials(member),
            accept_plain: false,
        })
    }

    pub(crate) fn credentials(&self, member: &str) -> Credentials {
        Credentials::Secret(SecretFile {
            path: self.path(member),
            setting: "the secret file",
        })
    }

    pub(crate) fn group(&self, name: &str, secret: &str) -> Group {
        let encrypt = |config: &mut NodeConfig| {
            self.write(&config.name, &[secret]);
            config.tls = self.config(&config.name);
        };
        Group::prepared_by(3, name, encrypt).begin()
    }
}

#[test]
fn secret_is_replaced_without_a_stop() {
    let files = Files::new();
    let (old, new) = (secret(1), secret(2));
    let group = files.group("rotation", &old);
    let steps: [&[&str]; 3] = [&[&old, &new], &[&new, &old], &[&new]];
    for (step, secrets) in steps.into_iter().enumerate() {
        for (at, member) in group.members.iter().enumerate() {
            files.write(&member.config.name, secrets);
            member.node().reload_tls().unwrap();
            seqno_of(member.order(&format!("{step}.{at}"), "v"));
        }
    }
    let removed = "connections by a secret that was removed";
    assert!(group.members.iter().any(|m| m.host.lock().says(removed)));
    group.wait_complete();
    group.check_same_history();

    // A file that cannot be used changes nothing.
    files.write("node1", &["no secret"]);
    let error = group.members[0].node().reload_tls().unwrap_err();
    assert!(error.to_string().contains("line 1 of"), "{error}");
    seqno_of(group.members[0].order("after", "v"));
}

#[test]
fn member_with_another_secret_is_refused_and_both_sides_say_so() {
    let files = Files::new();
    let home = files.group("differs", &secret(1));
    let mut stray = Member::new("stray", "differs");
    stray.config.seeds = vec![home.members[0].config.address.clone()];
    files.write("stray", &[&secret(2)]);
    stray.config.tls = files.config("stray");
    stray.start(StartMode::Join).unwrap();
    for host in [&stray.host, &home.members[0].host] {
        host.wait("the refusal", |record| {
            record.says("group secret differs from this member's")
        });
    }
    seqno_of(home.members[0].order("k", "v"));
    assert_eq!(stray.host.lock().joined, 0);
}

#[test]
fn group_changes_from_clear_to_a_secret_one_member_at_a_time() {
    let files = Files::new();
    let mut group = Group::of(3, "clear-to-secret");
    group.encrypt_one_by_one(|name| {
        files.write(name, &[&secret(1)]);
        files.config(name)
    });
    group.check_same_history();
}
