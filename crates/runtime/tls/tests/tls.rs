//! Encrypted connections over real sockets, and what is refused.

#[path = "support/certificates.rs"]
mod certificates;
#[path = "support/handshake.rs"]
mod handshake;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::thread;

use bytes::Bytes;
use certificates::{Authority, Key, Kind};
use handshake::{first_word, pair, shake};
use rcgen::{DistinguishedName, DnType};
use synod_tls::{
    Credentials, FIRST_BYTE, PeerCredential, SUBJECT_BYTES_MAX, Tls, TlsError, TlsFiles,
    TlsHandshakeError,
};
use synod_wire::{FrameReader, FrameWriter, OUR_VERSIONS, PeerMessage};

fn load(files: &TlsFiles) -> Tls {
    Tls::load(files).unwrap()
}

fn refused(files: &TlsFiles) -> String {
    Tls::load(files).unwrap_err().to_string()
}

fn data(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/tls_data")
        .join(file)
}

/// With RSA keys, and a certificate of version 1.
fn version_1() -> TlsFiles {
    TlsFiles {
        certificate: data("version1.pem"),
        key: data("version1.key"),
        authorities: Some(data("authority.pem")),
        ..TlsFiles::default()
    }
}

/// A message that fills many records.
fn large(byte: u8) -> PeerMessage {
    PeerMessage::StateRequest(synod_wire::StateRequest {
        id: 1,
        joiner: synod_consensus::MemberId(1),
        after: synod_consensus::Seqno(0),
        session: synod_consensus::SessionId(2),
        preferred: Vec::new(),
        any_donor: true,
        request: Bytes::from(vec![byte; 200 << 10]),
    })
}

fn check_frames_travel(caller: &Tls, called: &Tls) {
    let (near, far) = shake(caller, called);
    let mut writer = FrameWriter::new(near.unwrap(), 1 << 20);
    let sent: Vec<PeerMessage> = (0..20).map(large).collect();
    let expected = sent.clone();
    let sending = thread::spawn(move || {
        for message in &sent {
            writer.push(OUR_VERSIONS.max, message).unwrap();
        }
        writer.flush().unwrap();
    });
    let mut reader = FrameReader::new(far.unwrap(), 1 << 20);
    for message in expected {
        let frame = reader.read_frame().unwrap().expect("another frame");
        assert_eq!(
            PeerMessage::decode(OUR_VERSIONS.max, frame).unwrap(),
            message
        );
    }
    sending.join().unwrap();
    // The sender hung up after a whole frame.
    assert!(reader.read_frame().unwrap().is_none());
}

#[test]
fn frames_travel_encrypted() {
    let authority = Authority::new("ca");
    let one = load(&authority.issue("one", Kind::Good));
    let two = load(&authority.issue("two", Kind::Good));
    check_frames_travel(&one, &two);
    assert!(one.summary().contains("CN=one"), "{}", one.summary());
}

#[test]
fn nothing_of_a_message_is_readable_on_the_way() {
    let authority = Authority::new("ca");
    let tls = load(&authority.issue("one", Kind::Good));
    let (near, far) = shake(&tls, &tls);
    let mut near = near.unwrap();
    let far = far.unwrap();
    near.write_all(b"a very secret text").unwrap();
    near.flush().unwrap();
    let mut raw = [0; 256];
    let mut socket: &TcpStream = far.get_ref();
    let len = socket.read(&mut raw).unwrap();
    assert!(len > 18);
    assert!(!raw[..len].windows(6).any(|w| w == b"secret"));
}

#[test]
fn wrong_authority_is_refused_and_both_sides_know() {
    let ours = Authority::new("ours");
    let other = Authority::new("other");
    // The caller refuses the called.
    let (near, far) = shake(
        &load(&ours.issue("one", Kind::Good)),
        &load(&other.issue("two", Kind::Good)),
    );
    let near = first_word(near);
    assert!(near.contains("its certificate is refused"), "{near}");
    assert!(near.contains("the authorities file"), "{near}");
    let far = far.unwrap_err().to_string();
    assert!(far.contains("refuses this member's certificate"), "{far}");

    // The called refuses the caller, which trusts both.
    let mut both = ours.issue("one", Kind::Good);
    let bundle = ours.file().with_file_name("both.pem");
    let texts = [ours.file(), other.file()].map(|path| fs::read_to_string(path).unwrap());
    fs::write(&bundle, texts.concat()).unwrap();
    both.authorities = Some(bundle);
    let (near, far) = shake(&load(&both), &load(&other.issue("two", Kind::Good)));
    let far = far.unwrap_err().to_string();
    assert!(far.contains("its certificate is refused"), "{far}");
    let near = first_word(near);
    assert!(near.contains("refuses this member's certificate"), "{near}");
}

