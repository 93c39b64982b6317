//! An authority, and certificates for members, made for one test.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use graviola::signing::eddsa::Ed25519SigningKey;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    PKCS_ED25519, PublicKeyData, SerialNumber, SignatureAlgorithm, SigningKey, date_time_ymd,
};
use synod_tls::TlsFiles;
use tempfile::TempDir;

/// A fresh key.
pub(crate) struct Key {
    private: Ed25519SigningKey,
    public: [u8; 32],
}

impl Key {
    pub(crate) fn new() -> Key {
        let private = Ed25519SigningKey::generate().unwrap();
        let public = private.public_key().as_bytes();
        Key { private, public }
    }

    pub(crate) fn from_pem(text: &[u8]) -> Key {
        let pem = pem::parse(text).unwrap();
        let private = Ed25519SigningKey::from_pkcs8_der(pem.contents()).unwrap();
        let public = private.public_key().as_bytes();
        Key { private, public }
    }

    pub(crate) fn pem(&self) -> String {
        let mut buffer = [0; 128];
        let der = self.private.to_pkcs8_der(&mut buffer).unwrap();
        pem::encode(&pem::Pem::new("PRIVATE KEY", der))
    }
}

impl PublicKeyData for Key {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ED25519
    }
}

impl SigningKey for Key {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        Ok(self.private.sign(message).to_vec())
    }
}

/// Signs members' certificates; its files go with it.
pub(crate) struct Authority {
    issuer: Issuer<'static, Key>,
    dir: TempDir,
}

/// A name that all certificates have; members do not look at it.
pub(crate) const HOST: &str = "member.test";

/// Peculiarity of a certificate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Good,
    Expired,
    NotYetValid,
    ServerOnly,
    /// Expires so soon.
    ValidFor(Duration),
}

impl Authority {
    pub(crate) fn new(name: &str) -> Authority {
        let mut params = params();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = Key::new();
        let certificate = params.self_signed(&key).unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("ca.pem"), certificate.pem()).unwrap();
        Authority {
            issuer: Issuer::new(params, key),
            dir,
        }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// A member's certificate and key; over those of the same name, if there are.
    pub(crate) fn issue(&self, name: &str, kind: Kind) -> TlsFiles {
        let mut params = params();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        match kind {
            Kind::Good => {}
            Kind::Expired => params.not_after = date_time_ymd(2020, 1, 1),
            Kind::NotYetValid => params.not_before = date_time_ymd(2500, 1, 1),
            Kind::ServerOnly => {}
            Kind::ValidFor(time) => {
                let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
                params.not_after = date_time_ymd(1970, 1, 1) + now + time;
            }
        }
        if kind != Kind::ServerOnly {
            let client = ExtendedKeyUsagePurpose::ClientAuth;
            params.extended_key_usages.push(client);
        }
        self.sign(name, params)
    }

    /// A certificate as asked for, with a fresh key; over those of the same name, if there are.
    pub(crate) fn sign(&self, name: &str, params: CertificateParams) -> TlsFiles {
        let key = Key::new();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file = |suffix: &str| self.dir.path().join(format!("{name}.{suffix}"));
        write(&file("pem"), &certificate.pem());
        write(&file("key"), &key.pem());
        fs::set_permissions(file("key"), fs::Permissions::from_mode(0o600)).unwrap();
        TlsFiles {
            certificate: file("pem"),
            key: file("key"),
            authorities: Some(self.file()),
            ..TlsFiles::default()
        }
    }
}

pub(crate) fn params() -> CertificateParams {
    let mut params = CertificateParams::new([HOST.to_owned()]).unwrap();
    params.serial_number = Some(SerialNumber::from(1));
    params
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
}
