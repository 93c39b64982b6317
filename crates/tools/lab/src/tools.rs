//! Running programs to their end.

use std::process::{Command, Stdio};

use crate::error::{IoContext, LabError, Result};

/// The most that an error quotes of what a program printed, bytes.
const QUOTED_BYTES: usize = 4000;

/// Runs a program that must succeed, without input; gives what it printed.
pub(crate) fn output_of(command: &mut Command) -> Result<String> {
    output_with(command, Stdio::null())
}

pub(crate) fn output_with(command: &mut Command, input: Stdio) -> Result<String> {
    let output = command
        .stdin(input)
        .output()
        .context("start", command.get_program())?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(printed);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(LabError::Failed {
        command: text_of(command),
        status: output.status.to_string(),
        said: end_of(format!("{printed}{errors}").trim()).to_owned(),
    })
}

pub(crate) fn text_of(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

/// The end of a text, not longer than an error should quote.
pub(crate) fn end_of(text: &str) -> &str {
    let mut begin = text.len().saturating_sub(QUOTED_BYTES);
    while !text.is_char_boundary(begin) {
        begin += 1;
    }
    &text[begin..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_program_is_quoted() {
        let mut command = Command::new("sh");
        let error = output_of(command.args(["-c", "echo no space >&2; exit 3"])).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("no space") && text.contains("exit status: 3"),
            "{text}"
        );
    }

    #[test]
    fn only_the_end_of_long_texts_is_quoted() {
        let text = "é".repeat(QUOTED_BYTES);
        assert_eq!(end_of(&text).len(), QUOTED_BYTES);
        assert_eq!(end_of("short"), "short");
    }
}
