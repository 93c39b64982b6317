//! Errors of the meters.

use thiserror::Error;

#[derive(Debug, Error)]
pub enum MeterError {
    #[error(
        "cannot connect to {server} at {address} as '{user}': {source}; check that the server \
         runs, and that the account may connect from here"
    )]
    Connect {
        server: String,
        address: String,
        user: String,
        source: Box<mysql::Error>,
    },
    #[error("{server} refuses '{statement}': {source}")]
    Statement {
        server: String,
        statement: String,
        source: Box<mysql::Error>,
    },
    #[error("{name} {value}: {reason}")]
    BadArgument {
        name: &'static str,
        value: String,
        reason: String,
    },
    #[error("cannot {action} {path}: {source}")]
    Io {
        action: &'static str,
        path: String,
        source: std::io::Error,
    },
    #[error(
        "{server} does not run on this machine (its process was not found), so it cannot get a \
         tenth of a core; run the meter on its machine"
    )]
    NotHere { server: String },
    #[error("{what}: not within {seconds} s")]
    Timeout { what: String, seconds: u64 },
    #[error("a client thread panicked; its message is above")]
    Panicked,
}

impl MeterError {
    pub fn exit_code(&self) -> u8 {
        match self {
            MeterError::BadArgument { .. } => 2,
            MeterError::Connect { .. } | MeterError::NotHere { .. } => 5,
            MeterError::Timeout { .. } => 6,
            MeterError::Statement { .. } | MeterError::Io { .. } | MeterError::Panicked => 1,
        }
    }
}

pub type Result<T> = std::result::Result<T, MeterError>;

pub(super) trait IoContext<T> {
    fn context(self, action: &'static str, path: impl std::fmt::Display) -> Result<T>;
}

impl<T> IoContext<T> for std::io::Result<T> {
    fn context(self, action: &'static str, path: impl std::fmt::Display) -> Result<T> {
        self.map_err(|source| MeterError::Io {
            action,
            path: path.to_string(),
            source,
        })
    }
}
