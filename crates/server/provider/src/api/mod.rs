//! The provider interface in safe Rust.
//!
//! The boundary turns each call of the server into a call of [`ProviderApi`] and its answer back
//! into C. Nothing here knows of pointers, so everything behind this trait can be tested without a
//! server. Which thread calls what, with which of the server's locks held, is said at each method:
//! a method that says "short" must not wait for anything.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;

use synod_node::GroupId;
use wsrep_sys as sys;

use crate::options::{OptionsError, Parameter};

pub use synod_binlog::write_set::WsFlags;

pub use crate::boundary::{ApplyFailed, CallbackFailed, Callbacks, RecvContext, ReplayContext};

/// Capabilities of this provider: both `capabilities()` and every view carry them.
pub(crate) const CAPABILITIES: u32 = sys::WSREP_CAP_MULTI_MASTER
    | sys::WSREP_CAP_CERTIFICATION
    | sys::WSREP_CAP_PARALLEL_APPLYING
    | sys::WSREP_CAP_TRX_REPLAY
    | sys::WSREP_CAP_ISOLATION
    | sys::WSREP_CAP_PAUSE
    | sys::WSREP_CAP_CAUSAL_READS
    | sys::WSREP_CAP_INCREMENTAL_WRITESET
    | sys::WSREP_CAP_STREAMING;

pub type Constructor =
    Box<dyn Fn(InitArgs, Callbacks) -> Result<Arc<dyn ProviderApi>, InitError> + Send + Sync>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitArgs {
    /// `wsrep_node_name`.
    pub node_name: String,
    /// `wsrep_node_address`; may be empty, may carry a port.
    pub node_address: String,
    /// Client address, `host:port`.
    pub node_incoming: String,
    pub data_dir: String,
    /// `wsrep_provider_options`, not parsed yet.
    pub options: String,
    /// Highest application protocol of the server; views must carry 4.
    pub proto_ver: i32,
    /// `wsrep_start_position`; undefined if not given.
    pub start_position: Gtid,
}

#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// Bad `wsrep_provider_options`. The text is the line that Galera's test suites expect.
    #[error(transparent)]
    Options(#[from] OptionsError),
    #[error(transparent)]
    Other(#[from] Box<dyn std::error::Error + Send + Sync>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    Ok,
    Warning,
    TrxMissing,
    TrxFail,
    /// Aborted by a high-priority transaction; the server rolls back and asks for a replay.
    BfAbort,
    SizeExceeded,
    ConnFail,
    NodeFail,
    /// The server calls `abort()`. Never answer this where [`Status::NodeFail`] would do.
    Fatal,
    NotImplemented,
    NotAllowed,
}

impl Status {
    pub fn code(self) -> sys::wsrep_status_t {
        match self {
            Status::Ok => sys::WSREP_OK,
            Status::Warning => sys::WSREP_WARNING,
            Status::TrxMissing => sys::WSREP_TRX_MISSING,
            Status::TrxFail => sys::WSREP_TRX_FAIL,
            Status::BfAbort => sys::WSREP_BF_ABORT,
            Status::SizeExceeded => sys::WSREP_SIZE_EXCEEDED,
            Status::ConnFail => sys::WSREP_CONN_FAIL,
            Status::NodeFail => sys::WSREP_NODE_FAIL,
            Status::Fatal => sys::WSREP_FATAL,
            Status::NotImplemented => sys::WSREP_NOT_IMPLEMENTED,
            Status::NotAllowed => sys::WSREP_NOT_ALLOWED,
        }
    }
}

/// Severity of a line in the server's error log. Routine events are `Info`: the server's test
/// suites fail on warnings they do not expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// The node is out of service. The server only prints it; the provider has to act.
    Fatal,
    Error,
    Warn,
    Info,
    /// Shown with `wsrep_debug` only.
    Debug,
}

impl LogLevel {
    pub fn code(self) -> sys::wsrep_log_level_t {
        match self {
            LogLevel::Fatal => sys::WSREP_LOG_FATAL,
            LogLevel::Error => sys::WSREP_LOG_ERROR,
            LogLevel::Warn => sys::WSREP_LOG_WARN,
            LogLevel::Info => sys::WSREP_LOG_INFO,
            LogLevel::Debug => sys::WSREP_LOG_DEBUG,
        }
    }
}

/// 16 bytes that name a member for one connection to the group. Fresh at each connect.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    pub const UNDEFINED: Uuid = Uuid([0; 16]);
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&GroupId(self.0), f)
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gtid {
    pub group: GroupId,
    pub seqno: i64,
}

impl Gtid {
    pub const fn new(group: GroupId, seqno: i64) -> Gtid {
        Gtid { group, seqno }
    }

    pub const UNDEFINED: Gtid = Gtid::new(GroupId::NONE, sys::WSREP_SEQNO_UNDEFINED);

