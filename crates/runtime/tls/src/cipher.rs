//! Cipher suites of a member: parses the operator's list of ciphers.
//!
//! The list has OpenSSL's syntax, so an operator's old list may stay. As in OpenSSL, only names
//! that begin with `TLS_` mean suites of TLS 1.3. A list without such a name restricts nothing
//! here. An unknown suite of TLS 1.3 is an error, which names the known ones.

use rustls::SupportedCipherSuite;
use rustls_graviola::suites::{
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};

use super::error::TlsError;

/// All suites, in the order of preference that holds if the operator states none.
static SUITES: [(&str, SupportedCipherSuite); 3] = [
    ("TLS_AES_128_GCM_SHA256", TLS13_AES_128_GCM_SHA256),
    ("TLS_AES_256_GCM_SHA384", TLS13_AES_256_GCM_SHA384),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        TLS13_CHACHA20_POLY1305_SHA256,
    ),
];

/// Whether a list of ciphers, in OpenSSL's syntax, names a suite of TLS 1.3. A list that names none
/// is about older versions, which members do not speak. It has no effect, as in OpenSSL.
pub fn names_tls13_suite(list: &str) -> bool {
    names(list).any(is_of_tls13)
}

/// The suites that a list names, in its order; all, if it names none of TLS 1.3. `setting` is how
/// texts call the list.
///
/// # Errors
/// [`TlsError::UnknownCipher`].
pub(super) fn select(
    list: &str,
    setting: &'static str,
) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    let mut selected = Vec::new();
    for name in names(list).filter(|name| is_of_tls13(name)) {
        let found = SUITES.iter().find(|(known, _)| *known == name);
        let (_, suite) = found.ok_or_else(|| TlsError::UnknownCipher {
            setting,
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
        let suites = select(list, "the list").unwrap();
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
        let error = select("TLS_AES_128_CCM_SHA256", "the list")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("TLS_AES_128_CCM_SHA256") && error.contains("TLS_AES_256_GCM_SHA384"),
            "{error}"
        );
    }
}
