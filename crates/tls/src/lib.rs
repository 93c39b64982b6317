//! Encrypted connections between members: TLS 1.3, with a certificate at both ends.
//!
//! # Rules
//!
//! - A connection is encrypted from its first byte or not at all.
//! - A peer proves that it belongs to the group by a certificate that one of the operator's
//!   authorities has signed. Names in it are not compared (`docs/decisions/008-tls.md`).
//! - Own certificates are checked at start as a peer would check them; any error ends the start.
//! - Every connection presents its certificate again: there is no resumption, so an expired or
//!   replaced certificate does not live on.
//! - This crate knows sockets as [`Read`] and [`Write`] only, and no message. Timeouts are the
//!   socket's. It names settings in the host's spelling ([`TlsSettingNames`]).
//!
//! # Use
//!
//! [`Tls::load`] reads the files ([`TlsFiles`]) and reports what is wrong with them.
//! [`Tls::connect`] and [`Tls::accept`] do the handshake on a connected socket and give a
//! [`TlsStream`], over which frames travel as over the bare socket. It knows what its peer has
//! proven ([`TlsStream::peer`]). The called side knows an encrypting caller by [`FIRST_BYTE`].
#![forbid(unsafe_code)]

mod certificate;
mod cipher;
mod error;
mod key;
mod peer;
mod processor;
mod session;
mod settings;
mod verify;
mod x509;

use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};

pub use certificate::DatesError;
pub use cipher::names_tls13_suite;
pub use error::{TlsError, TlsHandshakeError};
pub use peer::{PeerCredential, SUBJECT_BYTES_MAX};
pub use session::{FIRST_BYTE, TlsStream};
pub use settings::{TlsFiles, TlsSettingNames};

use certificate::{Certificate, SettingFile};
use verify::PeerVerifier;

/// Everything that encrypted connections of a member need, ready for use. A connection keeps the
/// certificate that it began with.
#[derive(Clone)]
pub struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    summary: String,
    /// How texts call the settings.
    names: TlsSettingNames,
}

impl Tls {
    /// Reads the files, and checks them as a peer with the same authorities would.
    ///
    /// # Errors
    /// With the file and the remedy.
    pub fn load(files: &TlsFiles) -> Result<Tls, TlsError> {
        let names = files.names;
        processor::check(names.switch)?;
        let mut provider = rustls_graviola::default_provider();
        provider.cipher_suites = cipher::select(&files.ciphers, names.ciphers)?;
        let provider = Arc::new(provider);
        let file = |setting, path| SettingFile {
            setting,
            switch: names.switch,
            path,
        };
        let certificate_file = file(names.certificate, &files.certificate);
        let chain = certificate::read(certificate_file)?;
        let own =
            Certificate::parse(&chain[0]).map_err(|reason| certificate_file.unreadable(reason))?;
        let (authorities_file, authorities) = match &files.authorities {
            Some(path) => {
                let authorities_file = file(names.authorities, path);
                (authorities_file, certificate::read(authorities_file)?)
            }
            None => (certificate_file, vec![chain[0].clone()]),
        };
        let algorithms = provider.signature_verification_algorithms;
        let verifier = PeerVerifier::new(authorities, algorithms);
        let verifier = Arc::new(verifier.map_err(|reason| authorities_file.unreadable(reason))?);
        check_own(files, &own, &chain, &verifier, authorities_file)?;
        let key = key::read(files, &provider)?;
        if key
            .public_key()
            .is_some_and(|public| *public != *own.public_key())
        {
            return Err(TlsError::KeyMismatch {
                key_setting: names.key,
                certificate_setting: names.certificate,
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
        let identity = CertifiedKey::new(chain.clone(), key);
        let identity = Arc::new(SingleCertAndKey::from(identity));
        Ok(Tls {
            client: Arc::new(client_config(&provider, &verifier, &identity)?),
            server: Arc::new(server_config(&provider, verifier, identity)?),
            summary,
            names,
        })
    }

    /// The certificate and how long it is valid, as a text for the log.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// The caller's side of the handshake, on a connected socket. Bounds in time are the socket's.
    ///
    /// # Errors
    /// If the peer speaks no TLS, or has no acceptable certificate. Whether the peer accepts this
    /// member's certificate shows only at the first read (TLS 1.3).
    pub fn connect<S: Read + Write>(&self, socket: S) -> Result<TlsStream<S>, TlsHandshakeError> {
        // Required by the interface; neither sent nor compared.
        let name = ServerName::try_from("member.synod.invalid")
            .map_err(|error| TlsHandshakeError::Failed(error.to_string()))?;
        let client = ClientConnection::new(self.client.clone(), name)
            .map_err(|error| TlsHandshakeError::from_tls(&error, &self.names))?;
        TlsStream::handshake(client.into(), socket, self.names)
    }

    /// The called side of the handshake, on a connected socket.
    ///
    /// # Errors
    /// As [`Tls::connect`]; the peer has received the reason as a TLS alert.
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

/// Checks this member's own certificate as a peer with the same authorities would.
fn check_own(
    files: &TlsFiles,
    own: &Certificate<'_>,
    chain: &[CertificateDer<'_>],
    verifier: &PeerVerifier,
    authorities: SettingFile<'_>,
) -> Result<(), TlsError> {
    let names = files.names;
    own.check_dates(UnixTime::now())
        .map_err(|reason| TlsError::Dates {
            setting: names.certificate,
            path: files.certificate.clone(),
            reason,
        })?;
    for usage in verify::USAGES {
        verifier
            .check(&chain[0], &chain[1..], UnixTime::now(), usage)
            .map_err(|error| TlsError::NotAccepted {
                certificate_setting: names.certificate,
                authorities_setting: authorities.setting,
                certificate: files.certificate.clone(),
                authorities: authorities.path.to_owned(),
                reason: error::certificate_text(&error, &names),
            })?;
    }
    Ok(())
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
    // No resumption: every connection presents its certificate, so an expired or replaced one does
    // not live on in a ticket.
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
