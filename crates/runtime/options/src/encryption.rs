//! Encryption and exposure: what `synod.secret_file`, `socket.ssl` and its companions say together,
//! and the processes that can then speak to a member.
//!
//! The files are read when a connection is made, and again for `socket.ssl_reload`. Here only the
//! combination is checked.

use std::path::PathBuf;

use synod_node::{
    Credentials, SecretFile, TlsConfig, TlsFiles, TlsSettingNames, names_tls13_suite,
};

use super::error::{Notice, OptionsError};
use super::table::SPECS;
use super::value::Value;
use super::{Address, DEFAULT_PORT, Options, key};

/// Why an address may not ask for encryption by itself.
const SSL_ADDRESS: &str = "ssl:// needs synod.secret_file or socket.ssl=yes, which encrypt all \
                           connections; with one of them, write the address with or without \
                           ssl://";

/// Why a secret and certificates exclude each other.
const TWO_KINDS: &str = "certificates are set too (socket.ssl=yes, or socket.ssl_cert and \
                         socket.ssl_key), and all members of a group show one kind of \
                         credential; remove the options of one kind";

const SETTING_NAMES: TlsSettingNames = TlsSettingNames {
    certificate: "socket.ssl_cert",
    key: "socket.ssl_key",
    authorities: "socket.ssl_ca",
    password: "socket.ssl_password_file",
    ciphers: "socket.ssl_cipher",
    switch: "socket.ssl",
};

impl Options {
    /// Encryption of connections between members; `None`: in clear.
    pub fn tls(&self) -> Option<TlsConfig> {
        let credentials = if self.shows_certificates() {
            Credentials::Certificates(self.certificates())
        } else if self.has_secret() {
            Credentials::Secret(SecretFile {
                path: PathBuf::from(self.text(key::SECRET_FILE)),
                setting: "synod.secret_file",
            })
        } else {
            return None;
        };
        Some(TlsConfig {
            credentials,
            accept_plain: self.bool(key::SOCKET_DYNAMIC),
        })
    }

    fn certificates(&self) -> TlsFiles {
        let path = |key| PathBuf::from(self.text(key));
        let path_if_set = |key| (!self.text(key).is_empty()).then(|| path(key));
        TlsFiles {
            certificate: path(key::SOCKET_SSL_CERT),
            key: path(key::SOCKET_SSL_KEY),
            authorities: path_if_set(key::SOCKET_SSL_CA),
            password: path_if_set(key::SOCKET_SSL_PASSWORD_FILE),
            ciphers: self.text(key::SOCKET_SSL_CIPHER).to_owned(),
            names: SETTING_NAMES,
        }
    }

    /// Whether members prove themselves to each other, and encrypt.
    pub(crate) fn has_credentials(&self) -> bool {
        self.shows_certificates() || self.has_secret()
    }

    fn has_secret(&self) -> bool {
        !self.text(key::SECRET_FILE).is_empty()
    }

    /// Whether certificates are used: as `socket.ssl` says, or if certificate and key are set.
    fn shows_certificates(&self) -> bool {
        let has_files = !self.text(key::SOCKET_SSL_CERT).is_empty()
            && !self.text(key::SOCKET_SSL_KEY).is_empty();
        match self.is_set(key::SOCKET_SSL) {
            true => self.bool(key::SOCKET_SSL),
            false => has_files,
        }
    }

    /// Members show one kind of credential. An address with `ssl://` would promise encryption.
    pub(crate) fn check_encryption(&self) -> Result<(), OptionsError> {
        if self.has_secret() && self.shows_certificates() {
            return Err(OptionsError::Refused {
                name: "synod.secret_file",
                value: self.text(key::SECRET_FILE).to_owned(),
                reason: TWO_KINDS,
            });
        }
        let promising = self
            .slots
            .iter()
            .position(|slot| matches!(&slot.value, Value::Address(Some(address)) if address.tls));
        match promising {
            Some(at) if !self.has_credentials() => Err(OptionsError::Refused {
                name: SPECS[at].name,
                value: self.slots[at].text.clone(),
                reason: SSL_ADDRESS,
            }),
            _ => Ok(()),
        }
    }

    /// Notices about options that are set and have no effect with the other ones.
    pub(crate) fn encryption_notices(&self) -> Vec<Notice> {
        let mut notices = Vec::new();
        if self.bool(key::SOCKET_DYNAMIC) && !self.has_credentials() {
            notices.push(Notice {
                name: "socket.dynamic",
                why: "there is neither synod.secret_file nor socket.ssl; members that encrypt and \
                      have socket.dynamic=yes call this one without encryption",
            });
        }
        if self.bool(key::INSECURE) && self.has_credentials() {
            notices.push(Notice {
                name: "synod.insecure",
                why: "there are credentials; socket.dynamic is what accepts members without them",
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

/// Processes whose connections a member accepts. Secure by default: a member starts with
/// credentials, or where only processes of its own machine reach it, or if its operator has written
/// down that it may be insecure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exposure {
    Members,
    /// Members with credentials, and for the time of a change any process that reaches the address.
    MembersAndClear(Address),
    Machine,
    /// Any process that reaches the address: the operator has said so.
    Anyone(Address),
}

/// Any process would be let in, and the operator has not said that it may.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this server does not start without credentials: every process that reaches {listen} could \
     read, change and delete all databases of the group. Make a group secret once, by 'synod \
     keygen > /etc/mysql/synod.secret'; copy the file to all members (owner: the server's user, \
     mode 600); and add synod.secret_file=/etc/mysql/synod.secret to wsrep_provider_options on \
     all of them. Instead of a secret, certificates do (socket.ssl=yes). For a group on this \
     machine alone set gmcast.listen_addr=tcp://127.0.0.1:{port}; to run without any protection, \
     synod.insecure=yes",
    port = listen.port.unwrap_or(DEFAULT_PORT)
)]
pub struct ExposedError {
    pub listen: Address,
}

impl Options {
    /// Processes that can speak to this member; an error if any could, and `synod.insecure` is not
    /// set. Checked at every connect, because a cluster address may change the options.
    pub fn exposure(&self) -> Result<Exposure, ExposedError> {
        let listen = self.listen_address();
        if self.has_credentials() {
            return Ok(match self.bool(key::SOCKET_DYNAMIC) {
                true => Exposure::MembersAndClear(listen),
                false => Exposure::Members,
            });
        }
        if self.bool(key::INSECURE) {
            return Ok(Exposure::Anyone(listen));
        }
        if listen.is_loopback() {
            return Ok(Exposure::Machine);
        }
        Err(ExposedError { listen })
    }
}

impl Exposure {
    /// Warning that an operator must read at every start: a line for the log, at WARNING.
    pub fn warning(&self) -> Option<String> {
        match self {
            Exposure::Members | Exposure::Machine => None,
            Exposure::MembersAndClear(listen) => Some(format!(
                "socket.dynamic=yes: members without credentials are accepted too, so every \
                 process that reaches {listen} can read, change and delete all databases of the \
                 group. Turn it off when all members have credentials"
            )),
            Exposure::Anyone(listen) => Some(format!(
                "synod.insecure=yes: connections between members are neither encrypted nor \
                 authenticated. Every process that reaches {listen} can read, change and delete \
                 all databases of the group. Use a group secret instead: 'synod keygen', \
                 synod.secret_file"
            )),
        }
    }
}
