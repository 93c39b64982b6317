//! Encryption of a service whose clients are no members: browsers, load balancers, monitoring.
//!
//! The service shows its certificate, which clients check as they check any server's. Clients need
//! none. If the operator names authorities, a client may show one that they have signed: the
//! service is told, and decides what that opens. One of other authorities is refused.

use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, fs, io};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::UnixTime;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::certificate::{self, Certificate, SettingFile};
use super::error::TlsError;
use super::own::OwnFiles;
use super::refused_peer::client_text;
use super::secret::mode_open_to_all;
use super::settings::{TlsFiles, TlsSettingNames};

/// Time for which changed files must stay the same before they are read.
const SETTLED: Duration = Duration::from_secs(1);

pub struct ServiceTls {
    config: Arc<ServerConfig>,
    summary: String,
    valid_until_unix: u64,
    warning: Option<String>,
    names: TlsSettingNames,
}

/// The weight of a certificate outside its dates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dates {
    Required,
    /// A warning: clients judge it.
    Told,
}

impl ServiceTls {
    /// Reads the files, and checks them. [`TlsFiles::authorities`] are those of clients; if there
    /// are none, no client is asked for a certificate.
    pub fn load(files: &TlsFiles) -> Result<ServiceTls, TlsError> {
        ServiceTls::load_with(files, Dates::Required)
    }

    fn load_with(files: &TlsFiles, dates: Dates) -> Result<ServiceTls, TlsError> {
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

    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    /// Does the handshake with a client on a connected socket, whose timeouts hold for it.
    /// [`ServiceTls::why_failed`] says why it failed.
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
        client_text(error, &self.names)
    }
}

#[derive(Debug)]
pub struct ServiceStream<S: Read + Write>(StreamOwned<ServerConnection, S>);

impl<S: Read + Write> ServiceStream<S> {
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

/// A service's certificate, key and authorities, as their files have them now.
///
/// Programs that renew certificates replace the files and tell no process. So each connection has
/// the files looked at (not read), and changed files are read. They are read once they have been
/// left alone for a moment: certificate and key change one after the other. Files that cannot be
/// used are told once, and what was read before stays in use.
///
/// A certificate outside its dates is used at the start, since clients judge it and not all of them
/// look at the dates; it never takes the place of another one.
#[derive(Debug)]
pub struct ServiceCertificates {
    files: TlsFiles,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// None that could be used at the start: why.
    in_use: Result<Arc<ServiceTls>, Arc<TlsError>>,
    /// The files as they were when they were last read, whether they could be used or not.
    read: Stamps,
    /// Files that differ from those, and since when they are like this.
    changed: Option<(Stamps, Instant)>,
}

/// Fingerprint of a file's version; none while there is no file.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

type Stamps = Vec<Stamp>;

#[derive(Debug)]
pub enum Reading {
    InUse(Arc<ServiceTls>),
    /// They cannot be used; those read before stay in use.
    Refused(TlsError),
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reading::InUse(tls) => write!(f, "new connections use {}", tls.summary()),
            Reading::Refused(error) => write!(
                f,
                "the files of TLS cannot be used, those read before stay in use: {error}"
            ),
        }
    }
}

impl ServiceCertificates {
    /// Reads the files. Their [`TlsFiles::authorities`] are those of clients.
    pub fn read(files: TlsFiles) -> Result<ServiceCertificates, TlsError> {
        // Before the files are read: what changes meanwhile is noticed.
        let read = stamps_of(&files);
        let loaded = ServiceTls::load_with(&files, Dates::Told)?;
        Ok(ServiceCertificates::new(files, read, Ok(Arc::new(loaded))))
    }

    /// Reads the files, for a program that runs without them, too.
    pub fn begin(files: TlsFiles) -> ServiceCertificates {
        let read = stamps_of(&files);
        let loaded = ServiceTls::load_with(&files, Dates::Told);
        let in_use = loaded.map(Arc::new).map_err(Arc::new);
        ServiceCertificates::new(files, read, in_use)
    }

    fn new(
        files: TlsFiles,
        read: Stamps,
        in_use: Result<Arc<ServiceTls>, Arc<TlsError>>,
    ) -> ServiceCertificates {
        let state = Mutex::new(State {
            in_use,
            read,
            changed: None,
        });
        ServiceCertificates { files, state }
    }

    /// Whether clients can show a certificate instead of a token.
    pub fn knows_clients(&self) -> bool {
        self.files.authorities.is_some()
    }

    /// Certificates for new connections; an error if the files could never be used.
    pub fn in_use(&self) -> Result<Arc<ServiceTls>, Arc<TlsError>> {
        self.state().in_use.clone()
    }

    /// Reads the files if they have changed; none: they have not, or have just now.
    pub fn follow_files(&self, now: Instant) -> Option<Reading> {
        let found = stamps_of(&self.files);
        let mut state = self.state();
        if found == state.read {
            state.changed = None;
            return None;
        }
        match &state.changed {
            Some((seen, since)) if *seen == found => {
                let is_settled = now.saturating_duration_since(*since) >= SETTLED;
                is_settled.then(|| self.read_into(&mut state, found))
            }
            _ => {
                state.changed = Some((found, now));
                None
            }
        }
    }

    pub fn read_again(&self) -> Reading {
        let found = stamps_of(&self.files);
        self.read_into(&mut self.state(), found)
    }

    fn read_into(&self, state: &mut State, stamps: Stamps) -> Reading {
        state.read = stamps;
        state.changed = None;
        match ServiceTls::load(&self.files) {
            Ok(fresh) => {
                let fresh = Arc::new(fresh);
                state.in_use = Ok(fresh.clone());
                Reading::InUse(fresh)
            }
            Err(error) => Reading::Refused(error),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stamps_of(files: &TlsFiles) -> Stamps {
    let required = [&files.certificate, &files.key].into_iter();
    let all = required.chain(&files.authorities).chain(&files.password);
    all.map(|path| stamp_of(path)).collect()
}

/// The time of the last change of content, owner or mode, which no program can set back; and the
/// identity, for a file that was moved into the place.
fn stamp_of(path: &Path) -> Stamp {
    let known = fs::metadata(path).ok()?;
    Some((
        known.dev(),
        known.ino(),
        known.size(),
        known.ctime(),
        known.ctime_nsec(),
    ))
}
