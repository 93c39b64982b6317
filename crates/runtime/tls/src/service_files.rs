//! A service's certificate, key and authorities, as their files have them now.
//!
//! Programs that renew certificates replace the files and tell no process. So each connection has
//! the files looked at (not read), and changed files are read. They are read once they have been
//! left alone for a moment: certificate and key change one after the other. Files that cannot be
//! used are told once, and what was read before stays in use.
//!
//! A certificate outside its dates is used at the start, since clients judge it and not all of them
//! look at the dates; it never takes the place of another one.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::error::TlsError;
use super::service::{Dates, ServiceTls};
use super::settings::TlsFiles;

/// Time for which changed files must stay the same before they are read.
const SETTLED: Duration = Duration::from_secs(1);

/// The files, and what was read last.
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

/// Result of reading the files again.
#[derive(Debug)]
pub enum Reading {
    InUse(Arc<ServiceTls>),
    /// They cannot be used; those read before stay in use.
    Refused(TlsError),
}

impl std::fmt::Display for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
    ///
    /// # Errors
    /// They cannot be used, with the file and the remedy.
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

    /// Certificates for new connections.
    ///
    /// # Errors
    /// The files could never be used, with the file and the remedy.
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

    /// Reads the files at once, by order of the operator.
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
    let known = std::fs::metadata(path).ok()?;
    Some((
        known.dev(),
        known.ino(),
        known.size(),
        known.ctime(),
        known.ctime_nsec(),
    ))
}
