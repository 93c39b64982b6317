//! The agent's certificate, key and authorities, as their files have them now.
//!
//! Programs that renew certificates replace the files and tell no process. So each connection has
//! the files looked at (not read), and changed files are read. They are read once they have been
//! left alone for a moment: certificate and key change one after the other. Files that cannot be
//! used are told once, and what was read before stays in use.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use synod_tls::{ServiceTls, TlsError, TlsFiles};

/// How long changed files must stay as they are before they are read.
const SETTLED: Duration = Duration::from_secs(1);

/// The files, and what was read last.
#[derive(Debug)]
pub struct Certificates {
    files: TlsFiles,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    in_use: Arc<ServiceTls>,
    /// The files as they were when they were last read, whether they could be used or not.
    read: Stamps,
    /// Files that differ from those, and since when they are like this.
    changed: Option<(Stamps, Instant)>,
}

/// What tells that a file has changed; none while there is no file.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

/// Of all files.
type Stamps = Vec<Stamp>;

/// What became of files that were read again.
#[derive(Debug)]
pub(crate) enum Reading {
    /// They are in use.
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

impl Certificates {
    /// Reads the files. Their [`TlsFiles::authorities`] are those of clients.
    ///
    /// # Errors
    /// With the file and the remedy.
    pub fn read(files: TlsFiles) -> Result<Certificates, TlsError> {
        // Before the files are read: what changes meanwhile is noticed.
        let read = stamps_of(&files);
        let in_use = Arc::new(ServiceTls::load(&files)?);
        let state = Mutex::new(State {
            in_use,
            read,
            changed: None,
        });
        Ok(Certificates { files, state })
    }

    /// Whether clients can show a certificate instead of a token.
    pub(crate) fn knows_clients(&self) -> bool {
        self.files.authorities.is_some()
    }

    /// What new connections use.
    pub(crate) fn in_use(&self) -> Arc<ServiceTls> {
        self.state().in_use.clone()
    }

    /// Reads the files if they have changed; none: they have not, or have just now.
    pub(crate) fn follow_files(&self, now: Instant) -> Option<Reading> {
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
    pub(crate) fn read_again(&self) -> Reading {
        let found = stamps_of(&self.files);
        self.read_into(&mut self.state(), found)
    }

    fn read_into(&self, state: &mut State, stamps: Stamps) -> Reading {
        state.read = stamps;
        state.changed = None;
        match ServiceTls::load(&self.files) {
            Ok(fresh) => {
                state.in_use = Arc::new(fresh);
                Reading::InUse(state.in_use.clone())
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::encryption::test_certificates::{Authority, Kind};

    /// What new connections use.
    fn summary(certificates: &Certificates) -> String {
        certificates.in_use().summary().to_owned()
    }

    fn copy(from: &Path, to: &Path) {
        fs::copy(from, to).unwrap();
    }

    #[test]
    fn changed_files_are_read_when_they_have_been_left_alone_for_a_moment() {
        let authority = Authority::new("ca");
        let files = authority.issue("one", Kind::Good);
        let next = authority.issue("two", Kind::Good);
        let certificates = Certificates::read(files.clone()).unwrap();
        let start = Instant::now();
        assert!(certificates.follow_files(start).is_none());

        copy(&next.certificate, &files.certificate);
        assert!(certificates.follow_files(start).is_none());
        copy(&next.key, &files.key);
        let half = start + SETTLED / 2;
        assert!(certificates.follow_files(half).is_none(), "changed again");
        assert!(certificates.follow_files(start + SETTLED).is_none());
        assert!(summary(&certificates).contains("CN=one"));
        let reading = certificates.follow_files(half + SETTLED).unwrap();
        assert!(reading.to_string().contains("CN=two"), "{reading}");
        assert!(summary(&certificates).contains("CN=two"));
        assert!(certificates.follow_files(half + 9 * SETTLED).is_none());
    }

    #[test]
    fn files_that_cannot_be_used_are_told_once_and_change_nothing() {
        let authority = Authority::new("ca");
        let files = authority.issue("one", Kind::Good);
        let next = authority.issue("two", Kind::Good);
        let certificates = Certificates::read(files.clone()).unwrap();
        let start = Instant::now();
        let at = |moments: u32| certificates.follow_files(start + moments * SETTLED);

        copy(&next.certificate, &files.certificate);
        assert!(at(0).is_none());
        let refused = at(1).unwrap().to_string();
        let key = files.key.display().to_string();
        assert!(refused.contains("does not belong to") && refused.contains(&key));
        assert!(at(2).is_none() && at(3).is_none(), "told once");
        assert!(summary(&certificates).contains("CN=one"));

        fs::remove_file(&files.key).unwrap();
        assert!(at(4).is_none());
        assert!(matches!(
            at(5),
            Some(Reading::Refused(TlsError::Read { .. }))
        ));
        fs::rename(&next.key, &files.key).unwrap();
        assert!(at(6).is_none());
        assert!(matches!(at(7), Some(Reading::InUse(_))));
        assert!(summary(&certificates).contains("CN=two"));
    }

    #[test]
    fn an_order_has_the_files_read_at_once() {
        let authority = Authority::new("ca");
        let files = authority.issue("one", Kind::Good);
        let certificates = Certificates::read(files.clone()).unwrap();
        let next = authority.issue("two", Kind::Good);
        copy(&next.certificate, &files.certificate);
        copy(&next.key, &files.key);
        assert!(matches!(certificates.read_again(), Reading::InUse(_)));
        assert!(summary(&certificates).contains("CN=two"));
        assert!(certificates.follow_files(Instant::now()).is_none());
        fs::write(&files.key, "no key").unwrap();
        assert!(matches!(certificates.read_again(), Reading::Refused(_)));
        assert!(summary(&certificates).contains("CN=two"));
    }
}
