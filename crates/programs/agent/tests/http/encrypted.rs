//! The same pages over TLS: who gets them, and who is told what.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use synod_tls::{ServiceCertificates, TlsFiles};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::certificates::{Authority, HOST, Kind};
use crate::support::{PATIENCE, TOKEN, agent, ask, get, healthy_server, token};

/// The same without authorities for clients.
fn for_all(files: &TlsFiles) -> TlsFiles {
    TlsFiles {
        authorities: None,
        ..files.clone()
    }
}

fn certificates(files: &TlsFiles) -> Option<ServiceCertificates> {
    Some(ServiceCertificates::read(files.clone()).unwrap())
}

/// A client that trusts this authority, perhaps with a certificate of its own.
fn client(trusted: &Authority, own: Option<&TlsFiles>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(trusted.file()).unwrap();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls_graviola::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots);
    let Some(own) = own else {
        return Arc::new(config.with_no_client_auth());
    };
    let chain = vec![CertificateDer::from_pem_file(&own.certificate).unwrap()];
    let key = PrivateKeyDer::from_pem_file(&own.key).unwrap();
    Arc::new(config.with_client_auth_cert(chain, key).unwrap())
}

type Connection = StreamOwned<ClientConnection, TcpStream>;

fn connect(address: SocketAddr, client: &Arc<ClientConfig>) -> Connection {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let session = ClientConnection::new(client.clone(), HOST.try_into().unwrap());
    StreamOwned::new(session.unwrap(), socket)
}

/// Sends a request over TLS; gives all of the answer.
fn request(address: SocketAddr, client: &Arc<ClientConfig>, request: &str) -> io::Result<String> {
    let mut stream = connect(address, client);
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn encrypted_get(address: SocketAddr, client: &Arc<ClientConfig>, path: &str) -> String {
    request(address, client, &format!("GET {path} HTTP/1.0\r\n\r\n")).unwrap()
}

#[test]
fn pages_are_served_over_tls_by_every_name_of_the_certificate() {
    let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new("ca"));
    let _server = healthy_server(dir.path());
    let files = for_all(&authority.issue("db1", Kind::Good));
    let agent = agent(dir.path(), None, certificates(&files));
    let client = client(&authority, None);
    let check = encrypted_get(agent, &client, "/clustercheck");
    assert!(check.starts_with("HTTP/1.0 200 "), "{check}");
    let named = format!("GET /metrics HTTP/1.0\r\nHost: {HOST}:4580\r\n\r\n");
    let page = request(agent, &client, &named).unwrap();
    assert!(page.contains("\nsynod_up 1\n"), "{page}");
    let expiry = "\nsynod_agent_certificate_expiry_timestamp_seconds ";
    assert!(page.contains(expiry), "{page}");
}

#[test]
fn client_in_clear_is_told_to_encrypt_and_gets_no_page() {
    let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new("ca"));
    let files = for_all(&authority.issue("db1", Kind::Good));
    let token = token(dir.path());
    let agent = agent(dir.path(), Some(token), certificates(&files));
    for path in [
        "/",
        "/metrics",
        "/clustercheck",
        &format!("/?token={TOKEN}"),
    ] {
        let told = get(agent, path);
        assert!(told.starts_with("HTTP/1.0 400 "), "{path}: {told}");
        assert!(
            told.contains("https://") && !told.contains("set-cookie"),
            "{told}"
        );
    }
    let shown = format!("GET /metrics HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    assert!(ask(agent, &shown).starts_with("HTTP/1.0 400 "));
}

#[test]
fn token_and_cookie_work_over_tls_and_the_cookie_is_secure() {
    let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new("ca"));
    let _server = healthy_server(dir.path());
    let files = for_all(&authority.issue("db1", Kind::Good));
    let token = token(dir.path());
    let agent = agent(dir.path(), Some(token), certificates(&files));
    let client = client(&authority, None);
    let refused = encrypted_get(agent, &client, "/health/live");
    assert!(refused.starts_with("HTTP/1.0 401 "), "{refused}");
    let shown = format!("GET /health/live HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    let admitted = request(agent, &client, &shown).unwrap();
    assert!(admitted.starts_with("HTTP/1.0 200 "), "{admitted}");
    let welcome = encrypted_get(agent, &client, &format!("/?token={TOKEN}"));
    let mut lines = welcome.lines();
    let cookie = lines.find_map(|line| line.strip_prefix("set-cookie: "));
    let cookie = cookie.unwrap();
    assert!(
        cookie.ends_with("; HttpOnly; SameSite=Strict; Secure"),
        "{cookie}"
    );
    let pair = cookie.split(';').next().unwrap();
    let again = format!("GET / HTTP/1.0\r\nCookie: {pair}\r\n\r\n");
    let page = request(agent, &client, &again).unwrap();
    assert!(page.starts_with("HTTP/1.0 200 "), "{page}");
}

