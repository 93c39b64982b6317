//! Why a scenario failed, as a text with its context.
//!
//! Scenarios return [`Outcome`]; [`Why`] adds to an error what the scenario was doing.

use std::fmt;
use std::process::ExitCode;

/// A failed expectation or a tool that did not work.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure(pub String);

/// The result of scenarios and their helpers.
pub type Outcome<T = ()> = Result<T, Failure>;

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0) // the test runner prints Debug; people read it
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Adds to an error what was being done.
pub trait Why<T> {
    /// Turns an error into a [`Failure`] that begins with `what`.
    fn why(self, what: impl fmt::Display) -> Outcome<T>;
}

impl<T, E: fmt::Display> Why<T> for Result<T, E> {
    fn why(self, what: impl fmt::Display) -> Outcome<T> {
        self.map_err(|error| Failure(format!("{what}: {error}")))
    }
}

/// The end of a program that ran a scenario: a failure is printed.
pub fn exit_code(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure:?}");
            ExitCode::FAILURE
        }
    }
}

/// Fails, with the text, unless these words are in it.
///
/// # Errors
/// The words and the text, as a [`Failure`].
pub fn ensure_says(text: &str, words: &str) -> Outcome {
    ensure(text.contains(words), || format!("no '{words}' in:\n{text}"))
}

/// Fails with `message` unless the condition holds.
///
/// # Errors
/// The message, as a [`Failure`].
pub fn ensure(condition: bool, message: impl FnOnce() -> String) -> Outcome {
    if condition {
        Ok(())
    } else {
        Err(Failure(message()))
    }
}
