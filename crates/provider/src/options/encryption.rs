//! `socket.ssl` and its companions: what they say together.
//!
//! Certificate and key are read when a connection is made, and again for `socket.ssl_reload`. Here
//! only the combination is checked.

use std::path::PathBuf;

use synod_node::{Credentials, TlsConfig, TlsFiles, TlsSettingNames, names_tls13_suite};

use super::error::{Notice, OptionsError};
use super::table::SPECS;
use super::value::Value;
use super::{Options, key};

/// Why an address may not ask for encryption by itself.
const SSL_ADDRESS: &str = "ssl:// needs socket.ssl=yes, which encrypts all connections; with it, \
                           write the address with or without ssl://";

/// How texts about encryption call the settings.
const SETTING_NAMES: TlsSettingNames = TlsSettingNames {
    certificate: "socket.ssl_cert",
    key: "socket.ssl_key",
    authorities: "socket.ssl_ca",
    password: "socket.ssl_password_file",
    ciphers: "socket.ssl_cipher",
    switch: "socket.ssl",
};

impl Options {
    /// How connections between members are to be encrypted; `None`: they are not.
    pub fn tls(&self) -> Option<TlsConfig> {
        let path = |key| PathBuf::from(self.text(key));
        let path_if_set = |key| (!self.text(key).is_empty()).then(|| path(key));
        self.encrypts().then(|| TlsConfig {
            credentials: Credentials::Certificates(TlsFiles {
                certificate: path(key::SOCKET_SSL_CERT),
                key: path(key::SOCKET_SSL_KEY),
                authorities: path_if_set(key::SOCKET_SSL_CA),
                password: path_if_set(key::SOCKET_SSL_PASSWORD_FILE),
                ciphers: self.text(key::SOCKET_SSL_CIPHER).to_owned(),
                names: SETTING_NAMES,
            }),
            accept_plain: self.bool(key::SOCKET_DYNAMIC),
        })
    }

    /// Whether connections are encrypted: as `socket.ssl` says, or if certificate and key are set.
    pub(super) fn encrypts(&self) -> bool {
        let has_files = !self.text(key::SOCKET_SSL_CERT).is_empty()
            && !self.text(key::SOCKET_SSL_KEY).is_empty();
        match self.is_set(key::SOCKET_SSL) {
            true => self.bool(key::SOCKET_SSL),
            false => has_files,
        }
    }

    /// An address with `ssl://` would promise encryption.
    pub(super) fn check_encryption(&self) -> Result<(), OptionsError> {
        let promising = self
            .slots
            .iter()
            .position(|slot| matches!(&slot.value, Value::Address(Some(address)) if address.tls));
        match promising {
            Some(at) if !self.encrypts() => Err(OptionsError::Refused {
                name: SPECS[at].name,
                value: self.slots[at].text.clone(),
                reason: SSL_ADDRESS,
            }),
            _ => Ok(()),
        }
    }

    /// What is set and means nothing beside the rest.
    pub(super) fn encryption_notices(&self) -> Vec<Notice> {
        let mut notices = Vec::new();
        if self.bool(key::SOCKET_DYNAMIC) && !self.encrypts() {
            notices.push(Notice {
                name: "socket.dynamic",
                why: "socket.ssl is off; members that encrypt and have socket.dynamic=yes call \
                      this one without encryption",
            });
        }
        let ciphers = self.text(key::SOCKET_SSL_CIPHER);
        if !ciphers.is_empty() && !names_tls13_suite(ciphers) {
            notices.push(Notice {
                name: "socket.ssl_cipher",
                why: "it names ciphers of TLS 1.2 and older, and connections here are always \
                      TLS 1.3",
            });
        }
        notices
    }
}
