//! The C boundary: `synod_host.h` of the plugin on one side, `host.rs` on the other. All
//! unsafe code of this crate is here, and in the parts of this module.
//!
//! No panic unwinds into the server: after one, nothing is acknowledged any more.
#![allow(unsafe_code)]

mod server;

use std::any::Any;
use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clients::Statement;
use crate::consistency::PositionError;
use crate::host::{Decision, Member};
use crate::members;
use crate::server::{ClientTransaction, Opening};
use crate::settings::{Settings, Variables};

pub use server::CServer;

/// Number of the interface: that of `synod_host.h`. A test holds what declarations it stands for.
const INTERFACE: u32 = 7;

static MEMBER: Mutex<Option<Arc<Member>>> = Mutex::new(None);

type TakePiece = extern "C" fn(to: *mut c_void, piece: *const u8, length: usize) -> i32;

/// `struct synod_settings`.
#[repr(C)]
pub struct CSettings {
    group: *const c_char,
    name: *const c_char,
    address: *const c_char,
    members: *const c_char,
    options: *const c_char,
    incoming: *const c_char,
    data_dir: *const c_char,
    bootstrap: i32,
    server_version: u32,
    server_id: u32,
    server_version_text: *const c_char,
}

/// `struct synod_transaction`.
#[repr(C)]
pub struct CTransaction {
    context: *mut c_void,
    read: extern "C" fn(*mut c_void, *mut c_void, TakePiece) -> i32,
    is_killed: extern "C" fn(*mut c_void) -> i32,
    bytes: u64,
    hashes: *const u64,
    hash_count: usize,
    runs_alone: i32,
    waits_for_others: i32,
    began: i64,
    thread: u32,
}

/// `struct synod_status`.
#[repr(C)]
pub struct CStatus {
    state: [u8; 16],
    writer: [u8; 64],
    problem: [u8; 512],
    members: [u8; 512],
    applied: i64,
    committed: i64,
    checked: u64,
    waiting: u64,
    ordered: u64,
    refused: u64,
    unknown: u64,
    primary: i32,
}

/// `struct synod_member`.
#[repr(C)]
pub struct CMember {
    server: [u8; 40],
    name: [u8; 64],
    host: [u8; 256],
    state: [u8; 16],
    port: u32,
    is_writer: i32,
    is_self: i32,
}

/// `SYNOD_LATEST` of `enum synod_position`.
const LATEST: i32 = 1;
/// `SYNOD_SYNCED`.
const SYNCED: i32 = 2;

/// Results of [`synod_host_position`].
const NOT_IN_TIME: i32 = 1;
const NO_PART: i32 = 2;

const ORDERED: i32 = 0;
const REFUSED: i32 = 1;
const UNKNOWN: i32 = 2;
const TOO_LARGE: i32 = 3;

/// A transaction while its client's thread is in [`synod_host_commit`].
struct Client<'a>(&'a CTransaction);

/// Taker of the pieces of a transaction, and its panic.
struct Pieces<'a> {
    take: &'a mut dyn FnMut(&[u8]) -> bool,
    panic: Option<Box<dyn Any + Send>>,
}

impl ClientTransaction for Client<'_> {
    fn read(&self, take: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        extern "C" fn take_piece(to: *mut c_void, piece: *const u8, length: usize) -> i32 {
            // SAFETY: `to` is the place below, which outlives the call; the plugin hands over
            // `length` bytes that are valid during it.
            let (to, piece) = unsafe {
                let to = &mut *to.cast::<Pieces<'_>>();
                (to, std::slice::from_raw_parts(piece, length))
            };
            let taken = catch_unwind(AssertUnwindSafe(|| (to.take)(piece)));
            let taken = taken.map_err(|panic| to.panic = Some(panic));
            i32::from(taken != Ok(true))
        }
        let mut pieces = Pieces { take, panic: None };
        let code = (self.0.read)(self.0.context, (&raw mut pieces).cast(), take_piece);
        if let Some(panic) = pieces.panic {
            resume_unwind(panic);
        }
        code == 0
    }

    fn bytes(&self) -> u64 {
        self.0.bytes
    }

    fn hashes(&self) -> &[u64] {
        if self.0.hash_count == 0 {
            return &[];
        }
        // SAFETY: the plugin gives that many hashes, valid until the commit returns.
        unsafe { std::slice::from_raw_parts(self.0.hashes, self.0.hash_count) }
    }

    fn runs_alone(&self) -> bool {
        self.0.runs_alone != 0
    }

    fn waits_for_others(&self) -> bool {
        self.0.waits_for_others != 0
    }

    fn began(&self) -> Option<Opening> {
        (self.0.began >= 0).then_some(Opening(self.0.began))
    }

    fn thread(&self) -> u32 {
        self.0.thread
    }
}

