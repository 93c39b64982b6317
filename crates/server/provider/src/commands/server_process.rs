//! The server's process, for the threads that serve commands.

use std::io;
use std::thread::JoinHandle;

use synod_commands::Surroundings;
use synod_node::Level;

use crate::api::{Callbacks, LogLevel};
use crate::boundary;

/// Threads without signals, and the server's error log.
pub(crate) struct ServerProcess(pub(crate) Callbacks);

impl Surroundings for ServerProcess {
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        boundary::spawn(name, body)
    }

    fn log(&self, level: Level, text: &str) {
        let level = match level {
            Level::Debug => LogLevel::Debug,
            Level::Info => LogLevel::Info,
            Level::Warning => LogLevel::Warn,
            Level::Error => LogLevel::Error,
        };
        self.0.log(level, text);
    }
}