#[test]
fn certificate_outside_its_dates_is_not_loaded() {
    let authority = Authority::new("ca");
    let expired = refused(&authority.issue("old", Kind::Expired));
    assert!(
        expired.contains("old.pem") && expired.contains("expired at 2020-01-01"),
        "{expired}"
    );
    let early = refused(&authority.issue("early", Kind::NotYetValid));
    assert!(early.contains("valid from 2500-01-01"), "{early}");
}

#[test]
fn certificate_must_allow_calling_and_being_called() {
    let authority = Authority::new("ca");
    let error = refused(&authority.issue("half", Kind::ServerOnly));
    assert!(error.contains("clientAuth"), "{error}");
}

#[test]
fn wrong_files_are_named_with_a_remedy() {
    let authority = Authority::new("ca");
    let good = authority.issue("one", Kind::Good);
    let with = |change: fn(&mut TlsFiles)| {
        let mut files = good.clone();
        change(&mut files);
        refused(&files)
    };
    let missing = with(|files| files.key = PathBuf::from("/nowhere/k.pem"));
    assert!(
        missing.contains("/nowhere/k.pem (the key file)") && missing.contains("readable"),
        "{missing}"
    );
    let not_set = with(|files| files.certificate = PathBuf::new());
    assert!(
        not_set.contains("encryption is on, but the certificate file is not set"),
        "{not_set}"
    );
    let swapped = with(|files| std::mem::swap(&mut files.certificate, &mut files.key));
    assert!(swapped.contains("no certificate in it"), "{swapped}");
    let no_key = with(|files| files.key.clone_from(&files.certificate));
    assert!(no_key.contains("no private key in it"), "{no_key}");

    let mut mixed = good.clone();
    mixed.key = authority.issue("two", Kind::Good).key;
    let mixed = refused(&mixed);
    assert!(
        mixed.contains("does not belong to") && mixed.contains("two.key"),
        "{mixed}"
    );
    let mut stranger = good.clone();
    stranger.authorities = Some(Authority::new("other").file());
    // The other authority's files were removed with it.
    assert!(refused(&stranger).contains("cannot read"));
    let other = Authority::new("other");
    stranger.authorities = Some(other.file());
    let stranger = refused(&stranger);
    assert!(stranger.contains("is not accepted by"), "{stranger}");

    let damaged = authority.file().with_file_name("damaged.pem");
    let text = fs::read_to_string(&good.certificate).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.remove(2);
    fs::write(&damaged, lines.join("\n")).unwrap();
    let mut files = good.clone();
    files.certificate = damaged;
    assert!(refused(&files).contains("damaged.pem"));
}

#[test]
fn texts_call_settings_by_the_names_of_the_host() {
    let authority = Authority::new("ca");
    let mut files = authority.issue("one", Kind::Good);
    files.names.switch = "ssl.on";
    files.names.certificate = "ssl.cert";
    let path = std::mem::take(&mut files.certificate);
    assert_eq!(refused(&files), "ssl.on is on, but ssl.cert is not set");
    files.certificate = path;
    files.names.key = "ssl.key";
    files.key = authority.issue("two", Kind::Good).key;
    let text = refused(&files);
    assert!(
        text.contains("(ssl.key)") && text.contains("(ssl.cert)"),
        "{text}"
    );
}

#[test]
fn certificate_of_version_1_signed_by_an_authority_is_accepted() {
    let tls = load(&version_1());
    check_frames_travel(&tls, &tls);
    // By another authority of the same name it is not.
    let imitation = Authority::new("authority");
    let mut files = version_1();
    files.authorities = Some(imitation.file());
    assert!(refused(&files).contains("is not accepted by"));
}

