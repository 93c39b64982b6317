//! `synod doctor`: what stands between a server of MariaDB or MySQL and a group that replicates by
//! Synod. It looks and changes nothing. What is true is gathered first ([`Facts`]); then each check
//! judges facts and makes [`Finding`]s. So every judgement is tested without a server.
#![forbid(unsafe_code)]

mod bytes_text;
pub mod checks;
pub mod facts;
mod finding;
pub mod fix;

pub use bytes_text::bytes_text;
pub use facts::{Facts, GatherError, MemberFacts, Place, WithoutDatabase, has_server};
pub use finding::{Finding, Severity, Subject};

/// Looks at the server and judges it; the worst findings come first.
pub fn examine(place: &Place) -> Result<(Facts, Vec<Finding>), GatherError> {
    let facts = Facts::gather(place)?;
    let findings = checks::judge(&facts);
    Ok((facts, findings))
}
