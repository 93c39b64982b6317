//! Shared parts of the source rules: the files of the repository, and findings in them.
//!
//! The rules are in `tests/tidy.rs`, one test a rule. Every finding names file and line, so that
//! an editor can jump there. `CONTRIBUTING.md` has the rules in words.
#![forbid(unsafe_code)]

mod comments;
mod files;
mod words;

pub use comments::banned_openings;
pub use files::{SourceFile, repository, source_files};
pub use words::{banned_in_name, banned_phrase, names_in};

/// One violation, as `file:line: what`.
pub type Finding = String;

/// Fails with all findings, if there are any.
///
/// # Panics
/// If there are findings.
pub fn assert_none(rule: &str, findings: &[Finding]) {
    let count = findings.len();
    assert!(
        count == 0,
        "{rule}: {count} findings\n{}",
        findings.join("\n")
    );
}
