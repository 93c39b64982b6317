//! Certificates of a service follow their files.

#[path = "support/certificates.rs"]
mod certificates;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use certificates::{Authority, Kind};
use synod_tls::{Reading, ServiceCertificates, TlsError};

/// Changed files are read when they have been left alone for so long.
const SETTLED: Duration = Duration::from_secs(1);

/// Certificates for new connections, as text.
fn summary(certificates: &ServiceCertificates) -> String {
    certificates.in_use().unwrap().summary().to_owned()
}

fn copy(from: &Path, to: &Path) {
    fs::copy(from, to).unwrap();
}

#[test]
fn changed_files_are_read_when_they_have_been_left_alone_for_a_moment() {
    let authority = Authority::new("ca");
    let files = authority.issue("one", Kind::Good);
    let next = authority.issue("two", Kind::Good);
    let certificates = ServiceCertificates::read(files.clone()).unwrap();
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
    let certificates = ServiceCertificates::read(files.clone()).unwrap();
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
    let certificates = ServiceCertificates::read(files.clone()).unwrap();
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

#[test]
fn certificate_outside_its_dates_is_used_at_the_start_with_a_warning_and_replaces_no_other() {
    let authority = Authority::new("ca");
    let old = authority.issue("old", Kind::Expired);
    let certificates = ServiceCertificates::read(old.clone()).unwrap();
    let warning = certificates.in_use().unwrap().warning().map(str::to_owned);
    let warning = warning.unwrap();
    assert!(
        warning.contains("old.pem") && warning.contains("expired at"),
        "{warning}"
    );

    let good = authority.issue("good", Kind::Good);
    copy(&good.certificate, &old.certificate);
    copy(&good.key, &old.key);
    let Reading::InUse(tls) = certificates.read_again() else {
        panic!("a good certificate is refused")
    };
    assert_eq!(tls.warning(), None);
    let expired = authority.issue("expired", Kind::Expired);
    copy(&expired.certificate, &old.certificate);
    copy(&expired.key, &old.key);
    let refused = certificates.read_again().to_string();
    assert!(
        refused.contains("those read before stay in use"),
        "{refused}"
    );
    assert!(summary(&certificates).contains("CN=good"));
}

#[test]
fn files_that_are_missing_at_the_start_are_used_once_they_are_there() {
    let authority = Authority::new("ca");
    let files = authority.issue("one", Kind::Good);
    let key = files.key.with_extension("away");
    fs::rename(&files.key, &key).unwrap();
    assert!(ServiceCertificates::read(files.clone()).is_err());
    let certificates = ServiceCertificates::begin(files.clone());
    let start = Instant::now();
    assert!(
        certificates
            .in_use()
            .unwrap_err()
            .to_string()
            .contains("one.key")
    );
    assert!(certificates.follow_files(start).is_none());
    fs::rename(&key, &files.key).unwrap();
    assert!(certificates.follow_files(start).is_none());
    assert!(certificates.follow_files(start + SETTLED).is_some());
    assert!(summary(&certificates).contains("CN=one"));
}
