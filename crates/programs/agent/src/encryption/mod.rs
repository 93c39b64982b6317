//! TLS of the agent's listener.

pub(crate) mod complaints;
pub(crate) mod handshake;

#[cfg(test)]
#[path = "../../../../runtime/tls/tests/support/certificates.rs"]
pub(crate) mod test_certificates;