    pub fn is_defined(&self) -> bool {
        self.seqno >= 0 && self.group != GroupId::NONE
    }
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.group, self.seqno)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stid {
    pub node: Uuid,
    /// Transaction on that member; 2^64-1: none (statements in total order).
    pub trx: u64,
    /// Connection on that member; 2^64-1: none.
    pub conn: u64,
}

impl Stid {
    pub const UNDEFINED: Stid = Stid {
        node: Uuid::UNDEFINED,
        trx: sys::WSREP_UNDEFINED_TRX_ID,
        conn: sys::WSREP_UNDEFINED_CONN_ID,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TrxMeta {
    pub gtid: Gtid,
    pub stid: Stid,
    /// Last seqno that must be applied before it; below its own.
    pub depends_on: i64,
}

impl TrxMeta {
    pub const UNDEFINED: TrxMeta = TrxMeta {
        gtid: Gtid::UNDEFINED,
        stid: Stid::UNDEFINED,
        depends_on: sys::WSREP_SEQNO_UNDEFINED,
    };
}

// The interface of the server and the format between servers have the same bits.
const _: () = {
    assert!(WsFlags::TRX_END.0 == sys::WSREP_FLAG_TRX_END);
    assert!(WsFlags::ROLLBACK.0 == sys::WSREP_FLAG_ROLLBACK);
    assert!(WsFlags::ISOLATION.0 == sys::WSREP_FLAG_ISOLATION);
    assert!(WsFlags::PA_UNSAFE.0 == sys::WSREP_FLAG_PA_UNSAFE);
    assert!(WsFlags::TRX_START.0 == sys::WSREP_FLAG_TRX_START);
};

/// The provider's name for a transaction, carried by the server in a pointer that is never
/// followed. Look it up in a table: an id that is not there is a refusal, never a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpaqueId(pub NonZeroU64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TrxHandle {
    /// The server's number; 2^64-1: none. Starts again at each server start.
    pub trx_id: u64,
    pub opaque: Option<OpaqueId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertifyOutcome {
    pub status: Status,
    /// The place in the order, if it has one; otherwise the server gets "undefined".
    pub meta: Option<TrxMeta>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortOutcome {
    /// `Ok`: the victim will be aborted. `NotAllowed`: it must finish first.
    pub status: Status,
    /// The victim's seqno; -1 if it has none.
    pub victim_seqno: i64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum StatValue {
    Str(String),
    Int(i64),
    Double(f64),
}

#[derive(Clone, Debug, PartialEq)]
pub struct StatVar {
    pub name: Cow<'static, str>,
    pub value: StatValue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ViewStatus {
    Primary,
    NonPrimary,
    Disconnected,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewMember {
    pub id: Uuid,
    /// Its name; shortened to 31 bytes for the server.
    pub name: String,
    /// Client address, shortened to 255 bytes for the server.
    pub incoming: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Primary: group and the view's own seqno. Otherwise: group and last ordered seqno.
    pub state_id: Gtid,
    /// Counts primary views from 1; -1 if not primary.
    pub number: i64,
    pub status: ViewStatus,
    pub capabilities: u32,
    /// Own place in `members`, if present.
    pub my_index: Option<usize>,
    /// Application protocol; must be 4.
    pub proto_ver: i32,
    /// In the same order on all members.
    pub members: Vec<ViewMember>,
}

impl View {
    /// The last view of a connection, which alone lets the server finish `disconnect`.
    pub fn last(position: Gtid, capabilities: u32) -> View {
        View {
            state_id: position,
            number: -1,
            status: ViewStatus::Disconnected,
            capabilities,
            my_index: None,
            proto_ver: 4,
            members: Vec::new(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum ExitLoop {
    /// The thread stays in `recv`.
    No,
    /// The thread must leave `recv` with [`Status::Ok`] at once.
    Yes,
}

/// Callbacks of a server into its provider.
///
/// After a panic in any method the boundary fences the node: it answers [`Status::NodeFail`] to
/// everything that could acknowledge something, and calls only [`fenced`](ProviderApi::fenced) and
/// the methods marked *also when fenced*.
pub trait ProviderApi: Send + Sync {
    /// The `WSREP_CAP_*` flags. Short. *Also when fenced.*
    fn capabilities(&self) -> u32;

    /// `name=value;...` from a client. Refuse with [`Status::NodeFail`], after logging why.
    fn options_set(&self, text: &str) -> Status;

    /// All options as `name = value; `. Short. *Also when fenced.*
    fn options_get(&self) -> String;

    /// All options with their types. Short. *Also when fenced.*
    fn parameters(&self) -> Vec<Parameter>;

    /// Joins the group. No applier exists yet, so it must not wait for what needs one. It needs a
    /// timeout of its own. Refuse with [`Status::NodeFail`].
    fn connect(&self, name: &str, url: &str, donor: &str, bootstrap: bool) -> Status;

    /// Leaves the group: fails all local waiters, delivers [`View::last`] on a `recv` thread and
    /// makes every `recv` return. *Also when fenced*: without that view the server waits for ever.
    fn disconnect(&self) -> Status;

    /// Lends the calling thread (small stack) until disconnect or [`ExitLoop::Yes`].
    fn recv(&self, ctx: RecvContext) -> Status;

    /// Orders a local transaction. Waits until position and verdict are known, never for appliers.
    fn certify(&self, conn: u64, handle: &mut TrxHandle, flags: WsFlags) -> CertifyOutcome;

    /// Waits until every smaller seqno has left the order. Interruptible for local transactions.
    fn commit_order_enter(&self, handle: &TrxHandle, meta: &TrxMeta) -> Status;

    /// Lets the next seqno go. Short: the server holds global locks. `error`: applying failed here.
    fn commit_order_leave(
        &self,
        handle: &TrxHandle,
        meta: &TrxMeta,
        error: Option<&[u8]>,
    ) -> Status;

    /// Forgets a transaction and clears `handle.opaque` (unless it is streamed and continues).
    /// Short, except for an ordered transaction that never entered the order.
    fn release(&self, handle: &mut TrxHandle) -> Status;

    /// Applies an aborted but ordered transaction again, on the calling thread. Only `Ok` and
    /// `TrxFail`: the server aborts the process on anything else.
    fn replay(&self, handle: &TrxHandle, ctx: ReplayContext) -> Status;

    /// Aborts a local victim for an ordered action (`bf_seqno` -1: whatever its seqno). Short,
    /// never waits for the victim, never calls back: the victim's locks are held.
    fn abort_certification(&self, bf_seqno: i64, victim: u64) -> AbortOutcome;

    /// Rolls back a streamed transaction everywhere. Short: enqueue and return.
    fn rollback(&self, trx: u64) -> Status;

    /// Adds one key. The first call for a transaction sets `handle.opaque`. Parts are valid during
    /// the call. `kind` is a `WSREP_KEY_*`. Short.
    fn append_key(&self, handle: &mut TrxHandle, parts: &[&[u8]], kind: u32) -> Status;

    /// Adds data, valid during the call. `kind` is a `WSREP_DATA_*`. Short.
    fn append_data(&self, handle: &mut TrxHandle, data: &[u8], kind: u32) -> Status;

    /// Waits until a position is released here: the group's present one, or `upto`. Seconds; -1:
    /// the configured timeout; may be huge. Also answers the position reached.
    fn sync_wait(&self, upto: Option<Gtid>, timeout_s: i32) -> (Status, Gtid);

    /// Highest seqno that is released with all before it. Short; in a view with seqno V it is V-1.
    /// *Also when fenced.*
    fn last_committed(&self) -> Gtid;

    /// Orders a statement and waits until all before it are released. The order stays taken until
    /// [`to_execute_end`](ProviderApi::to_execute_end) of the same connection.
    fn to_execute_start(
        &self,
        conn: u64,
        keys: &[Vec<&[u8]>],
        action: &[&[u8]],
        flags: u32,
    ) -> CertifyOutcome;

    /// The statement is done; `error` if it failed here.
    fn to_execute_end(&self, conn: u64, error: Option<&[u8]>) -> Status;

    /// Donor: the copy is sent (`code` 0) or failed (negative; the position is undefined). Short.
    fn sst_sent(&self, gtid: Gtid, code: i32) -> Status;

    /// Joiner: the copy is here and the engine stands at `gtid`, or failed (negative code). Short.
    fn sst_received(&self, gtid: Gtid, code: i32) -> Status;

    /// Status variables in order. Short; leaf locks only. *Also when fenced.*
    fn stats(&self) -> Vec<StatVar>;

    /// Sets the counters to zero. Short; leaf locks only. *Also when fenced.*
    fn stats_reset(&self);

    /// Stops applying and committing, waits until what has begun is released, answers the position;
    /// -1: failed.
    fn pause(&self) -> i64;

    /// Ends a pause. Short. The server throws on anything but `Ok`. *Also when fenced.*
    fn resume(&self) -> Status;

    /// Leaves flow control (counted).
    fn desync(&self) -> Status;

    /// Returns to it. Short: the server's state lock is held; `synced` comes later.
    fn resync(&self) -> Status;

    /// Joins every thread: the library may be unloaded afterwards. Called once, by the first
    /// `free`, perhaps without a `disconnect`. *Also when fenced.*
    fn shutdown(&self);

    /// The node has been fenced because of a panic: stop acknowledging, make every `recv` return.
    /// If the panic was in `recv`, `ctx` is that call's context and the calling thread may deliver
    /// [`View::last`] with it; no other thread can if it was the only applier. Must not wait.
    /// Called again for each further panic: the second may be the one that brings the context.
    fn fenced(&self, reason: &str, ctx: Option<RecvContext>) {
        let _ = (reason, ctx);
    }
}
