//! Identity that a connection's peer has proven.
//!
//! The texts here are compared with texts that members have stored: how a subject is written never
//! changes, and different subjects never have the same text.

use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};

use super::certificate::Certificate;

/// Longest subject that [`PeerCredential::Certificate`] holds, in bytes; a longer one is hashed.
pub const SUBJECT_BYTES_MAX: usize = 256;

/// The credential that a peer has proven to hold, as seen from this end of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum PeerCredential {
    /// Nothing: the connection is in clear.
    #[default]
    None,
    /// A secret of the group. Any member may have opened or answered this connection.
    Secret {
        /// The public key that follows from the secret (SubjectPublicKeyInfo, DER).
        key: Vec<u8>,
    },
    /// The key of a certificate that one of this member's authorities has signed.
    Certificate {
        /// The certificate's subject in the syntax of RFC 4514, in the certificate's order, at most
        /// [`SUBJECT_BYTES_MAX`] bytes. A certificate with an empty subject is named by its public
        /// key (`key-sha256=`), one with a longer subject by that subject (`subject-sha256=`).
        subject: String,
    },
}

impl PeerCredential {
    /// The credential of a peer whose certificate was accepted.
    ///
    /// # Errors
    /// States what is wrong with the certificate.
    pub(super) fn of_certificate(leaf: &CertificateDer<'_>) -> Result<PeerCredential, String> {
        let subject = subject_of(&Certificate::parse(leaf)?)?;
        Ok(PeerCredential::Certificate { subject })
    }
}

/// Subject of a certificate, as peers compare it: see [`PeerCredential::Certificate`].
///
/// # Errors
/// States what is wrong with the certificate.
pub(super) fn subject_of(certificate: &Certificate<'_>) -> Result<String, String> {
    let text = certificate
        .subject_text()
        .map_err(|error| format!("its subject is damaged: {error}"))?;
    Ok(if text.is_empty() {
        format!("key-sha256={}", hex_sha256(&certificate.public_key()))
    } else if text.len() > SUBJECT_BYTES_MAX {
        format!("subject-sha256={}", hex_sha256(text.as_bytes()))
    } else {
        text
    })
}

fn hex_sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
