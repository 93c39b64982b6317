//! The lines of a server's error log that explain a failed start.
//!
//! The log grows over restarts, so readers pass the size that it had before the start in question.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use crate::error::Lines;

const LOOK_AT_MAX: u64 = 256 * 1024;
const LINES_MAX: usize = 15;
const MARKS: [&str; 6] = [
    "[ERROR]",
    "FATAL",
    "Assertion",
    "got signal",
    "Unknown parameter",
    "Aborting",
];

/// The size of the log now: where the lines of the next start will begin.
pub fn end(log: &Path) -> u64 {
    log.metadata().map_or(0, |metadata| metadata.len())
}

/// The text of the log from byte `from` on (of a long one, only the end).
pub fn text_since(log: &Path, from: u64) -> String {
    let mut bytes = Vec::new();
    let read = File::open(log).and_then(|mut file| {
        file.seek(SeekFrom::Start(
            from.max(end(log).saturating_sub(LOOK_AT_MAX)),
        ))?;
        file.read_to_end(&mut bytes)
    });
    match read {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => String::new(), // a log that does not exist has no text
    }
}

/// The last lines since byte `from` that report errors; if there are none, the last lines.
pub fn lines_that_matter(log: &Path, from: u64) -> Lines {
    pick(&text_since(log, from))
}

fn pick(text: &str) -> Lines {
    let all: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let bad: Vec<&str> = all.iter().copied().filter(|line| matters(line)).collect();
    let chosen = if bad.is_empty() { all } else { bad };
    let skip = chosen.len().saturating_sub(LINES_MAX);
    Lines(chosen.into_iter().skip(skip).map(str::to_owned).collect())
}

fn matters(line: &str) -> bool {
    MARKS.iter().any(|mark| line.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_preferred_to_notes() {
        let picked = pick("a [Note] one\nb [ERROR] two\nc [Note] three\n");
        assert_eq!(picked.0, ["b [ERROR] two"]);
    }

    #[test]
    fn without_errors_the_end_is_shown() {
        let text: String = (0..100).map(|i| format!("line {i}\n")).collect();
        let picked = pick(&text);
        assert_eq!(picked.0.len(), LINES_MAX);
        assert_eq!(picked.0.last().unwrap(), "line 99");
    }

    #[test]
    fn missing_log_gives_nothing() {
        assert_eq!(
            lines_that_matter(Path::new("/nowhere/error.log"), 0),
            Lines::default()
        );
    }
}
