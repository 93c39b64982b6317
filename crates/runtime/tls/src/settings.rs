//! Settings of a member's encryption, and their names in texts.
//!
//! This crate knows no option of a host. A host that has spellings for its settings passes them in
//! [`TlsFiles::names`], so that every error names the option to change. A host without spellings
//! gets plain words.

use std::path::PathBuf;

use super::Tls;
use super::error::TlsError;
use super::secret::SecretFile;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    Certificates(TlsFiles),
    Secret(SecretFile),
}

impl Credentials {
    pub fn load(&self) -> Result<Tls, TlsError> {
        match self {
            Credentials::Certificates(files) => Tls::load(files),
            Credentials::Secret(file) => Tls::of_secrets(file),
        }
    }

    /// Reads the files again while the member runs with what was read before. A certificate with
    /// another subject, by which the other members would not know this one, is refused.
    pub fn load_again(&self, in_use: &Tls) -> Result<Tls, TlsError> {
        let fresh = self.load()?;
        match (self, in_use.subject(), fresh.subject()) {
            (Credentials::Certificates(files), Some(old), Some(new)) if old != new => {
                Err(TlsError::OtherSubject {
                    setting: files.names.certificate,
                    path: files.certificate.clone(),
                    in_use: old.to_owned(),
                    found: new.to_owned(),
                })
            }
            _ => Ok(fresh),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum CredentialNames {
    Certificates(TlsSettingNames),
    Secret { file: &'static str },
}

impl CredentialNames {
    pub(super) fn switch(&self) -> String {
        match self {
            CredentialNames::Certificates(names) => format!("{} is on", names.switch),
            CredentialNames::Secret { file } => format!("{file} is set"),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// PEM file with this member's certificate, then those between it and the authority. Required.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// PEM file with the authorities that sign members' certificates. `None`: this member's own
    /// certificate is the only one that is accepted, so all members use the same.
    pub authorities: Option<PathBuf>,
    /// File whose first line decrypts the key. `None`: the key is not encrypted.
    pub password: Option<PathBuf>,
    /// Names of cipher suites, see [`crate::names_tls13_suite`]. Empty: all suites.
    pub ciphers: String,
    pub names: TlsSettingNames,
}

/// Names of the settings of [`TlsFiles`] in error texts. The default is plain words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsSettingNames {
    pub certificate: &'static str,
    pub key: &'static str,
    pub authorities: &'static str,
    pub password: &'static str,
    pub ciphers: &'static str,
    /// Names the setting that turns encryption on; texts say that it "is on".
    pub switch: &'static str,
}

impl Default for TlsSettingNames {
    fn default() -> TlsSettingNames {
        TlsSettingNames {
            certificate: "the certificate file",
            key: "the key file",
            authorities: "the authorities file",
            password: "the password file",
            ciphers: "the list of ciphers",
            switch: "encryption",
        }
    }
}
