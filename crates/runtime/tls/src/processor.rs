//! The cryptography, and whether this machine's processor has the instructions that it needs.
//!
//! `graviola` ends the program on a processor that lacks them. So the check comes first, and a
//! member that cannot encrypt reports an error at its start.

use rustls::crypto::CryptoProvider;

use super::error::TlsError;

/// The cryptography, once the processor is checked. `switch` is how texts call the setting that
/// turns encryption on.
pub(super) fn provider(switch: &'static str) -> Result<CryptoProvider, TlsError> {
    let missing: Vec<&str> = needed()
        .into_iter()
        .filter(|(_, present)| !present)
        .map(|(name, _)| name)
        .collect();
    if missing.is_empty() {
        return Ok(rustls_graviola::default_provider());
    }
    Err(TlsError::Processor {
        switch,
        missing: missing.join(", "),
    })
}

#[cfg(target_arch = "x86_64")]
fn needed() -> [(&'static str, bool); 7] {
    use std::arch::is_x86_feature_detected as has;
    [
        ("aes", has!("aes")),
        ("pclmulqdq", has!("pclmulqdq")),
        ("bmi1", has!("bmi1")),
        ("bmi2", has!("bmi2")),
        ("adx", has!("adx")),
        ("avx", has!("avx")),
        ("avx2", has!("avx2")),
    ]
}

#[cfg(target_arch = "aarch64")]
fn needed() -> [(&'static str, bool); 4] {
    use std::arch::is_aarch64_feature_detected as has;
    [
        ("neon", has!("neon")),
        ("aes", has!("aes")),
        ("pmull", has!("pmull")),
        ("sha2", has!("sha2")),
    ]
}
