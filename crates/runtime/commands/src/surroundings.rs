//! Environment of the threads: the process that they run in.

use std::io;
use std::thread::JoinHandle;

use synod_node::Level;

/// The process of a member: a server's, or a logger's.
pub trait Surroundings: Send + Sync {
    /// Starts a thread that obeys no signal of the process.
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>>;

    /// Takes a line for the process's log; does not wait for that to be written.
    fn log(&self, level: Level, text: &str);
}
