//! From a connection to an encrypted one.
//!
//! A client that asks in clear is recognised by its first byte and told so, in clear: a person who
//! typed `http://` reads what to type instead.

use std::io;
use std::time::Duration;

use synod_tls::{FIRST_BYTE, ServiceTls};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Time limit for a client's first byte and the handshake: less than for its first request, so that
/// it can be told of.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(4);

pub(crate) enum Greeting {
    /// Encrypted. Whether the client has shown a certificate that one of the operator's authorities
    /// has signed.
    Encrypted(Box<TlsStream<TcpStream>>, ClientCertificate),
    Clear(TcpStream),
    /// The client has hung up, and has said nothing: checks of a port do that.
    Silent,
}

/// Whether a client has shown a certificate, which was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientCertificate {
    Shown,
    None,
}

/// Does the handshake. The error is a sentence without its subject, the client, and its full stop.
pub(crate) async fn greet(stream: TcpStream, tls: &ServiceTls) -> Result<Greeting, String> {
    match tokio::time::timeout(HANDSHAKE_LIMIT, begin(stream, tls)).await {
        Ok(greeting) => greeting.map_err(|error| tls.why_failed(&error)),
        Err(_) => Err(format!(
            "it has not finished the handshake within {} s",
            HANDSHAKE_LIMIT.as_secs()
        )),
    }
}

async fn begin(stream: TcpStream, tls: &ServiceTls) -> io::Result<Greeting> {
    let mut first = [0];
    if stream.peek(&mut first).await? == 0 {
        return Ok(Greeting::Silent);
    }
    if first[0] != FIRST_BYTE {
        return Ok(Greeting::Clear(stream));
    }
    let stream = TlsAcceptor::from(tls.config()).accept(stream).await?;
    let (_, session) = stream.get_ref();
    let shown = match session.peer_certificates() {
        Some(chain) if !chain.is_empty() => ClientCertificate::Shown,
        _ => ClientCertificate::None,
    };
    Ok(Greeting::Encrypted(Box::new(stream), shown))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tokio::net::TcpListener;

    use super::*;
    use crate::encryption::test_certificates::{Authority, Kind};

    /// Result for a client that sends these bytes, and then nothing. Time is made to pass while all
    /// wait.
    async fn greeting_of(tls: &ServiceTls, bytes: &[u8], hangs_up: bool) -> String {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = std::net::TcpStream::connect(address).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        client.write_all(bytes).unwrap();
        let kept = (!hangs_up).then_some(client);
        let greeting = match greet(stream, tls).await {
            Ok(Greeting::Encrypted(..)) => "encrypted".to_owned(),
            Ok(Greeting::Clear(_)) => "clear".to_owned(),
            Ok(Greeting::Silent) => "silent".to_owned(),
            Err(why) => why,
        };
        drop(kept);
        greeting
    }

    #[test]
    fn client_that_hangs_is_let_go_and_one_in_clear_is_recognised() {
        let authority = Authority::new("ca");
        let tls = ServiceTls::load(&authority.issue("one", Kind::Good)).unwrap();
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let builder = builder.enable_io().enable_time().start_paused(true);
        builder.build().unwrap().block_on(async {
            for begun in [&b""[..], b"\x16", b"\x16\x03\x01\x01\x00\x01"] {
                let why = greeting_of(&tls, begun, false).await;
                assert!(why.contains("not finished the handshake"), "{why}");
            }
            assert_eq!(greeting_of(&tls, b"", true).await, "silent");
            assert_eq!(
                greeting_of(&tls, b"GET / HTTP/1.0\r\n", false).await,
                "clear"
            );
            let why = greeting_of(&tls, b"\x16\x03\x01", true).await;
            assert!(why.contains("eof"), "{why}");
            let why = greeting_of(&tls, b"\x16nonsense of a stranger", false).await;
            assert!(why.starts_with("TLS failed: "), "{why}");
        });
    }
}
