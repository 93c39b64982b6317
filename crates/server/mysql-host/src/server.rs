//! The database server, as the host uses it.

use synod_binlog::mysql_gtid::MysqlGtidSet;
use synod_node::Level;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ServerError {
    #[error("the server's call {call} has failed with {code}; its error log may say why")]
    Call { call: &'static str, code: i32 },
    #[error("the server's gtid_executed cannot be read")]
    Executed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadToken(pub(crate) usize);

/// Number of a time for which this server takes writes, from 1 on, since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Opening(pub(crate) i64);

impl Opening {
    /// No time: writes are refused.
    pub(crate) const NONE: Opening = Opening(0);
}

/// Functions of the server. But for [`Server::log`], they are called by threads that have begun
/// ([`Server::begin_thread`]).
pub(crate) trait Server: Send + Sync + 'static {
    /// From any thread; does not wait.
    fn log(&self, level: Level, text: &str);
    /// The calling thread becomes one of the server's; none: the server takes no threads yet.
    fn begin_thread(&self) -> Option<ThreadToken>;
    fn end_thread(&self, thread: ThreadToken);
    /// The channel begins with an empty queue.
    fn create_channel(&self) -> Result<(), ServerError>;
    fn start_channel(&self) -> Result<(), ServerError>;
    fn stop_channel(&self) -> Result<(), ServerError>;
    fn queue(&self, event: &[u8]) -> Result<(), ServerError>;
    fn is_applying(&self) -> bool;
    fn executed(&self) -> Result<MysqlGtidSet, ServerError>;
    /// May wait for commits under way.
    fn set_read_only(&self, on: bool) -> Result<(), ServerError>;
    fn set_offline(&self, on: bool) -> Result<(), ServerError>;
    /// Whether each commit waits until the engine has flushed it.
    fn set_flush(&self, on: bool) -> Result<(), ServerError>;
    fn flushes(&self) -> bool;
}

pub(crate) trait ClientTransaction {
    /// Hands over its events in pieces, from the beginning at each call, until `take` wants no
    /// more: then false, as if they cannot be read.
    fn read(&self, take: &mut dyn FnMut(&[u8]) -> bool) -> bool;
    fn bytes(&self) -> u64;
    /// Hashes of the keys that it changes or refers to.
    fn hashes(&self) -> &[u64];
    /// Whether it changes what is not in the hashes.
    fn runs_alone(&self) -> bool;
    /// Whether it is acknowledged only once all present servers have applied it.
    fn waits_for_others(&self) -> bool;
    /// The opening in which its first statement began; none: it is one statement, which the server
    /// has let begin as a write.
    fn began(&self) -> Option<Opening>;
    /// The server's number for its client's thread.
    fn thread(&self) -> u32;
}
