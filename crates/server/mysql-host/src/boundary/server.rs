//! `struct synod_server`: the server's functions, as the plugin hands them over.

use std::ffi::{c_char, c_void};

use synod_binlog::mysql_gtid::MysqlGtidSet;
use synod_node::Level;

use crate::server::{Server, ServerError, ThreadToken};

type Take = extern "C" fn(context: *mut c_void, bytes: *const u8, length: usize);

/// `struct synod_server`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CServer {
    interface_version: u32,
    log: extern "C" fn(i32, *const c_char, usize),
    thread_begin: extern "C" fn(*mut *mut c_void) -> i32,
    thread_end: extern "C" fn(*mut c_void),
    channel_create: extern "C" fn() -> i32,
    channel_start: extern "C" fn() -> i32,
    channel_stop: extern "C" fn() -> i32,
    channel_queue: extern "C" fn(*const u8, usize) -> i32,
    channel_is_applying: extern "C" fn() -> i32,
    executed: extern "C" fn(*mut c_void, Take) -> i32,
    set_read_only: extern "C" fn(i32) -> i32,
    set_offline: extern "C" fn(i32) -> i32,
    set_flush: extern "C" fn(i32) -> i32,
    flushes: extern "C" fn() -> i32,
}

impl CServer {
    fn result(call: &'static str, code: i32) -> Result<(), ServerError> {
        match code {
            0 => Ok(()),
            code => Err(ServerError::Call { call, code }),
        }
    }
}

impl Server for CServer {
    fn log(&self, level: Level, text: &str) {
        let level = match level {
            Level::Debug => 0,
            Level::Info => 1,
            Level::Warning => 2,
            Level::Error => 3,
        };
        (self.log)(level, text.as_ptr().cast(), text.len());
    }

    fn begin_thread(&self) -> Option<ThreadToken> {
        let mut thread = std::ptr::null_mut();
        let code = (self.thread_begin)(&mut thread);
        (code == 0).then_some(ThreadToken(thread.expose_provenance()))
    }

    fn end_thread(&self, thread: ThreadToken) {
        (self.thread_end)(std::ptr::with_exposed_provenance_mut(thread.0));
    }

    fn create_channel(&self) -> Result<(), ServerError> {
        CServer::result("channel_create", (self.channel_create)())
    }

    fn start_channel(&self) -> Result<(), ServerError> {
        CServer::result("channel_start", (self.channel_start)())
    }

    fn stop_channel(&self) -> Result<(), ServerError> {
        CServer::result("channel_stop", (self.channel_stop)())
    }

    fn queue(&self, event: &[u8]) -> Result<(), ServerError> {
        let code = (self.channel_queue)(event.as_ptr(), event.len());
        CServer::result("channel_queue_packet", code)
    }

    fn is_applying(&self) -> bool {
        (self.channel_is_applying)() == 1
    }

    fn executed(&self) -> Result<MysqlGtidSet, ServerError> {
        extern "C" fn take(context: *mut c_void, bytes: *const u8, length: usize) {
            // SAFETY: `context` is the place below, which outlives the call; the plugin hands over
            // `length` bytes that are valid during it.
            let (place, bytes) = unsafe {
                let place = &mut *context.cast::<Option<MysqlGtidSet>>();
                (place, std::slice::from_raw_parts(bytes, length))
            };
            *place = MysqlGtidSet::of_dump_bytes(bytes);
        }
        let mut set: Option<MysqlGtidSet> = None;
        let code = (self.executed)((&raw mut set).cast(), take);
        set.filter(|_| code == 0).ok_or(ServerError::Executed)
    }

    fn set_read_only(&self, on: bool) -> Result<(), ServerError> {
        CServer::result("set read_only", (self.set_read_only)(i32::from(on)))
    }

    fn set_offline(&self, on: bool) -> Result<(), ServerError> {
        CServer::result("set offline_mode", (self.set_offline)(i32::from(on)))
    }

    fn set_flush(&self, on: bool) -> Result<(), ServerError> {
        let code = (self.set_flush)(i32::from(on));
        CServer::result("set innodb_flush_log_at_trx_commit", code)
    }

    fn flushes(&self) -> bool {
        (self.flushes)() == 1
    }
}
