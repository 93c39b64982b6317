//! The library as the server finds it: loaded by path, looked up by name.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::process::Command;

use wsrep_sys::*;

const EXPORTS: [&str; 9] = [
    "wsrep_deinit_allowlist_service_v1",
    "wsrep_deinit_config_service_v1",
    "wsrep_deinit_event_service_v1",
    "wsrep_init_allowlist_service_v1",
    "wsrep_init_config_service_v1",
    "wsrep_init_event_service_v1",
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

/// As MariaDB 11.8 does at its start: a failure there ends the server.
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
    let mut service = wsrep_config_service_v1_t {
        get_parameters: None,
    };
    // SAFETY: a service that may be written.
    let answer = unsafe { synod::boundary::wsrep_init_config_service_v1(&mut service) };
    assert_eq!(answer, WSREP_OK);
    let get_parameters = service.get_parameters.expect("filled in");
    let mut parameters = 0_usize;
    // SAFETY: no parameter is read from a provider that is not there.
    let answer = unsafe {
        get_parameters(
            std::ptr::null_mut(),
            Some(count),
            (&raw mut parameters).cast(),
        )
    };
    assert_eq!((answer, parameters), (WSREP_OK, 0));
    synod::boundary::wsrep_deinit_config_service_v1();
}
