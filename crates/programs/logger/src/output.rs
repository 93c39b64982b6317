//! Lines to standard error, where journald or a terminal reads them.
//!
//! A thread writes them, so that no thread of the member waits for a full pipe. For journald each
//! line begins with its priority (`sd-daemon(3)`); others get a word.

use std::io::{self, Write};
use std::sync::Arc;
use std::thread::JoinHandle;

use synod_admin::visible;
use synod_node::{Level, LogQueue};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Journal,
    Words,
}

impl Style {
    fn from_environment() -> Style {
        match std::env::var_os("JOURNAL_STREAM") {
            Some(_) => Style::Journal,
            None => Style::Words,
        }
    }

    fn line(self, level: Level, text: &str) -> String {
        let prefix = match (self, level) {
            (Style::Journal, Level::Error) => "<3>",
            (Style::Journal, Level::Warning) => "<4>",
            (Style::Journal, Level::Info) => "<6>",
            (Style::Journal, Level::Debug) => "<7>",
            (Style::Words, Level::Error) => "ERROR ",
            (Style::Words, Level::Warning) => "WARNING ",
            (Style::Words, Level::Info) => "INFO ",
            (Style::Words, Level::Debug) => "DEBUG ",
        };
        // A second line would have no priority; other members' texts are in it.
        format!("{prefix}{}\n", visible(&text.replace('\n', " ")))
    }
}

/// Destination of log lines. Cheap to clone.
#[derive(Clone)]
pub struct Output {
    lines: Arc<LogQueue<Level>>,
    style: Style,
}

impl Output {
    /// Lines to standard error; each thread writes its own until [`Output::start`].
    pub fn to_stderr() -> Output {
        Output {
            lines: Arc::default(),
            style: Style::from_environment(),
        }
    }

    pub fn start(&self) -> io::Result<JoinHandle<()>> {
        let output = self.clone();
        self.lines.open();
        std::thread::Builder::new()
            .name("synod-lines".to_owned())
            .spawn(move || {
                let write = |level, text: &str| output.write(level, text);
                output.lines.serve(Level::Warning, write);
            })
    }

    /// Has the thread end when it has written what waits.
    pub fn stop(&self) {
        self.lines.stop();
    }

    /// Takes a line; waits for nothing while the thread runs. Lines for developers are left out.
    pub fn log(&self, level: Level, text: &str) {
        if level != Level::Debug && !self.lines.push(level, text) {
            self.write(level, text);
        }
    }

    fn write(&self, level: Level, text: &str) {
        // There is no other place to complain.
        let _ = io::stderr().write_all(self.style.line(level, text).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_a_priority_for_the_journal_and_a_word_elsewhere() {
        assert_eq!(Style::Journal.line(Level::Warning, "a\nb"), "<4>a b\n");
        assert_eq!(Style::Words.line(Level::Error, "a"), "ERROR a\n");
        let foreign = Style::Words.line(Level::Info, "member 'a\u{1b}[2J'");
        assert_eq!(foreign, "INFO member 'a\\u001b[2J'\n");
    }
}
