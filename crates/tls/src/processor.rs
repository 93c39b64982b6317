//! Whether this machine can do the arithmetic.
//!
//! `graviola` is built for processors with certain instructions and ends the program where they are
//! missing. So we look first.

use super::error::TlsError;

/// # Errors
/// With the names of what is missing.
pub(super) fn check() -> Result<(), TlsError> {
    let missing: Vec<&str> = needed()
        .into_iter()
        .filter(|(_, there)| !there)
        .map(|(name, _)| name)
        .collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(TlsError::Processor {
            missing: missing.join(", "),
        }),
    }
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
