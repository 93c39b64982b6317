//! TLS of the agent's listener.
//!
//! - `handshake`: from a connection to an encrypted one, within a bound of time; what a client that
//!   does not encrypt is;
//! - `complaints`: log lines about clients, bounded in number.

pub(crate) mod complaints;
pub(crate) mod handshake;

#[cfg(test)]
#[path = "../../../../runtime/tls/tests/support/certificates.rs"]
pub(crate) mod test_certificates;
