//! Encryption of a service whose clients are no members: browsers, load balancers, monitoring.
//!
//! The service shows its certificate, which clients check as they check any server's. Clients need
//! none. If the operator names authorities, a client may show one that they have signed: the
//! service is told, and decides what that opens. One of other authorities is refused.

use std::fs;
use std::io::{Read, Write};
use std::sync::Arc;
use std::{fmt, io};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::UnixTime;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::certificate::{self, Certificate, SettingFile};
use super::error::{self, TlsError};
use super::file_mode::mode_open_to_all;
use super::own::OwnFiles;
use super::processor;
use super::settings::{TlsFiles, TlsSettingNames};

/// Everything that encrypted connections of a service need.
pub struct ServiceTls {
    config: Arc<ServerConfig>,
    summary: String,
    valid_until_unix: u64,
    warning: Option<String>,
    names: TlsSettingNames,
}

/// The weight of a certificate outside its dates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dates {
    Required,
    /// A warning: clients judge it.
    Told,
}

impl ServiceTls {
    /// Reads the files, and checks them. [`TlsFiles::authorities`] are those of clients; if there
    /// are none, no client is asked for a certificate.
    ///
    /// # Errors
    /// With the file and the remedy.
    pub fn load(files: &TlsFiles) -> Result<ServiceTls, TlsError> {
        ServiceTls::load_with(files, Dates::Required)
    }

    pub(super) fn load_with(files: &TlsFiles, dates: Dates) -> Result<ServiceTls, TlsError> {
        processor::check(files.names.switch)?;
        let own_files = OwnFiles::read(files)?;
        let own = own_files.certificate()?;
        let warning = match (own_files.check_dates(&own), dates) {
            (Ok(()), _) => None,
            (Err(error), Dates::Required) => return Err(error),
            (Err(error), Dates::Told) => Some(error.to_string()),
        };
        check_closed(SettingFile::key(files))?;
        let identity = own_files.identity(&own)?;
        let clients = clients(files, &own_files.provider)?;
        let mut config = ServerConfig::builder_with_provider(own_files.provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(TlsError::library)?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
        // As between members: what a client has shown once does not live on in a ticket.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(ServiceTls {
            config: Arc::new(config),
            summary: own_files.summary(&own),
            valid_until_unix: own.valid_until_unix(),
            warning,
            names: files.names,
        })
    }

    /// For the library that does the handshakes.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    /// Does the handshake with a client on a connected socket, whose timeouts hold for it.
    ///
    /// # Errors
    /// [`ServiceTls::why_failed`] says why.
    pub fn accept<S: Read + Write>(&self, socket: S) -> io::Result<ServiceStream<S>> {
        let session = ServerConnection::new(self.config()).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(session, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(ServiceStream(stream))
    }

    /// The certificate and how long it is valid: a text for the log.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// The error that a client finds in the dates of the certificate; none: they were right when
    /// the files were read.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// The last moment at which the certificate is valid, in seconds since 1970.
    pub fn valid_until_unix(&self) -> u64 {
        self.valid_until_unix
    }

    /// Why a handshake with a client failed. The text speaks of the client as "it".
    pub fn why_failed(&self, error: &io::Error) -> String {
        error::client_text(error, &self.names)
    }
}

/// An encrypted connection of a client.
#[derive(Debug)]
pub struct ServiceStream<S: Read + Write>(StreamOwned<ServerConnection, S>);

impl<S: Read + Write> ServiceStream<S> {
    /// Underlying socket.
    pub fn socket(&self) -> &S {
        &self.0.sock
    }
}

impl<S: Read + Write> Read for ServiceStream<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<S: Read + Write> Write for ServiceStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl fmt::Debug for ServiceTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceTls")
            .field("summary", &self.summary)
            .finish()
    }
}

/// Checks that not every user may read the key.
fn check_closed(key: SettingFile<'_>) -> Result<(), TlsError> {
    // A file that cannot be asked cannot be read either, which is told then.
    let Ok(known) = fs::metadata(key.path) else {
        return Ok(());
    };
    match mode_open_to_all(&known) {
        None => Ok(()),
        Some(mode) => Err(TlsError::OpenKey {
            setting: key.setting,
            path: key.path.to_owned(),
            mode,
        }),
    }
}

/// Verifier of clients' certificates, without expired authorities.
fn clients(
    files: &TlsFiles,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let Some(path) = &files.authorities else {
        return Ok(Arc::new(NoClientAuth));
    };
    let file = SettingFile::authorities(files, path);
    let mut roots = RootCertStore::empty();
    let mut last_problem = String::new();
    for der in certificate::read(file)? {
        let authority = Certificate::parse(&der).map_err(|reason| file.unreadable(reason))?;
        if let Err(problem) = authority.check_dates(UnixTime::now()) {
            last_problem = problem.to_string();
            continue;
        }
        let added = roots.add(der.clone());
        added.map_err(|error| file.unreadable(format!("'{}': {error}", authority.subject())))?;
    }
    if roots.is_empty() {
        return Err(file.unreadable(last_problem));
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
    let verifier = verifier.allow_unauthenticated().build();
    verifier.map_err(|error| file.unreadable(error.to_string()))
}
