//! Servers that are no members: which of their certificates are accepted, and why not.

#[path = "support/certificates.rs"]
mod certificates;
#[path = "support/handshake.rs"]
mod handshake;

use std::fs;
use std::io::{Read, Write};
use std::thread;

use certificates::{Authority, HOST, Kind};
use handshake::pair;
use rustls::StreamOwned;
use synod_tls::{ForeignTls, ServiceTls, TlsError, TlsFiles};

/// First answer of a server with these files, reached by this name.
fn heard(tls: &ForeignTls, host: &str, files: &TlsFiles) -> Result<String, String> {
    let files = TlsFiles {
        authorities: None,
        ..files.clone()
    };
    let service = ServiceTls::load(&files).unwrap();
    let (near, far) = pair();
    let serving = thread::spawn(move || {
        let mut stream = service.accept(far)?;
        stream.write_all(b"welcome")?;
        stream.flush()
    });
    let mut stream = StreamOwned::new(tls.session(host).unwrap(), near);
    let mut text = [0; 7];
    let read = stream.read_exact(&mut text);
    drop(stream);
    // Its error is the same one, seen from the other side.
    let _ = serving.join().unwrap();
    read.map_err(|error| ForeignTls::why_failed(&error))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn server_is_accepted_by_authority_and_name() {
    let (ours, others) = (Authority::new("ours"), Authority::new("others"));
    let files = ours.issue("upstream", Kind::Good);
    let named = ForeignTls::load(&ours.file(), true).unwrap();
    assert_eq!(heard(&named, HOST, &files).as_deref(), Ok("welcome"));
    let why = heard(&named, "else.test", &files).unwrap_err();
    assert!(why.contains("does not have the name"), "{why}");
    let any_name = ForeignTls::load(&ours.file(), false).unwrap();
    for host in ["else.test", "127.0.0.1"] {
        assert_eq!(heard(&any_name, host, &files).as_deref(), Ok("welcome"));
    }
    let foreign = ForeignTls::load(&others.file(), false).unwrap();
    let why = heard(&foreign, HOST, &files).unwrap_err();
    assert!(
        why.contains("none of the authorities in the upstream's authorities"),
        "{why}"
    );
}

/// MySQL's own authority has signed a certificate that is given to clients, too: who names the
/// server's certificate in the place of the authority is not deceived by that.
#[test]
fn certificate_of_the_server_accepts_no_other_one_of_its_authority() {
    let mysql = Authority::new("mysql");
    let server = mysql.issue("server", Kind::Good);
    let client = mysql.issue("client", Kind::Good);
    let by_authority = ForeignTls::load(&mysql.file(), false).unwrap();
    let by_certificate = ForeignTls::load(&server.certificate, false).unwrap();
    for tls in [&by_authority, &by_certificate] {
        assert_eq!(heard(tls, HOST, &server).as_deref(), Ok("welcome"));
    }
    assert_eq!(
        heard(&by_authority, HOST, &client).as_deref(),
        Ok("welcome")
    );
    let why = heard(&by_certificate, HOST, &client).unwrap_err();
    assert!(why.contains("the upstream's authorities"), "{why}");
}

#[test]
fn files_and_names_that_cannot_be_used_are_refused() {
    let ours = Authority::new("ours");
    let missing = ours.file().with_file_name("missing");
    let error = ForeignTls::load(&missing, true).unwrap_err();
    assert!(matches!(error, TlsError::Read { path, .. } if path == missing));
    let tls = ForeignTls::load(&ours.file(), true).unwrap();
    assert!(tls.session("no name").is_err());
}

/// MySQL ends its files with a zero byte, and `cat` puts the next one into the same line.
#[test]
fn certificates_of_several_files_are_all_read() {
    let (first, second) = (Authority::new("first"), Authority::new("second"));
    let read = |authority: &Authority| fs::read(authority.file()).unwrap();
    let together = [&*read(&first), b"\0", &read(&second), b"\0"].concat();
    let file = first.file().with_file_name("together.pem");
    fs::write(&file, together).unwrap();
    let tls = ForeignTls::load(&file, false).unwrap();
    for authority in [first, second] {
        let files = authority.issue("upstream", Kind::Good);
        assert_eq!(heard(&tls, HOST, &files).as_deref(), Ok("welcome"));
    }
}
