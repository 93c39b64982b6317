//! Encrypted connections between members: TLS 1.3, with a certificate at both ends.
//!
//! [`Tls::load`] reads the files and says what is wrong with them; [`Tls::connect`] and
//! [`Tls::accept`] do the handshake on a connected socket and give a [`TlsStream`], over which frames
//! travel as over the bare socket.
//!
//! A peer shows that it belongs here by a certificate that an authority in `socket.ssl_ca` has signed.
//! Names in it are not compared with anything: see `docs/decisions/008-tls.md`.
#![forbid(unsafe_code)]

mod certificate;
mod cipher;
mod error;
mod key;
mod processor;
mod session;
mod verify;
mod x509;

use std::fmt;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};

pub use certificate::DatesError;
pub use cipher::names_tls13_suite;
pub use error::{TlsError, TlsHandshakeError};
pub use session::{FIRST_BYTE, TlsStream};

use certificate::Certificate;
use verify::PeerVerifier;

/// Where the certificates are, as the operator says: the options `socket.ssl_*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// `socket.ssl_cert`: this member's certificate, then those between it and the authority (PEM).
    pub certificate: PathBuf,
    /// `socket.ssl_key`: its private key (PEM).
    pub key: PathBuf,
    /// `socket.ssl_ca`: authorities that sign members' certificates (PEM). Without it this member's own
    /// certificate is the only one that is accepted: all members use the same.
    pub authorities: Option<PathBuf>,
    /// `socket.ssl_password_file`: its first line decrypts the key.
    pub password: Option<PathBuf>,
    /// `socket.ssl_cipher`: names of cipher suites; see [`names_tls13_suite`].
    pub ciphers: String,
}

/// What encrypted connections of a member need. A connection keeps what it began with.
#[derive(Clone)]
pub struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    summary: String,
}

impl Tls {
    /// Reads the files, and checks them as a peer with the same authorities would.
    ///
    /// # Errors
    /// With the file and the remedy.
    pub fn load(files: &TlsFiles) -> Result<Tls, TlsError> {
        processor::check()?;
        let mut provider = rustls_graviola::default_provider();
        provider.cipher_suites = cipher::select(&files.ciphers)?;
        let provider = Arc::new(provider);
        let chain = certificate::read("socket.ssl_cert", &files.certificate)?;
        let own = Certificate::parse(&chain[0]).map_err(|reason| TlsError::Unreadable {
            option: "socket.ssl_cert",
            path: files.certificate.clone(),
            reason,
        })?;
        let (ca_option, ca_path) = match &files.authorities {
            Some(path) => ("socket.ssl_ca", path),
            None => ("socket.ssl_cert", &files.certificate),
        };
        let authorities = match &files.authorities {
            Some(path) => certificate::read("socket.ssl_ca", path)?,
            None => vec![chain[0].clone()],
        };
        let algorithms = provider.signature_verification_algorithms;
        let verifier = Arc::new(
            PeerVerifier::new(authorities, algorithms).map_err(|reason| TlsError::Unreadable {
                option: ca_option,
                path: ca_path.clone(),
                reason,
            })?,
        );
        own.check_dates(UnixTime::now())
            .map_err(|reason| TlsError::Dates {
                path: files.certificate.clone(),
                reason,
            })?;
        for usage in verify::USAGES {
            verifier
                .check(&chain[0], &chain[1..], UnixTime::now(), usage)
                .map_err(|error| TlsError::NotAccepted {
                    certificate: files.certificate.clone(),
                    authorities: ca_path.clone(),
                    reason: error::certificate_text(&error),
                })?;
        }
        let key = key::read(files, &provider)?;
        if key
            .public_key()
            .is_some_and(|public| *public != *own.public_key())
        {
            return Err(TlsError::KeyMismatch {
                key: files.key.clone(),
                certificate: files.certificate.clone(),
            });
        }
        let summary = format!(
            "certificate '{}' of {}, valid until {}",
            own.subject(),
            files.certificate.display(),
            own.valid_until()
        );
        let identity = Arc::new(SingleCertAndKey::from(CertifiedKey::new(
            chain.clone(),
            key,
        )));
        Ok(Tls {
            client: Arc::new(client_config(&provider, &verifier, &identity)?),
            server: Arc::new(server_config(&provider, verifier, identity)?),
            summary,
        })
    }

    /// Which certificate, and until when: for the log.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// The caller's side of the handshake, on a connected socket. Bounds in time are the socket's.
    ///
    /// # Errors
    /// If the peer speaks no TLS, or has no acceptable certificate. Whether it accepts ours shows only
    /// at the first read (TLS 1.3).
    pub fn connect<S: Read + Write>(&self, socket: S) -> Result<TlsStream<S>, TlsHandshakeError> {
        // Required by the interface; neither sent nor compared.
        let name = ServerName::try_from("member.synod.invalid")
            .map_err(|error| TlsHandshakeError::Failed(error.to_string()))?;
        let client = ClientConnection::new(self.client.clone(), name)
            .map_err(|error| TlsHandshakeError::from_tls(&error))?;
        TlsStream::handshake(client.into(), socket)
    }

    /// The called side's.
    ///
    /// # Errors
    /// As [`Tls::connect`]; the peer has been told.
    pub fn accept<S: Read + Write>(&self, socket: S) -> Result<TlsStream<S>, TlsHandshakeError> {
        let server = ServerConnection::new(self.server.clone())
            .map_err(|error| TlsHandshakeError::from_tls(&error))?;
        TlsStream::handshake(server.into(), socket)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("summary", &self.summary)
            .finish()
    }
}

fn client_config(
    provider: &Arc<CryptoProvider>,
    verifier: &Arc<PeerVerifier>,
    identity: &Arc<SingleCertAndKey>,
) -> Result<ClientConfig, TlsError> {
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(TlsError::library)?
        .dangerous()
        .with_custom_certificate_verifier(verifier.clone())
        .with_client_cert_resolver(identity.clone());
    config.enable_sni = false;
    // Every connection shows its certificate: an expired or replaced one does not live on in a ticket.
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn server_config(
    provider: &Arc<CryptoProvider>,
    verifier: Arc<PeerVerifier>,
    identity: Arc<SingleCertAndKey>,
) -> Result<ServerConfig, TlsError> {
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(TlsError::library)?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(identity);
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}