/// The way to ask whether a statement is killed, for as long as its thread waits.
struct KilledFlag {
    context: *mut c_void,
    is_killed: extern "C" fn(*mut c_void) -> i32,
}

// SAFETY: the plugin's function may be called from any thread while the client's thread is in
// `synod_host_commit`, and `Clients` calls it at no other time.
unsafe impl Send for KilledFlag {}
// SAFETY: as above.
unsafe impl Sync for KilledFlag {}

impl Statement for KilledFlag {
    fn is_killed(&self) -> bool {
        (self.is_killed)(self.context) != 0
    }
}

/// # Safety
/// The pointers are those that `synod_host.h` describes; `why` has room for `why_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn synod_host_start(
    server: *const CServer,
    settings: *const CSettings,
    why: *mut c_char,
    why_size: usize,
) -> i32 {
    // SAFETY: the caller's promise.
    let started = catch_unwind(AssertUnwindSafe(|| unsafe { start(server, settings) }));
    // SAFETY: the caller's promise.
    unsafe { answer(started, why, why_size) }.map_or(1, |()| 0)
}

/// # Safety
/// All texts of `settings` end with a zero byte. Of a server of another interface, the number is
/// valid.
unsafe fn start(server: *const CServer, settings: *const CSettings) -> Result<(), String> {
    // SAFETY: the number is at the beginning, whatever follows it.
    let interface = unsafe { *server.cast::<u32>() };
    if interface != INTERFACE {
        return Err(format!(
            "the plugin's two parts are of different builds (interface {interface} and \
             {INTERFACE}): build it again"
        ));
    }
    // SAFETY: the caller's promise.
    let (server, variables) = unsafe { (*server, variables(&*settings)) };
    let settings = Settings::of(variables).map_err(|error| error.to_string())?;
    let mut running = MEMBER.lock().unwrap_or_else(PoisonError::into_inner);
    if running.is_some() {
        return Err("it runs already".to_owned());
    }
    let member = Member::start(Arc::new(server), settings).map_err(|error| error.to_string())?;
    *running = Some(member);
    Ok(())
}

/// # Safety
/// All texts of `settings` end with a zero byte.
unsafe fn variables(settings: &CSettings) -> Variables {
    let text = |pointer: *const c_char| {
        if pointer.is_null() {
            return String::new();
        }
        // SAFETY: the caller's promise.
        let text = unsafe { CStr::from_ptr(pointer) };
        text.to_string_lossy().into_owned()
    };
    Variables {
        group: text(settings.group),
        name: text(settings.name),
        address: text(settings.address),
        members: text(settings.members),
        options: text(settings.options),
        incoming: text(settings.incoming),
        data_dir: text(settings.data_dir),
        bootstrap: settings.bootstrap != 0,
        server_version: settings.server_version,
        server_version_text: text(settings.server_version_text),
        server_id: settings.server_id,
    }
}

/// # Safety
/// `settings` is a `struct synod_settings`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn synod_host_was_member(settings: *const CSettings) -> i32 {
    // SAFETY: the caller's promise.
    let settings = Settings::of(unsafe { variables(&*settings) });
    i32::from(settings.is_ok_and(|settings| settings.has_log()))
}

fn member() -> Option<Arc<Member>> {
    let running = MEMBER.lock().unwrap_or_else(PoisonError::into_inner);
    running.clone()
}