#[test]
fn certificate_of_a_client_stands_for_the_token() {
    let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new("ca"));
    let _server = healthy_server(dir.path());
    let operators = Authority::new("operators");
    let files = TlsFiles {
        authorities: Some(operators.file()),
        ..authority.issue("db1", Kind::Good)
    };
    let own = operators.issue("prometheus", Kind::Good);
    let known = client(&authority, Some(&own));
    let unknown = client(&authority, None);
    let by_certificate = agent(dir.path(), None, certificates(&files));
    let by_both = agent(dir.path(), Some(token(dir.path())), certificates(&files));
    for (agent, code) in [(by_certificate, "403"), (by_both, "401")] {
        for page in ["/", "/metrics", "/events", "/health/live"] {
            let refused = encrypted_get(agent, &unknown, page);
            assert_eq!(refused.split(' ').nth(1), Some(code), "{page}: {refused}");
            assert!(refused.contains("--cert FILE --key FILE"), "{refused}");
        }
        for page in ["/", "/metrics", "/health/live"] {
            let answer = encrypted_get(agent, &known, page);
            assert!(answer.starts_with("HTTP/1.0 200 "), "{page}: {answer}");
        }
    }
    let shown = format!("GET /metrics HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    let by_token = |agent| request(agent, &unknown, &shown).unwrap();
    assert!(by_token(by_both).starts_with("HTTP/1.0 200 "));
    assert!(by_token(by_certificate).starts_with("HTTP/1.0 403 "));

    let foreign = client(&authority, Some(&authority.issue("eve", Kind::Good)));
    let refused = request(by_both, &foreign, &shown).unwrap_err();
    assert!(refused.to_string().contains("UnknownCA"), "{refused}");
}

/// Certificate and key of the one take the place of those of the other.
fn put_in_place(fresh: &TlsFiles, old: &TlsFiles) {
    fs::rename(&fresh.certificate, &old.certificate).unwrap();
    fs::rename(&fresh.key, &old.key).unwrap();
}

/// The certificate that an agent shows.
fn shown_by(agent: SocketAddr, client: &Arc<ClientConfig>) -> CertificateDer<'static> {
    let mut stream = connect(agent, client);
    stream
        .write_all(b"GET /health/live HTTP/1.0\r\n\r\n")
        .unwrap();
    stream.read_to_string(&mut String::new()).unwrap();
    let chain = stream.conn.peer_certificates().unwrap();
    chain[0].clone().into_owned()
}

fn certificate_in(file: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(file).unwrap()
}

#[test]
fn new_certificates_are_shown_without_a_restart() {
    let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new("ca"));
    let files = for_all(&authority.issue("db1", Kind::Good));
    let agent = agent(dir.path(), None, certificates(&files));
    let client = client(&authority, None);
    let old = certificate_in(&files.certificate);
    assert_eq!(shown_by(agent, &client), old);
    put_in_place(&authority.issue("next", Kind::Good), &files);
    let new = certificate_in(&files.certificate);
    assert_ne!(old, new);
    let deadline = Instant::now() + PATIENCE;
    while shown_by(agent, &client) != new {
        assert!(
            Instant::now() < deadline,
            "the old certificate is shown still"
        );
    }
}

/// Handshakes hang, as many as the agent serves at a time: the next client waits until they are let
/// go.
#[test]
fn handshakes_that_hang_keep_no_client_out_for_long() {
    let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new("ca"));
    let _server = healthy_server(dir.path());
    let files = for_all(&authority.issue("db1", Kind::Good));
    let agent = agent(dir.path(), None, certificates(&files));
    let hanging = |_| {
        let mut stream = TcpStream::connect(agent).unwrap();
        stream.write_all(&[0x16, 3, 1]).unwrap();
        stream
    };
    let hanging: Vec<TcpStream> = (0..64).map(hanging).collect();
    let check = encrypted_get(agent, &client(&authority, None), "/clustercheck");
    assert!(check.starts_with("HTTP/1.0 200 "), "{check}");
    for mut stream in hanging {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let closed = stream.read(&mut [0; 16]);
        assert!(matches!(closed, Ok(0)), "{closed:?}");
    }
}
