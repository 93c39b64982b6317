//! Encrypted connections between members: TLS 1.3, with a credential at both ends.
//!
//! - A connection is encrypted from its first byte or not at all.
//! - A peer proves that it belongs to the group by a certificate that one of the operator's
//!   authorities has signed, or by the group's secret. Names in a certificate are not compared with
//!   addresses (decision 006).
//! - Own certificates are checked at start as a peer would check them; any error ends the start.
//! - Every connection presents its credential again: there is no resumption, so an expired or
//!   replaced one does not live on.
//! - This crate knows sockets as [`Read`] and [`Write`] only, and no message. Timeouts are the
//!   socket's. It names settings in the host's spelling ([`TlsSettingNames`]).
//! - The called side knows an encrypting caller by [`FIRST_BYTE`].
#![forbid(unsafe_code)]

mod by_certificates;
mod by_secret;
mod certificate;
mod error;
mod foreign;
mod own;
mod peer_verifier;
mod processor;
mod refused_peer;
mod secret;
mod service;
mod session;
mod settings;

use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ResolvesServerCert};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};

pub use certificate::{DatesError, SUBJECT_BYTES_MAX};
pub use error::{TlsError, TlsHandshakeError};
pub use foreign::ForeignTls;
pub use own::names_tls13_suite;
pub use secret::{
    GroupSecret, SECRET_BYTES, SecretFile, SecretFileError, SecretLineError, mode_open_to_all,
};
pub use service::{Reading, ServiceCertificates, ServiceStream, ServiceTls};
pub use session::{FIRST_BYTE, PeerCredential, TlsStream};
pub use settings::{Credentials, TlsFiles, TlsSettingNames};

use by_secret::SecretVerifier;
use settings::CredentialNames;

/// A connection keeps the credential that it began with.
#[derive(Clone)]
pub struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    summary: String,
    /// Subject of this member's certificate; none with a secret.
    subject: Option<String>,
    /// The certificate's last moment, in seconds since 1970; none with a secret.
    valid_until_unix: Option<u64>,
    names: CredentialNames,
    acceptance: Acceptance,
}

#[derive(Clone)]
enum Acceptance {
    /// Certificates; what was accepted once stays so until the connection ends.
    Authorities,
    Secrets(Arc<SecretVerifier>),
}

impl Tls {
    /// The certificate and how long it is valid, or the names of the secrets: a text for the log.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// The subject of this member's certificate, as its peers see it
    /// ([`PeerCredential::Certificate`]); none with a secret.
    pub fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// The last moment at which this member's certificate is valid, in seconds since 1970; none
    /// with a secret, which does not expire.
    pub fn valid_until_unix(&self) -> Option<u64> {
        self.valid_until_unix
    }

    /// Whether a connection that earlier credentials have accepted may stay open: with a secret,
    /// only if the peer's secret is one of those accepted now. Certificates are not checked again.
    pub fn accepts(&self, peer: &PeerCredential) -> bool {
        self.acceptance.accepts(peer)
    }

    /// The caller's side of the handshake, on a connected socket. Bounds in time are the socket's.
    /// Whether the peer accepts this member's certificate shows only at the first read (TLS 1.3).
    pub fn connect<S: Read + Write>(&self, socket: S) -> Result<TlsStream<S>, TlsHandshakeError> {
        // Required by the interface; neither sent nor compared.
        let name = ServerName::try_from("member.synod.invalid")
            .map_err(|error| TlsHandshakeError::Failed(error.to_string()))?;
        let client = ClientConnection::new(self.client.clone(), name)
            .map_err(|error| TlsHandshakeError::from_tls(&error, &self.names))?;
        TlsStream::handshake(client.into(), socket, self.names)
    }

    /// The called side of the handshake; if it fails, the peer has received the reason as a TLS
    /// alert.
    pub fn accept<S: Read + Write>(&self, socket: S) -> Result<TlsStream<S>, TlsHandshakeError> {
        let server = ServerConnection::new(self.server.clone())
            .map_err(|error| TlsHandshakeError::from_tls(&error, &self.names))?;
        TlsStream::handshake(server.into(), socket, self.names)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("summary", &self.summary)
            .finish()
    }
}

/// Verifier of peers and own credential, for both ends.
struct Ends {
    provider: Arc<CryptoProvider>,
    of_server: Arc<dyn ServerCertVerifier>,
    of_client: Arc<dyn ClientCertVerifier>,
    as_client: Arc<dyn ResolvesClientCert>,
    as_server: Arc<dyn ResolvesServerCert>,
}

impl Ends {
    fn client(&self) -> Result<ClientConfig, TlsError> {
        let mut config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(TlsError::library)?
            .dangerous()
            .with_custom_certificate_verifier(self.of_server.clone())
            .with_client_cert_resolver(self.as_client.clone());
        config.enable_sni = false;
        // No resumption: every connection presents its credential, so an expired or replaced one
        // does not live on in a ticket.
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    fn server(&self) -> Result<ServerConfig, TlsError> {
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(TlsError::library)?
            .with_client_cert_verifier(self.of_client.clone())
            .with_cert_resolver(self.as_server.clone());
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}