/// # Safety
/// The pointers are those that `synod_host.h` describes, and stay valid during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn synod_host_commit(
    transaction: *const CTransaction,
    number: *mut i64,
) -> i32 {
    let Some(member) = member() else {
        return REFUSED;
    };
    // SAFETY: the caller's promise.
    let transaction = unsafe { &*transaction };
    let statement = Arc::new(KilledFlag {
        context: transaction.context,
        is_killed: transaction.is_killed,
    });
    let client = Client(transaction);
    match catch_unwind(AssertUnwindSafe(|| member.commit(&client, statement))) {
        Ok(Decision::Ordered(seqno)) => {
            // SAFETY: the caller's promise.
            unsafe { *number = seqno.0 };
            ORDERED
        }
        Ok(Decision::Refused) => REFUSED,
        Ok(Decision::TooLarge) => TOO_LARGE,
        Ok(Decision::Unknown) => UNKNOWN,
        Err(_) => {
            member.fail("a commit met a defect of the plugin; see the lines before. Restart it");
            UNKNOWN
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn synod_host_committed(thread: u32) {
    if let Some(member) = member() {
        // Only its time is not counted.
        let _ = catch_unwind(AssertUnwindSafe(|| member.committed(thread)));
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn synod_host_opening() -> i64 {
    member().map_or(Opening::NONE, |member| member.opening()).0
}

/// # Safety
/// `status` is a `struct synod_status`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn synod_host_status(status: *mut CStatus) {
    // SAFETY: the caller's promise; all fields may be zero.
    let out = unsafe {
        status.write_bytes(0, 1);
        &mut *status
    };
    let Some(member) = member() else {
        put_text(&mut out.state, "stopped");
        return;
    };
    let status = member.status();
    put_text(&mut out.state, status.state);
    put_text(&mut out.writer, &status.writer);
    put_text(&mut out.problem, &status.problem);
    put_text(&mut out.members, &status.members);
    (out.applied, out.committed) = (status.applied, status.committed);
    out.checked = status.checked;
    out.waiting = status.waiting;
    out.ordered = status.ordered;
    out.refused = status.refused;
    out.unknown = status.unknown;
    out.primary = i32::from(status.is_primary);
}

/// # Safety
/// The pointers are those that `synod_host.h` describes, and stay valid during the call; `why` has
/// room for `why_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn synod_host_position(
    kind: i32,
    seconds: u32,
    context: *mut c_void,
    is_killed: extern "C" fn(*mut c_void) -> i32,
    number: *mut i64,
    why: *mut c_char,
    why_size: usize,
) -> i32 {
    let statement = KilledFlag { context, is_killed };
    let limit = Duration::from_secs(u64::from(seconds));
    let found = catch_unwind(AssertUnwindSafe(|| match (member(), kind) {
        (None, LATEST | SYNCED) => Err(PositionError::NoPart),
        (None, _) => Ok(0),
        (Some(member), LATEST) => {
            let latest = member.latest_position(limit, &statement);
            latest.map(|seqno| seqno.0)
        }
        (Some(member), _) => {
            let takes_part = match kind {
                SYNCED => member.must_take_part(),
                _ => Ok(()),
            };
            let position = takes_part.and_then(|()| member.position_of_new_writer(&statement));
            position.map(|position| position.map_or(0, |seqno| seqno.0))
        }
    }));
    let code = match &found {
        Ok(Err(PositionError::NoPart)) => NO_PART,
        _ => NOT_IN_TIME,
    };
    let found = found.map(|found| found.map_err(|error| error.to_string()));
    // SAFETY: the caller's promise.
    unsafe { answer(found, why, why_size) }.map_or(code, |found| {
        // SAFETY: the caller's promise.
        unsafe { *number = found };
        0
    })
}

/// # Safety
/// `members` has that many places.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn synod_host_members(members: *mut CMember, places: usize) -> usize {
    let list = member().map(|member| members::list(&member.node().status()));
    let list = list.unwrap_or_default();
    // SAFETY: the caller's promise; all fields may be zero.
    let out = unsafe {
        members.write_bytes(0, places);
        std::slice::from_raw_parts_mut(members, places)
    };
    for (place, member) in out.iter_mut().zip(&list) {
        put_text(&mut place.server, &member.server.to_string());
        put_text(&mut place.name, &member.name);
        put_text(&mut place.host, &member.host);
        put_text(&mut place.state, member.state);
        place.port = u32::from(member.port);
        place.is_writer = i32::from(member.is_writer);
        place.is_self = i32::from(member.is_self);
    }
    list.len().min(places)
}

/// # Safety
/// `server` ends with a zero byte, and `why` has room for `why_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn synod_host_lead(
    server: *const c_char,
    why: *mut c_char,
    why_size: usize,
) -> i32 {
    // SAFETY: the caller's promise.
    let server = unsafe { CStr::from_ptr(server) }.to_string_lossy();
    let done = catch_unwind(AssertUnwindSafe(|| match member() {
        None => Err("this server takes no part in its group".to_owned()),
        Some(member) => member.hand_over_to(&server),
    }));
    // SAFETY: the caller's promise.
    unsafe { answer(done, why, why_size) }.map_or(1, |()| 0)
}

/// The value of a call; none: it failed, and `why` says how.
///
/// # Safety
/// `why` has room for `why_size` bytes.
unsafe fn answer<T>(
    answered: std::thread::Result<Result<T, String>>,
    why: *mut c_char,
    why_size: usize,
) -> Option<T> {
    // SAFETY: the caller's promise; the bytes are set before they are read.
    let why = unsafe {
        why.cast::<u8>().write_bytes(0, why_size);
        std::slice::from_raw_parts_mut(why.cast::<u8>(), why_size)
    };
    match answered {
        Ok(Ok(value)) => Some(value),
        Ok(Err(text)) => {
            put_text(why, &text);
            None
        }
        Err(_) => {
            put_text(why, "the plugin has a defect; see the lines before");
            None
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn synod_host_leave() {
    if let Some(member) = member() {
        // A defect in leaving must not keep the server from its shutdown.
        let _ = catch_unwind(AssertUnwindSafe(|| member.leave()));
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn synod_host_stop() {
    // Taken out first: commits that come now are refused.
    let running = MEMBER.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(member) = running {
        let _ = catch_unwind(AssertUnwindSafe(|| member.stop()));
    }
}

/// Puts a text and a zero byte into a place, as much as fits.
fn put_text(place: &mut [u8], text: &str) {
    let Some(room) = place.len().checked_sub(1) else {
        return;
    };
    let mut end = text.len().min(room);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    place[..end].copy_from_slice(&text.as_bytes()[..end]);
    place[end..].fill(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_between_characters_and_ends_with_a_zero() {
        let mut place = [7; 6];
        put_text(&mut place, "abcé");
        assert_eq!(&place, b"abc\xc3\xa9\0");
        let mut place = [7; 5];
        put_text(&mut place, "abcé");
        assert_eq!(&place, b"abc\0\0");
        put_text(&mut [], "a");
    }

    /// Two changes at once meet here, though they take the same number.
    #[test]
    fn number_of_the_interface_stands_for_its_declarations() {
        const DECLARATIONS: u64 = 9_542_006_262_172_894_827;
        let header = include_str!("../../../mysql-shim/synod_host.h");
        let line = format!("#define SYNOD_HOST_INTERFACE {INTERFACE}\n");
        assert!(header.contains(&line));
        let code: String = (header.split("/*"))
            .map(|part| part.split_once("*/").map_or(part, |(_, code)| code))
            .collect();
        let hash = (code.split_whitespace().flat_map(str::bytes)).fold(0, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        assert_eq!(
            hash, DECLARATIONS,
            "declarations of synod_host.h have changed: raise the number of the interface, and \
             put the new value here"
        );
    }

    #[test]
    fn plugin_of_another_interface_is_refused_and_no_more_of_it_is_read() {
        let number = INTERFACE - 1;
        let mut why = [0x7f_u8; 200];
        // SAFETY: of another interface only the number is read.
        let code = unsafe {
            synod_host_start(
                (&raw const number).cast(),
                std::ptr::null(),
                why.as_mut_ptr().cast(),
                why.len(),
            )
        };
        let why = CStr::from_bytes_until_nul(&why).unwrap();
        assert_eq!(code, 1);
        assert!(
            why.to_str().unwrap().contains("interface 6 and 7"),
            "{why:?}"
        );
    }
}
