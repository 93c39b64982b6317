//! Encryption to a server that is no member: the upstream of a relay.
//!
//! The server shows a certificate, which one of the operator's authorities must have signed. This
//! side shows none. Only TLS 1.3 is spoken, as everywhere else.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection};

use super::certificate::{self, SettingFile};
use super::error::TlsError;
use super::peer_verifier::PeerVerifier;
use super::processor;
use super::refused_peer::foreign_text;

/// Name, in texts, of the authorities that the operator has named.
const AUTHORITIES: &str = "the upstream's authorities";
/// Name, in texts, of the connection for which they are read.
const SWITCH: &str = "the connection to the upstream";

#[derive(Clone)]
pub struct ForeignTls {
    config: Arc<ClientConfig>,
}

impl ForeignTls {
    /// Reads the authorities. `checks_name`: the certificate must have the name that the server is
    /// reached by.
    pub fn load(authorities: &Path, checks_name: bool) -> Result<ForeignTls, TlsError> {
        let provider = Arc::new(processor::provider(SWITCH)?);
        let file = SettingFile {
            setting: AUTHORITIES,
            switch: SWITCH,
            path: authorities,
        };
        let algorithms = provider.signature_verification_algorithms;
        let verifier = PeerVerifier::new(certificate::read(file)?, algorithms);
        let mut verifier = verifier.map_err(|reason| file.unreadable(reason))?;
        if checks_name {
            verifier = verifier.with_names();
        }
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(TlsError::library)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        // As between members: every connection checks the certificate again.
        config.resumption = Resumption::disabled();
        Ok(ForeignTls {
            config: Arc::new(config),
        })
    }

    /// The state of a connection to a server with this name or address, before its handshake.
    pub fn session(&self, host: &str) -> Result<ClientConnection, TlsError> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| TlsError::Library(format!("'{host}': {error}")))?;
        ClientConnection::new(self.config.clone(), name).map_err(TlsError::library)
    }

    /// Why a handshake or a connection failed. The text speaks of the server as "it".
    pub fn why_failed(error: &io::Error) -> String {
        foreign_text(error, AUTHORITIES)
    }
}

impl fmt::Debug for ForeignTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignTls").finish_non_exhaustive()
    }
}
