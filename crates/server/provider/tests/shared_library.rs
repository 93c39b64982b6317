//! The library as the server finds it: loaded by path, looked up by name.

#[path = "support/config_service.rs"]
mod config_service;

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::process::Command;
use std::ptr;

use synod::boundary::*;
use wsrep_sys::*;

const EXPORTS: [&str; 17] = [
    "wsrep_deinit_allowlist_service_v1",
    "wsrep_deinit_config_service_v1",
    "wsrep_deinit_connection_monitor_service_v1",
    "wsrep_deinit_event_service_v1",
    "wsrep_deinit_membership_service_v1",
    "wsrep_deinit_thread_service_v1",
    "wsrep_deinit_tls_service_v1",
    "wsrep_init_allowlist_service_v1",
    "wsrep_init_config_service_v1",
    "wsrep_init_connection_monitor_service_v1",
    "wsrep_init_event_service_v1",
    "wsrep_init_membership_service_v1",
    "wsrep_init_thread_service_v1",
    "wsrep_init_tls_service_v1",
    "wsrep_interface_version",
    "wsrep_loader",
    "wsrep_node_isolation_mode_set_v1",
];

/// The library that was built with this test: one or two directories above it.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let found = test
        .ancestors()
        .skip(1)
        .take(3)
        .map(|dir| dir.join("libsynod.so"));
    found
        .into_iter()
        .find(|path| path.exists())
        .expect("libsynod.so beside the test")
}

#[test]
fn only_the_symbols_of_the_interface_are_exported() {
    let output = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library())
        .output()
        .unwrap();
    let listing = String::from_utf8(output.stdout).unwrap();
    let names: BTreeSet<&str> = listing
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .collect();
    assert_eq!(names, BTreeSet::from(EXPORTS));
}

#[test]
fn library_stays_mapped_when_closed() {
    let output = Command::new("readelf")
        .arg("-d")
        .arg(library())
        .output()
        .unwrap();
    let listing = String::from_utf8(output.stdout).unwrap();
    assert!(listing.contains("NODELETE"), "{listing}");
}

#[test]
fn server_can_load_verify_and_unload() {
    let path = CString::new(library().into_os_string().into_encoded_bytes()).unwrap();
    // SAFETY: our own library, without initialisers that do anything.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null());
    let symbol = |name: &str| -> *mut c_void {
        let name = CString::new(name).unwrap();
        // SAFETY: a loaded library and a text.
        let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
        assert!(!found.is_null(), "{name:?}");
        found
    };
    for name in EXPORTS {
        symbol(name);
    }
    // SAFETY: the symbol is a variable that holds a text.
    let version =
        unsafe { CStr::from_ptr(*symbol("wsrep_interface_version").cast::<*const c_char>()) };
    assert_eq!(version, c"26");

    type Loader = unsafe extern "C" fn(*mut wsrep_t) -> c_int;
    // SAFETY: the symbol is this function.
    let loader: Loader = unsafe { std::mem::transmute(symbol("wsrep_loader")) };
    // SAFETY: plain allocation of a table.
    let table: *mut wsrep_t = unsafe { libc::calloc(1, size_of::<wsrep_t>()) }.cast();
    // SAFETY: a table.
    assert_eq!(unsafe { loader(table) }, 0);
    // SAFETY: filled; `free` may be called twice; nothing of it is used afterwards.
    unsafe {
        assert_eq!(CStr::from_ptr((*table).version), c"26");
        let free = (*table).free.unwrap();
        free(table);
        free(table);
        libc::free(table.cast());
        assert_eq!(libc::dlclose(handle), 0);
    }
}

/// MariaDB 11.8 makes this call at its start, where a failure ends the server.
#[test]
fn config_service_without_a_provider_has_no_parameter_and_answers_ok() {
    unsafe extern "C-unwind" fn count(
        _parameter: *const wsrep_parameter_t,
        context: *mut c_void,
    ) -> wsrep_status_t {
        // SAFETY: the context is the counter below.
        unsafe { *context.cast::<usize>() += 1 };
        WSREP_OK
    }
    let get_parameters = config_service::get_parameters().expect("filled in");
    let mut parameters = 0_usize;
    // SAFETY: no parameter is read from a provider that is not there.
    let answer =
        unsafe { get_parameters(ptr::null_mut(), Some(count), (&raw mut parameters).cast()) };
    assert_eq!((answer, parameters), (WSREP_OK, 0));
    wsrep_deinit_config_service_v1();
}

#[test]
fn services_that_are_not_used_are_accepted() {
    let mut service = [0_usize; 22];
    let service = (&raw mut service).cast();
    let mut membership = wsrep_membership_service_v1_t {
        get_membership: None,
    };
    // A server may load a library again that it has unloaded.
    for _ in 0..2 {
        let answers = [
            wsrep_init_thread_service_v1(service),
            wsrep_init_tls_service_v1(service),
            wsrep_init_event_service_v1(service),
            wsrep_init_connection_monitor_service_v1(service),
            // SAFETY: a service that may be written.
            unsafe { wsrep_init_membership_service_v1(&mut membership) },
        ];
        assert_eq!(answers, [WSREP_OK; 5]);
        wsrep_deinit_thread_service_v1();
        wsrep_deinit_tls_service_v1();
        wsrep_deinit_event_service_v1();
        wsrep_deinit_connection_monitor_service_v1();
        wsrep_deinit_membership_service_v1();
    }
    let ask = membership.get_membership.expect("filled in");
    // SAFETY: it takes nothing, and may be called at any time, also after its service has ended.
    assert_eq!(unsafe { ask() }, WSREP_NOT_IMPLEMENTED);
}

#[test]
fn service_that_is_not_there_is_refused() {
    // SAFETY: NULL is allowed.
    let answers = unsafe {
        [
            wsrep_init_allowlist_service_v1(ptr::null_mut()),
            wsrep_init_config_service_v1(ptr::null_mut()),
            wsrep_init_event_service_v1(ptr::null_mut()),
            wsrep_init_thread_service_v1(ptr::null_mut()),
            wsrep_init_tls_service_v1(ptr::null_mut()),
            wsrep_init_connection_monitor_service_v1(ptr::null_mut()),
            wsrep_init_membership_service_v1(ptr::null_mut()),
        ]
    };
    assert_eq!(answers, [libc::EINVAL; 7]);
}