#[test]
fn without_an_authority_all_members_share_one_certificate() {
    let authority = Authority::new("ca");
    let mut shared = authority.issue("all", Kind::Good);
    shared.authorities = None;
    let shared = load(&shared);
    check_frames_travel(&shared, &shared);
    let mut own = authority.issue("one", Kind::Good);
    own.authorities = None;
    let (near, far) = shake(&load(&own), &shared);
    assert!(first_word(near).contains("refused") && far.is_err());
}

#[test]
fn member_whose_certificate_is_listed_as_an_authority_cannot_sign_others() {
    let root = Authority::new("ca");
    let leaf = root.issue("member", Kind::Good);
    // The holder of a member's key can write a certificate in its name.
    let text = fs::read(&leaf.key).unwrap();
    let key = Key::from_pem(&text);
    let mut issuer = certificates::params();
    issuer
        .distinguished_name
        .push(rcgen::DnType::CommonName, "member");
    let issuer = rcgen::Issuer::new(issuer, key);
    let own_key = Key::new();
    let forged = certificates::params().signed_by(&own_key, &issuer).unwrap();
    let file = |name: &str| root.file().with_file_name(name);
    fs::write(file("forged.pem"), forged.pem()).unwrap();
    fs::write(file("forged.key"), own_key.pem()).unwrap();
    let files = TlsFiles {
        certificate: file("forged.pem"),
        key: file("forged.key"),
        authorities: Some(leaf.certificate),
        ..TlsFiles::default()
    };
    assert!(refused(&files).contains("is not accepted by"));
}

#[test]
fn encrypted_key_is_read_with_its_password() {
    let mut files = version_1();
    files.key = data("version1-encrypted.key");
    assert!(refused(&files).contains("set the password file"));
    files.password = Some(data("make.sh"));
    assert!(refused(&files).contains("cannot be decrypted"));
    files.password = Some(data("password"));
    load(&files);
    files.key = data("version1-encrypted-old.key");
    assert!(refused(&files).contains("openssl pkcs8 -topk8"));
}

#[test]
fn members_without_a_common_cipher_suite_say_so() {
    let authority = Authority::new("ca");
    let with = |name: &str, ciphers: &str| {
        let mut files = authority.issue(name, Kind::Good);
        files.ciphers = ciphers.to_owned();
        load(&files)
    };
    let one = with("one", "TLS_AES_128_GCM_SHA256");
    let two = with("two", "TLS_CHACHA20_POLY1305_SHA256");
    let (near, far) = shake(&one, &two);
    assert!(far.unwrap_err().to_string().contains("the list of ciphers"));
    assert!(first_word(near).contains("the list of ciphers"));
    for tls in [&one, &two] {
        check_frames_travel(tls, tls);
    }
}

