//! `socket.ssl_cipher`.

use rustls::SupportedCipherSuite;
use rustls_graviola::suites::{
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};

use super::error::TlsError;

/// In the order of preference if the operator has none.
static SUITES: [(&str, SupportedCipherSuite); 3] = [
    ("TLS_AES_128_GCM_SHA256", TLS13_AES_128_GCM_SHA256),
    ("TLS_AES_256_GCM_SHA384", TLS13_AES_256_GCM_SHA384),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        TLS13_CHACHA20_POLY1305_SHA256,
    ),
];

/// Whether a list of ciphers, in OpenSSL's syntax, says anything about TLS 1.3. If it does not, it is
/// about older versions, which are not spoken here, and has no effect; so it is in OpenSSL.
pub fn names_tls13_suite(list: &str) -> bool {
    names(list).any(is_of_tls13)
}

/// The suites that a list names, in its order; all, if it names none of TLS 1.3.
pub(super) fn select(list: &str) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    let mut selected = Vec::new();
    for name in names(list).filter(|name| is_of_tls13(name)) {
        let found = SUITES.iter().find(|(known, _)| *known == name);
        let (_, suite) = found.ok_or_else(|| TlsError::UnknownCipher {
            name: name.to_owned(),
            known: SUITES.map(|(known, _)| known).join(", "),
        })?;
        selected.push(*suite);
    }
    if selected.is_empty() {
        selected.extend(SUITES.map(|(_, suite)| suite));
    }
    Ok(selected)
}

fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split([':', ',', ' ']).filter(|name| !name.is_empty())
}

fn is_of_tls13(name: &str) -> bool {
    name.starts_with("TLS_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(list: &str) -> Vec<String> {
        let suites = select(list).unwrap();
        suites.iter().map(|s| format!("{:?}", s.suite())).collect()
    }

    #[test]
    fn named_suites_are_taken_in_their_order() {
        assert_eq!(
            selected("TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256"),
            ["TLS13_CHACHA20_POLY1305_SHA256", "TLS13_AES_128_GCM_SHA256"]
        );
    }

    #[test]
    fn lists_for_older_versions_restrict_nothing() {
        for list in ["", "AES128-SHA256", "ECDHE-RSA-AES256-GCM-SHA384:!aNULL"] {
            assert_eq!(selected(list).len(), 3, "{list}");
            assert!(!names_tls13_suite(list), "{list}");
        }
    }

    #[test]
    fn unknown_suite_is_named_with_the_known_ones() {
        let error = select("TLS_AES_128_CCM_SHA256").unwrap_err().to_string();
        assert!(
            error.contains("TLS_AES_128_CCM_SHA256") && error.contains("TLS_AES_256_GCM_SHA384"),
            "{error}"
        );
    }
}
