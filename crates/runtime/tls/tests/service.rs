//! Services whose clients are no members: which files are refused, and which clients.

#[path = "support/certificates.rs"]
mod certificates;
#[path = "support/handshake.rs"]
mod handshake;

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use certificates::{Authority, HOST, Kind};
use handshake::pair;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection, StreamOwned};
use synod_tls::{ServiceTls, TlsError, TlsFiles};

/// The same without authorities for clients.
fn for_all(files: &TlsFiles) -> TlsFiles {
    TlsFiles {
        authorities: None,
        ..files.clone()
    }
}

fn refused(files: &TlsFiles) -> String {
    let error = ServiceTls::load(files).unwrap_err();
    error.to_string()
}

fn authorities(file: &Path) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_file_iter(file).unwrap() {
        roots.add(authority.unwrap()).unwrap();
    }
    roots
}

/// A client that trusts this authority, perhaps with a certificate of its own.
fn client(trusted: &Path, own: Option<&TlsFiles>) -> ClientConfig {
    let config = ClientConfig::builder_with_provider(rustls_graviola::default_provider().into())
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(authorities(trusted));
    let Some(own) = own else {
        return config.with_no_client_auth();
    };
    let chain = CertificateDer::pem_file_iter(&own.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(&own.key).unwrap();
    let chain = chain.collect::<Result<_, _>>().unwrap();
    config.with_client_auth_cert(chain, key).unwrap()
}

/// Result of serving a client: whether it showed a certificate, or why it failed.
type Served = Result<bool, String>;

/// A client asks, and the service answers; what each has seen.
fn ask(service: &ServiceTls, client: ClientConfig) -> (Served, io::Result<String>) {
    let (near, far) = pair();
    let config = service.config();
    let serving = thread::spawn(move || serve(ServerConnection::new(config).unwrap(), far));
    let name = HOST.try_into().unwrap();
    let mut near = StreamOwned::new(ClientConnection::new(Arc::new(client), name).unwrap(), near);
    let heard = near.write_all(b"hello").and_then(|()| {
        let mut heard = String::new();
        near.read_to_string(&mut heard).map(|_| heard)
    });
    drop(near);
    let served = serving.join().unwrap();
    (served.map_err(|error| service.why_failed(&error)), heard)
}

fn serve(session: ServerConnection, socket: TcpStream) -> io::Result<bool> {
    let mut stream = StreamOwned::new(session, socket);
    stream.read_exact(&mut [0; 5])?;
    let has_certificate = stream.conn.peer_certificates().is_some();
    stream.write_all(b"welcome")?;
    stream.conn.send_close_notify();
    stream.flush()?;
    Ok(has_certificate)
}

#[test]
fn clients_need_no_certificate_and_may_show_one_of_the_authorities() {
    let (ours, operators) = (Authority::new("ours"), Authority::new("operators"));
    let own = ours.issue("service", Kind::Good);
    let open = ServiceTls::load(&for_all(&own)).unwrap();
    assert!(open.summary().contains("CN=service"), "{}", open.summary());
    let (served, heard) = ask(&open, client(&ours.file(), None));
    assert_eq!((served, heard.unwrap().as_str()), (Ok(false), "welcome"));

    let asking = TlsFiles {
        authorities: Some(operators.file()),
        ..own
    };
    let asking = ServiceTls::load(&asking).unwrap();
    let (served, _) = ask(&asking, client(&ours.file(), None));
    assert_eq!(served, Ok(false));
    let known = operators.issue("prometheus", Kind::Good);
    let (served, heard) = ask(&asking, client(&ours.file(), Some(&known)));
    assert_eq!((served, heard.unwrap().as_str()), (Ok(true), "welcome"));
}

#[test]
fn certificates_of_clients_are_refused_with_the_reason() {
    let ours = Authority::new("ours");
    let foreign = Authority::new("foreign");
    let service = ServiceTls::load(&ours.issue("service", Kind::Good)).unwrap();
    for (shown, reason) in [
        (
            foreign.issue("eve", Kind::Good),
            "none of the authorities in the authorities file",
        ),
        (ours.issue("old", Kind::Expired), "it has expired"),
        (
            ours.issue("server", Kind::ServerOnly),
            "must have clientAuth",
        ),
    ] {
        let (served, heard) = ask(&service, client(&ours.file(), Some(&shown)));
        let why = served.unwrap_err();
        assert!(why.contains(reason), "{why}");
        assert!(heard.is_err(), "{reason}");
    }
}

#[test]
fn client_that_does_not_trust_the_service_is_explained() {
    let ours = Authority::new("ours");
    let foreign = Authority::new("foreign");
    let service = ServiceTls::load(&for_all(&ours.issue("service", Kind::Good))).unwrap();
    let (served, heard) = ask(&service, client(&foreign.file(), None));
    let why = served.unwrap_err();
    assert!(
        why.contains("does not trust the certificate of the certificate file"),
        "{why}"
    );
    assert!(heard.is_err());
}

#[test]
fn files_that_do_not_fit_are_refused_with_the_file() {
    let authority = Authority::new("ca");
    let good = for_all(&authority.issue("good", Kind::Good));
    let other = authority.issue("other", Kind::Good);
    let text = refused(&TlsFiles {
        key: other.key.clone(),
        ..good.clone()
    });
    for file in [&other.key, &good.certificate] {
        assert!(text.contains(&file.display().to_string()), "{text}");
    }
    assert!(text.contains("does not belong to"), "{text}");

    let text = refused(&for_all(&authority.issue("old", Kind::Expired)));
    assert!(
        text.contains("old.pem") && text.contains("expired at"),
        "{text}"
    );
    let text = refused(&for_all(&authority.issue("early", Kind::NotYetValid)));
    assert!(
        text.contains("early.pem") && text.contains("valid from"),
        "{text}"
    );

    let missing = authority.file().with_file_name("missing");
    for files in [
        TlsFiles {
            certificate: missing.clone(),
            ..good.clone()
        },
        TlsFiles {
            key: missing.clone(),
            ..good.clone()
        },
        TlsFiles {
            authorities: Some(missing.clone()),
            ..good.clone()
        },
    ] {
        let error = ServiceTls::load(&files).unwrap_err();
        assert!(
            matches!(&error, TlsError::Read { path, .. } if *path == missing),
            "{error}"
        );
    }

    let empty = authority.file().with_file_name("empty");
    fs::write(&empty, "no PEM").unwrap();
    fs::set_permissions(&empty, fs::Permissions::from_mode(0o600)).unwrap();
    for (files, what) in [
        (
            TlsFiles {
                certificate: empty.clone(),
                ..good.clone()
            },
            "no certificate in it",
        ),
        (
            TlsFiles {
                key: empty.clone(),
                ..good.clone()
            },
            "no private key in it",
        ),
        (
            TlsFiles {
                authorities: Some(empty.clone()),
                ..good.clone()
            },
            "no certificate in it",
        ),
    ] {
        let text = refused(&files);
        assert!(text.contains(what) && text.contains("empty"), "{text}");
    }
}

#[test]
fn key_that_every_user_may_read_is_refused() {
    let authority = Authority::new("ca");
    let files = for_all(&authority.issue("open", Kind::Good));
    let set = |mode| fs::set_permissions(&files.key, fs::Permissions::from_mode(mode)).unwrap();
    set(0o640);
    assert!(ServiceTls::load(&files).is_ok());
    set(0o644);
    let text = refused(&files);
    let remedy = format!("chmod 600 {}", files.key.display());
    assert!(
        text.contains("mode 644") && text.contains(&remedy),
        "{text}"
    );
}
