//! Answers to readers: done, an error in words, rows.

use std::io::{self, Read, Write};

use super::packet::Packets;

/// The server takes statements at once: `SERVER_STATUS_AUTOCOMMIT`.
const STATUS: [u8; 2] = [2, 0];
/// `utf8mb4_general_ci`.
const CHARACTER_SET: [u8; 2] = [45, 0];
/// Columns are texts: `MYSQL_TYPE_VAR_STRING`.
const TEXT_TYPE: u8 = 0xfd;

/// An error as a reader's log shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// MariaDB's number for it.
    pub(crate) code: u16,
    /// Its SQLSTATE.
    pub(crate) state: &'static str,
    /// Cause and remedy.
    pub(crate) text: String,
}

impl Refusal {
    /// The reader is not who it says it is: `ER_ACCESS_DENIED_ERROR`.
    pub(crate) fn access(text: String) -> Refusal {
        Refusal {
            code: 1045,
            state: "28000",
            text,
        }
    }

    /// The reader cannot be served now: `ER_CON_COUNT_ERROR`.
    pub(crate) fn too_many(text: String) -> Refusal {
        Refusal {
            code: 1040,
            state: "08004",
            text,
        }
    }

    /// The relay does not do that: `ER_NOT_SUPPORTED_YET`.
    pub(crate) fn unsupported(text: String) -> Refusal {
        Refusal {
            code: 1235,
            state: "42000",
            text,
        }
    }

    /// A variable that does not exist: `ER_UNKNOWN_SYSTEM_VARIABLE`.
    pub(crate) fn unknown_variable(name: &str) -> Refusal {
        Refusal {
            code: 1193,
            state: "HY000",
            text: format!("This relay has no variable '{name}'"),
        }
    }

    /// Temporary refusal, `ER_SERVER_SHUTDOWN`: a replica logs the text and reconnects by itself.
    pub(crate) fn not_yet(text: String) -> Refusal {
        Refusal {
            code: 1053,
            state: "08S01",
            text,
        }
    }

    /// The log cannot be read from where the reader is: `ER_MASTER_FATAL_ERROR_READING_BINLOG`. A
    /// replica shows the text in its status, and stops until an operator starts it.
    pub(crate) fn dump(text: String) -> Refusal {
        Refusal {
            code: 1236,
            state: "HY000",
            text,
        }
    }
}

/// Answer to a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Done, without a result.
    Done,
    /// Rows of texts; none: NULL.
    Rows {
        columns: Vec<String>,
        rows: Vec<Vec<Option<String>>>,
    },
    Refused(Refusal),
}

impl<S: Read + Write> Packets<S> {
    /// Sends an answer.
    ///
    /// # Errors
    /// As [`Packets::flush`].
    pub(crate) fn answer(&mut self, answer: &Answer) -> io::Result<()> {
        match answer {
            Answer::Done => {
                let [a, b] = STATUS;
                self.write(&[0, 0, 0, a, b, 0, 0])?;
            }
            Answer::Rows { columns, rows } => self.write_rows(columns, rows)?,
            Answer::Refused(refusal) => self.write_refusal(refusal)?,
        }
        self.flush()
    }

    /// Says that nothing follows.
    ///
    /// # Errors
    /// As [`Packets::flush`].
    pub(crate) fn write_end(&mut self) -> io::Result<()> {
        let [a, b] = STATUS;
        self.write(&[0xfe, 0, 0, a, b])
    }

    fn write_refusal(&mut self, refusal: &Refusal) -> io::Result<()> {
        let mut payload = vec![0xff];
        payload.extend_from_slice(&refusal.code.to_le_bytes());
        payload.push(b'#');
        payload.extend_from_slice(refusal.state.as_bytes());
        payload.extend_from_slice(refusal.text.as_bytes());
        self.write(&payload)
    }

    fn write_rows(&mut self, columns: &[String], rows: &[Vec<Option<String>>]) -> io::Result<()> {
        let mut count = Vec::new();
        put_length(&mut count, columns.len());
        self.write(&count)?;
        for name in columns {
            self.write(&column(name))?;
        }
        self.write_end()?;
        for row in rows {
            let mut payload = Vec::new();
            for value in row {
                match value {
                    Some(text) => put_text(&mut payload, text),
                    None => payload.push(0xfb),
                }
            }
            self.write(&payload)?;
        }
        self.write_end()
    }
}

fn column(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for text in ["def", "", "", "", name, ""] {
        put_text(&mut out, text);
    }
    out.push(12);
    out.extend_from_slice(&CHARACTER_SET);
    out.extend_from_slice(&1024_u32.to_le_bytes());
    out.extend_from_slice(&[TEXT_TYPE, 0, 0, 0, 0, 0]);
    out
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_length(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// A number in as many bytes as it takes, with what says how many.
fn put_length(out: &mut Vec<u8>, length: usize) {
    match length {
        0..=250 => out.push(length as u8),
        251..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&(length as u16).to_le_bytes());
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&(length as u64).to_le_bytes());
        }
    }
}