#[test]
fn caller_without_a_certificate_is_refused() {
    let authority = Authority::new("ca");
    let tls = load(&authority.issue("one", Kind::Good));
    let (near, far) = pair();
    let called = thread::spawn(move || tls.accept(far).err().map(|e| e.to_string()));
    let provider = std::sync::Arc::new(rustls_graviola::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    let pem = fs::read(authority.file()).unwrap();
    use rustls::pki_types::pem::PemObject;
    roots
        .add(rustls::pki_types::CertificateDer::from_pem_slice(&pem).unwrap())
        .unwrap();
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = rustls::pki_types::ServerName::try_from(certificates::HOST).unwrap();
    let client = rustls::ClientConnection::new(std::sync::Arc::new(config), name).unwrap();
    let mut stream = rustls::StreamOwned::new(client, near);
    // Fails at the write or at the read, whichever meets the refusal.
    let _ = stream.write_all(b"x");
    let _ = stream.read(&mut [0; 1]);
    let error = called.join().unwrap().unwrap();
    assert!(error.contains("presents no certificate"), "{error}");
}

#[test]
fn peer_in_clear_is_distinguished_from_an_encrypting_one() {
    let authority = Authority::new("ca");
    let tls = load(&authority.issue("one", Kind::Good));
    let (near, mut far) = pair();
    let answering = thread::spawn(move || {
        let mut first = [0; 1];
        far.read_exact(&mut first).unwrap();
        far.write_all(b"Sy, in clear, is no TLS record").unwrap();
        first[0]
    });
    let error = tls.connect(near).unwrap_err();
    assert!(
        matches!(error, TlsHandshakeError::Plaintext { .. }),
        "{error}"
    );
    assert_eq!(answering.join().unwrap(), FIRST_BYTE);
}

#[test]
fn garbage_before_the_handshake_takes_no_memory_and_ends_it() {
    let authority = Authority::new("ca");
    let tls = load(&authority.issue("one", Kind::Good));
    let (mut near, far) = pair();
    let called = thread::spawn(move || tls.accept(far).is_err());
    // A handshake message that claims 16 MiB, in records that are sent as long as they are taken.
    let mut record = vec![FIRST_BYTE, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff];
    record.resize(5 + 0x4000, 0);
    let mut sent = 0;
    while sent < 64 << 20 && near.write_all(&record).is_ok() {
        sent += record.len();
        record[5..9].fill(0);
    }
    assert!(called.join().unwrap());
    assert!(sent < 64 << 20, "it was hung up on");
}

/// Credentials that each end sees of the other.
fn introduce(caller: &Tls, called: &Tls) -> [PeerCredential; 2] {
    let (near, far) = shake(caller, called);
    [near.unwrap(), far.unwrap()].map(|end| end.peer().clone())
}

fn subject(text: &str) -> PeerCredential {
    PeerCredential::Certificate {
        subject: text.to_owned(),
    }
}

#[test]
fn both_ends_learn_the_subject_of_the_other() {
    let authority = Authority::new("ca");
    let one = load(&authority.issue("one", Kind::Good));
    let two = load(&authority.issue("two", Kind::Good));
    let by = ["CN=two", "CN=one"].map(subject);
    assert_eq!(introduce(&one, &two), by);
    // A renewed certificate has another key and the same subject.
    let renewed = load(&authority.issue("two", Kind::Good));
    assert_eq!(introduce(&one, &renewed), by);
    let version_1 = load(&version_1());
    assert_eq!(
        introduce(&version_1, &version_1)[0],
        subject("O=Synod tests,CN=version 1")
    );
}

#[test]
fn certificate_of_another_subject_does_not_replace_the_one_in_use() {
    let authority = Authority::new("ca");
    let files = authority.issue("one", Kind::Good);
    let in_use = load(&files);
    let credentials = Credentials::Certificates(files);
    authority.issue("one", Kind::Good);
    let renewed = credentials.load_again(&in_use).unwrap();
    assert_eq!(renewed.subject(), Some("CN=one"));
    assert!(
        renewed.summary().contains("valid until"),
        "{}",
        renewed.summary()
    );
    assert!(renewed.valid_until_unix().is_some());
    let other = authority.issue("two", Kind::Good);
    for (from, to) in [
        (
            &other.certificate,
            authority.file().with_file_name("one.pem"),
        ),
        (&other.key, authority.file().with_file_name("one.key")),
    ] {
        fs::copy(from, to).unwrap();
    }
    let error = credentials.load_again(&in_use).unwrap_err();
    assert!(matches!(error, TlsError::OtherSubject { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("'CN=one'") && text.contains("'CN=two'"),
        "{text}"
    );
}

#[test]
fn different_subjects_never_have_the_same_text() {
    let authority = Authority::new("ca");
    let one = load(&authority.issue("one", Kind::Good));
    let text_of = |parts: &[(DnType, &str)]| {
        let mut params = certificates::params();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in parts {
            params.distinguished_name.push(kind.clone(), *value);
        }
        let other = load(&authority.sign("other", params));
        let [seen_by_one, _] = introduce(&one, &other);
        match seen_by_one {
            PeerCredential::Certificate { subject } => subject,
            other => panic!("{other:?}"),
        }
    };
    use DnType::{CommonName, OrganizationName};
    assert_eq!(
        text_of(&[(OrganizationName, "o"), (CommonName, "a")]),
        "O=o,CN=a"
    );
    assert_eq!(text_of(&[(OrganizationName, "o,CN=a")]), r"O=o\,CN\=a");
    assert_eq!(text_of(&[(CommonName, "#a\n+\\")]), r"CN=\#a\0a\+\\");

    let long = "x".repeat(SUBJECT_BYTES_MAX);
    let long = text_of(&[(CommonName, &long)]);
    assert!(
        long.starts_with("subject-sha256=") && long.len() == 15 + 64,
        "{long}"
    );
    let empty = text_of(&[]);
    assert!(
        empty.starts_with("key-sha256=") && empty.len() == 11 + 64,
        "{empty}"
    );
    assert_ne!(empty, text_of(&[]), "each has a key of its own");
}
