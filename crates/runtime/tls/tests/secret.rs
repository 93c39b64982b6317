//! Connections between members with group secrets: who accepts whom, and what both ends say.

#[path = "support/certificates.rs"]
mod certificates;
#[path = "support/handshake.rs"]
mod handshake;

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use certificates::{Authority, Kind};
use handshake::{first_word, shake};
use synod_tls::{Credentials, GroupSecret, PeerCredential, SecretFile, Tls};
use tempfile::NamedTempFile;

fn secret(byte: u8) -> String {
    GroupSecret::from_random([byte; 32]).to_line()
}

/// A file with this content that only its owner may read.
fn file(content: &str) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    fs::write(file.path(), content).unwrap();
    file
}

fn credentials(path: &Path) -> Credentials {
    Credentials::Secret(SecretFile {
        path: path.to_owned(),
        setting: "the.secret_file",
    })
}

fn holding(secrets: &[String]) -> Tls {
    let file = file(&secrets.join("\n"));
    credentials(file.path()).load().unwrap()
}

fn refused(content: &str) -> String {
    let file = file(content);
    let error = credentials(file.path()).load().unwrap_err().to_string();
    assert!(error.contains(&*file.path().to_string_lossy()), "{error}");
    assert!(error.contains("the.secret_file"), "{error}");
    error
}

fn fit(caller: &Tls, called: &Tls) {
    let (near, far) = shake(caller, called);
    let (mut near, mut far) = (near.unwrap(), far.unwrap());
    for end in [&near, &far] {
        assert!(matches!(end.peer(), PeerCredential::Secret { .. }));
    }
    near.write_all(b"hello").unwrap();
    near.flush().unwrap();
    let mut heard = [0; 5];
    far.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hello");
}

fn do_not_fit(caller: &Tls, called: &Tls) -> [String; 2] {
    let (near, far) = shake(caller, called);
    [first_word(near), far.unwrap_err().to_string()]
}

#[test]
fn members_with_the_same_secret_accept_each_other() {
    let [one, two] = [1, 1].map(|byte| holding(&[secret(byte)]));
    fit(&one, &two);
    fit(&two, &one);
    assert_eq!(
        one.summary().split(" of ").next(),
        two.summary().split(" of ").next()
    );
}

#[test]
fn another_secret_is_refused_and_both_ends_say_so() {
    let [one, two] = [1, 2].map(|byte| holding(&[secret(byte)]));
    for (caller, called) in [(&one, &two), (&two, &one)] {
        for text in do_not_fit(caller, called) {
            assert!(text.contains("group secret differs"), "{text}");
            assert!(text.contains("the.secret_file"), "{text}");
        }
    }
    // The called refuses a caller that would accept it.
    let both = holding(&[secret(1), secret(2)]);
    for text in do_not_fit(&both, &two) {
        assert!(text.contains("group secret differs"), "{text}");
    }
}

#[test]
fn secrets_are_replaced_in_three_steps_between_which_all_members_fit() {
    let (old, new) = (secret(1), secret(2));
    let steps = [
        vec![old.clone()],
        vec![old.clone(), new.clone()],
        vec![new.clone(), old.clone()],
        vec![new.clone()],
    ]
    .map(|secrets| holding(&secrets));
    for pair in steps.windows(2) {
        fit(&pair[0], &pair[1]);
        fit(&pair[1], &pair[0]);
    }
    for text in do_not_fit(&steps[0], &steps[3]) {
        assert!(text.contains("group secret differs"), "{text}");
    }
    assert!(
        steps[1].summary().contains("are accepted too"),
        "{}",
        steps[1].summary()
    );
}

#[test]
fn connection_of_a_secret_that_was_removed_is_not_accepted_any_more() {
    let (old, new) = (secret(1), secret(2));
    let between = holding(&[new.clone(), old.clone()]);
    let (near, far) = shake(&holding(&[old, new.clone()]), &between);
    let (near, far) = (near.unwrap(), far.unwrap());
    let after = holding(&[new]);
    assert!(between.accepts(far.peer()));
    assert!(!after.accepts(far.peer()), "the caller showed the old one");
    assert!(after.accepts(near.peer()), "the called showed the new one");
}

#[test]
fn secrets_and_certificates_do_not_fit_and_both_ends_say_so() {
    let authority = Authority::new("ca");
    let certificates = Tls::load(&authority.issue("one", Kind::Good)).unwrap();
    let secret = holding(&[secret(1)]);
    for (caller, called) in [(&certificates, &secret), (&secret, &certificates)] {
        for text in do_not_fit(caller, called) {
            assert!(
                text.contains("secret") && text.contains("certificates"),
                "{text}"
            );
        }
    }
}

#[test]
fn damaged_files_are_named_with_the_line_and_what_to_do() {
    let good = secret(1);
    let cut = &good[..good.len() - 3];
    let text = refused(&format!("# a comment\n\n{good}\n{cut}\n"));
    assert!(
        text.contains("line 4 of") && text.contains("was cut"),
        "{text}"
    );
    assert!(
        text.contains("synod keygen") && !text.contains(cut),
        "{text}"
    );
    let text = refused("hunter2");
    assert!(text.contains("line 1 of"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    for content in ["", "\n# only a comment\n"] {
        let text = refused(content);
        assert!(text.contains("there is no group secret in"), "{text}");
    }
    let text = credentials(Path::new("/nowhere/secret"))
        .load()
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("/nowhere/secret (the.secret_file)") && text.contains("synod keygen"),
        "{text}"
    );
    holding(&[
        "  # spaces and comments are no secrets".to_owned(),
        format!("  {good}\r"),
    ]);
}

#[test]
fn file_that_every_user_may_read_is_refused_with_the_command_that_closes_it() {
    let file = file(&secret(1));
    let with_mode = |mode| {
        fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
        credentials(file.path()).load()
    };
    for open in [0o644, 0o604, 0o602] {
        let text = with_mode(open).unwrap_err().to_string();
        let command = format!("chmod 600 {}", file.path().display());
        assert!(
            text.contains(&command) && text.contains(&format!("mode {open:o}")),
            "{text}"
        );
    }
    for closed in [0o600, 0o400, 0o640] {
        with_mode(closed).unwrap();
    }
}
