//! Exposure: the processes that can speak to a member by its options; secure by default.
//!
//! A member starts with credentials, or where only processes of its own machine reach it, or if its
//! operator has written down that it may be insecure. Checked at every connect, because a cluster
//! address may change the options.

use super::{Address, Options, key};

/// Processes whose connections a member accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exposure {
    Members,
    /// Members with credentials, and for the time of a change any process that reaches the address.
    MembersAndClear(Address),
    /// Any process of this machine.
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
    port = listen.port.unwrap_or(super::DEFAULT_PORT)
)]
pub struct ExposedError {
    /// Address at which the member would listen.
    pub listen: Address,
}

impl Options {
    /// Processes that can speak to this member.
    ///
    /// # Errors
    /// If any process could speak to this member, and `synod.insecure` is not set.
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
