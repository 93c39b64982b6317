//! TLS of the agent's listener.
//!
//! - `certificates`: the files, read again when they have changed;
//! - `handshake`: from a connection to an encrypted one, within a bound of time; what a client that
//!   does not encrypt is;
//! - `complaints`: log lines about clients, bounded in number.

pub(crate) mod certificates;
pub(crate) mod complaints;
pub(crate) mod handshake;

#[cfg(test)]
#[path = "../../../tls/tests/support/certificates.rs"]
pub(crate) mod test_certificates;
