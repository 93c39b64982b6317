//! Plays the server: calls the function table as mariadbd does, with a fake provider behind it.
//!
//! Only what crosses the boundary is checked here; the fake records what arrived and answers what
//! the test told it to.
// `unsafe_call!` runs unsafe code with arguments of the test, as its name says.
#![allow(clippy::macro_metavars_in_unsafe)]

mod support;

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;

use support::config_service::get_parameters;
use support::{Fake, Host, applied, key, log_lines};
use synod::api::{
    AbortOutcome, CertifyOutcome, ExitLoop, Gtid, LogLevel, Status, Stid, TrxMeta, Uuid, View,
    ViewMember, ViewStatus,
};
use synod_node::GroupId;
use wsrep_sys::*;

fn gtid(seqno: i64) -> Gtid {
    Gtid::new(GroupId([9; 16]), seqno)
}

fn meta(seqno: i64) -> TrxMeta {
    let stid = Stid {
        node: Uuid([3; 16]),
        trx: 17,
        conn: 5,
    };
    TrxMeta {
        gtid: gtid(seqno),
        stid,
        depends_on: seqno - 1,
    }
}

fn handle() -> wsrep_ws_handle_t {
    wsrep_ws_handle_t {
        trx_id: 17,
        opaque: ptr::null_mut(),
    }
}

#[test]
fn every_slot_of_the_table_is_filled() {
    let host = Host::load(Fake::default());
    // SAFETY: the table is filled; all of it but `dlh` and `ctx` are pointers.
    let words = unsafe { *host.table.cast::<[usize; 45]>() };
    for (i, word) in words[..43].iter().enumerate() {
        assert_ne!(*word, 0, "slot at offset {}", i * 8);
    }
    assert_eq!(words[43], support::LOADERS_HANDLE, "dlh is the loader's");
}

#[test]
fn table_tells_version_and_names_as_tools_expect_them() {
    let host = Host::load(Fake::default());
    let text = |text: *const c_char| {
        // SAFETY: static texts of the provider.
        unsafe { CStr::from_ptr(text) }.to_str().unwrap()
    };
    assert_eq!(text(host.table().version), "26");
    let version = text(host.table().provider_version);
    assert!(
        version.starts_with("5.1(r") && version.ends_with(')'),
        "{version}"
    );
    assert_eq!(text(host.table().provider_name), "Synod");
}

#[test]
fn init_arguments_arrive_as_copies() {
    let host = Host::started(Fake::default());
    let args = host.fake.init_args();
    assert_eq!(args.node_name, "n1");
    assert_eq!(args.data_dir, "/data/");
    assert_eq!(args.options, "a=b");
    assert_eq!(args.node_address, "", "NULL is empty");
    assert_eq!(args.start_position, gtid(41));
}

#[test]
fn failing_constructor_logs_why_and_fails_init() {
    let host = Host::load(Fake {
        refuse_init: true,
        ..Fake::default()
    });
    assert_eq!(host.init(), WSREP_NODE_FAIL);
    assert!(log_lines().contains(&(WSREP_LOG_ERROR, "Unknown parameter 'a'".to_owned())));
}

#[test]
fn panicking_constructor_fails_init() {
    let host = Host::load(Fake {
        panic_at: Some("init"),
        ..Fake::default()
    });
    assert_eq!(host.init(), WSREP_NODE_FAIL);
    assert_eq!(log_lines()[0].0, WSREP_LOG_FATAL);
}

#[test]
fn second_init_is_refused() {
    let host = Host::started(Fake::default());
    assert_eq!(host.init(), WSREP_NODE_FAIL);
    assert_eq!(
        host.call(|w, t| unsafe_call!(t.desync, w)),
        WSREP_OK,
        "the first one continues"
    );
}

#[test]
fn calls_before_init_and_after_free_are_refused() {
    let host = Host::load(Fake::default());
    let check = |host: &Host| {
        assert_eq!(host.call(|w, t| unsafe_call!(t.desync, w)), WSREP_NODE_FAIL);
        assert_eq!(host.call(|w, t| unsafe_call!(t.pause, w)), -1);
        let mut position = WSREP_GTID_UNDEFINED;
        let status = host.call(|w, t| unsafe_call!(t.last_committed_id, w, &mut position));
        assert_eq!(
            (status, position),
            (WSREP_OK, WSREP_GTID_UNDEFINED),
            "must never fail"
        );
        assert_eq!(host.options(), "");
        assert!(host.stats().is_empty());
    };
    check(&host);
    assert_eq!(host.init(), WSREP_OK);
    host.free();
    check(&host);
}

#[test]
fn free_may_be_called_twice_and_stops_the_provider_once() {
    let host = Host::started(Fake::default());
    host.free();
    host.free();
    assert_eq!(host.fake.count("shutdown"), 1);
}

#[test]
fn free_of_a_provider_that_never_started_is_harmless() {
    let host = Host::load(Fake::default());
    host.free();
    host.free();
    assert_eq!(host.fake.count("shutdown"), 0);
}

#[test]
fn null_table_is_refused_everywhere() {
    let host = Host::load(Fake::default());
    let t = host.table();
    let null = ptr::null_mut();
    assert_eq!(unsafe_call!(t.init, null, ptr::null()), WSREP_NODE_FAIL);
    assert_eq!(unsafe_call!(t.capabilities, null), 0);
    assert_eq!(unsafe_call!(t.recv, null, ptr::null_mut()), WSREP_NODE_FAIL);
    assert_eq!(unsafe_call!(t.disconnect, null), WSREP_NODE_FAIL);
    unsafe_call!(t.free, null);
    // SAFETY: NULL is allowed.
    assert_ne!(unsafe { synod::boundary::wsrep_loader(null) }, 0);
}

#[test]
fn null_arguments_are_refused_without_reaching_the_provider() {
    let host = Host::started(Fake::default());
    let null_handle: *mut wsrep_ws_handle_t = ptr::null_mut();
    let mut h = handle();
    host.call(|w, t| {
        assert_eq!(unsafe_call!(t.init, w, ptr::null()), WSREP_NODE_FAIL);
        let mut out = WSREP_TRX_META_UNDEFINED;
        assert_eq!(
            unsafe_call!(t.certify, w, 1, null_handle, 0, &mut out),
            WSREP_NODE_FAIL
        );
        assert_eq!(
            unsafe_call!(t.commit_order_enter, w, null_handle, &out),
            WSREP_BF_ABORT
        );
        assert_eq!(
            unsafe_call!(t.commit_order_enter, w, &h, ptr::null()),
            WSREP_BF_ABORT
        );
        assert_eq!(
            unsafe_call!(t.commit_order_leave, w, &h, ptr::null(), ptr::null()),
            WSREP_NODE_FAIL
        );
        assert_eq!(unsafe_call!(t.release, w, null_handle), WSREP_NODE_FAIL);
        let replayed = unsafe_call!(t.replay_trx, w, null_handle, ptr::null_mut());
        assert_eq!(replayed, WSREP_TRX_FAIL);
        assert_eq!(
            unsafe_call!(t.append_key, w, &mut h, ptr::null(), 1, 0, 1),
            WSREP_NODE_FAIL
        );
        assert_eq!(
            unsafe_call!(t.append_data, w, &mut h, ptr::null(), 1, 0, 1),
            WSREP_NODE_FAIL
        );
        let broken = wsrep_buf_t {
            ptr: ptr::null(),
            len: 3,
        };
        assert_eq!(
            unsafe_call!(t.append_data, w, &mut h, &broken, 1, 0, 1),
            WSREP_NODE_FAIL
        );
        let too_long = wsrep_buf_t {
            ptr: (&raw const h).cast(),
            len: usize::MAX,
        };
        assert_eq!(
            unsafe_call!(t.append_data, w, &mut h, &too_long, 1, 0, 1),
            WSREP_NODE_FAIL
        );
    });
    assert_eq!(host.fake.calls(), Vec::<String>::new());
}

#[test]
fn null_texts_are_empty_and_null_results_are_skipped() {
    let host = Host::started(Fake::default());
    host.call(|w, t| {
        let connected = unsafe_call!(t.connect, w, ptr::null(), c"u".as_ptr(), ptr::null(), 1);
        assert_eq!(connected, WSREP_OK);
        assert_eq!(unsafe_call!(t.options_set, w, ptr::null()), WSREP_OK);
        assert_eq!(
            unsafe_call!(t.sync_wait, w, ptr::null_mut(), -1, ptr::null_mut()),
            WSREP_OK
        );
        assert_eq!(
            unsafe_call!(t.last_committed_id, w, ptr::null_mut()),
            WSREP_OK
        );
        assert_eq!(
            unsafe_call!(t.abort_certification, w, 1, 2, ptr::null_mut()),
            WSREP_OK
        );
        unsafe_call!(t.stats_free, w, ptr::null_mut());
    });
    let expected = [
        "connect  u  true",
        "options_set ",
        "sync_wait None -1",
        "abort 1 2",
    ];
    assert_eq!(host.fake.calls(), expected);
}

#[test]
fn a_local_transaction_keeps_its_context_from_first_key_to_release() {
    let host = Host::started(Fake {
        certify: CertifyOutcome {
            status: Status::Ok,
            meta: Some(meta(11)),
        },
        ..Fake::default()
    });
    let mut h = handle();
    let parts = [key(b"db"), key(b"t"), key(b"\x00row")];
    let keys = wsrep_key_t {
        key_parts: parts.as_ptr(),
        key_parts_num: 3,
    };
    let data = key(b"rows");
    let mut out = WSREP_TRX_META_UNDEFINED;
    host.call(|w, t| {
        assert_eq!(
            unsafe_call!(t.append_key, w, &mut h, &keys, 1, WSREP_KEY_EXCLUSIVE, 1),
            0
        );
        assert_eq!(h.opaque.addr(), 99, "set by the first key");
        assert_eq!(
            unsafe_call!(t.append_data, w, &mut h, &data, 1, WSREP_DATA_ORDERED, 1),
            0
        );
        assert_eq!(
            unsafe_call!(t.certify, w, 5, &mut h, 0x41, &mut out),
            WSREP_OK
        );
        assert_eq!((out.gtid.seqno, out.depends_on), (11, 10));
        assert_eq!(
            (out.stid.trx, out.stid.conn, out.stid.node.data),
            (17, 5, [3; 16])
        );
        assert_eq!(unsafe_call!(t.commit_order_enter, w, &h, &out), WSREP_OK);
        let empty = wsrep_buf_t {
            ptr: ptr::null(),
            len: 0,
        };
        assert_eq!(
            unsafe_call!(t.commit_order_leave, w, &h, &out, &empty),
            WSREP_OK
        );
        assert_eq!(unsafe_call!(t.release, w, &mut h), WSREP_OK);
    });
    assert!(h.opaque.is_null());
    let expected = [
        "append_key 17 None [100, 98]/[116]/[0, 114, 111, 119] 3",
        "append_data 17 Some(99) rows 0",
        "certify 5 17 Some(99) 0x41",
        "enter 17 Some(99) 11",
        "leave 17 Some(99) 11 None",
        "release 17 Some(99)",
    ];
    assert_eq!(host.fake.calls(), expected);
}

#[test]
fn an_unordered_refusal_leaves_the_order_undefined() {
    let host = Host::started(Fake {
        certify: CertifyOutcome {
            status: Status::TrxFail,
            meta: None,
        },
        ..Fake::default()
    });
    let mut h = handle();
    let mut out = WSREP_TRX_META_UNDEFINED;
    let status = host.call(|w, t| unsafe_call!(t.certify, w, 1, &mut h, 0x41, &mut out));
    assert_eq!((status, out), (WSREP_TRX_FAIL, WSREP_TRX_META_UNDEFINED));
}

#[test]
fn statement_in_total_order_passes_keys_action_and_error() {
    let host = Host::started(Fake {
        certify: CertifyOutcome {
            status: Status::Ok,
            meta: Some(meta(14)),
        },
        ..Fake::default()
    });
    let parts = [key(b"d"), key(b"t")];
    let keys = [
        wsrep_key_t {
            key_parts: parts.as_ptr(),
            key_parts_num: 2,
        },
        wsrep_key_t {
            key_parts: parts.as_ptr(),
            key_parts_num: 1,
        },
    ];
    let action = key(b"ALTER");
    let error = key(b"Error_code: 1060;\0");
    let mut out = WSREP_TRX_META_UNDEFINED;
    host.call(|w, t| {
        let started = unsafe_call!(
            t.to_execute_start,
            w,
            15,
            keys.as_ptr(),
            2,
            &action,
            1,
            0x41,
            &mut out
        );
        assert_eq!((started, out.gtid.seqno), (WSREP_OK, 14));
        assert_eq!(unsafe_call!(t.to_execute_end, w, 15, &error), WSREP_OK);
    });
    let expected = [
        "toi_start 15 [2, 1] [[65, 76, 84, 69, 82]] 0x41".to_owned(),
        "toi_end 15 Some(18)".to_owned(),
    ];
    assert_eq!(host.fake.calls(), expected);
}

#[test]
fn victims_seqno_is_always_written() {
    let host = Host::started(Fake {
        abort: AbortOutcome {
            status: Status::NotAllowed,
            victim_seqno: 30,
        },
        ..Fake::default()
    });
    let mut seqno = 12345;
    let status = host.call(|w, t| unsafe_call!(t.abort_certification, w, 29, 67, &mut seqno));
    assert_eq!((status, seqno), (WSREP_NOT_ALLOWED, 30));
    host.free();
    let status = host.call(|w, t| unsafe_call!(t.abort_certification, w, 29, 67, &mut seqno));
    assert_eq!(
        (status, seqno),
        (WSREP_NODE_FAIL, -1),
        "also without an answer"
    );
}

#[test]
fn release_without_context_is_fine_even_without_a_provider() {
    let host = Host::load(Fake::default());
    let mut h = wsrep_ws_handle_t {
        trx_id: u64::MAX,
        opaque: ptr::null_mut(),
    };
    assert_eq!(
        host.call(|w, t| unsafe_call!(t.release, w, &mut h)),
        WSREP_OK
    );
}

#[test]
fn options_come_from_malloc_with_a_nul() {
    let host = Host::started(Fake::default());
    assert_eq!(host.options(), "a = b; ");
}

#[test]
fn status_variables_survive_the_trip() {
    let host = Host::started(Fake::default());
    let expected = ["comment=a b", "count=-7", "share=0.5"];
    assert_eq!(host.stats(), expected);
}

#[test]
fn unused_slots_answer_as_the_interface_says() {
    let host = Host::started(Fake::default());
    host.call(|w, t| {
        let null = ptr::null_mut();
        assert_eq!(unsafe_call!(t.enc_set_key, w, ptr::null()), WSREP_OK);
        assert_eq!(unsafe_call!(t.free_connection, w, 1), WSREP_OK);
        let unsupported = [
            unsafe_call!(t.assign_read_view, w, ptr::null_mut(), ptr::null()),
            unsafe_call!(t.preordered_collect, w, ptr::null_mut(), ptr::null(), 0, 0),
            unsafe_call!(
                t.preordered_commit,
                w,
                ptr::null_mut(),
                ptr::null(),
                0,
                0,
                0
            ),
            unsafe_call!(t.snapshot, w, ptr::null(), ptr::null()),
            unsafe_call!(t.lock, w, ptr::null(), 0, 0, 0),
            unsafe_call!(t.unlock, w, ptr::null(), 0),
        ];
        assert_eq!(unsupported, [WSREP_NOT_IMPLEMENTED; 6]);
        assert_eq!(
            unsafe_call!(t.is_locked, w, ptr::null(), null, ptr::null_mut()),
            0
        );
    });
}

#[test]
fn panic_fences_the_node() {
    let host = Host::started(Fake {
        panic_at: Some("certify"),
        ..Fake::default()
    });
    let mut h = handle();
    let mut out = WSREP_TRX_META_UNDEFINED;
    host.call(|w, t| {
        assert_eq!(
            unsafe_call!(t.certify, w, 1, &mut h, 0x41, &mut out),
            WSREP_NODE_FAIL
        );
        assert_eq!(out, WSREP_TRX_META_UNDEFINED);
    });
    let reason = "internal error, node taken out of service: certify broke".to_owned();
    assert_eq!(log_lines(), [(WSREP_LOG_FATAL, reason.clone())]);
    assert_eq!(host.fake.calls(), [format!("fenced {reason} false")]);
}

#[test]
fn fenced_node_acknowledges_nothing_but_lets_the_server_go_down() {
    let host = Host::started(Fake {
        panic_at: Some("desync"),
        ..Fake::default()
    });
    let mut h = wsrep_ws_handle_t {
        trx_id: 1,
        opaque: ptr::without_provenance_mut(99),
    };
    let mut out = WSREP_TRX_META_UNDEFINED;
    host.call(|w, t| {
        assert_eq!(unsafe_call!(t.desync, w), WSREP_NODE_FAIL);
        let m = meta_in_c();
        assert_eq!(
            unsafe_call!(t.certify, w, 1, &mut h, 0x41, &mut out),
            WSREP_NODE_FAIL
        );
        assert_eq!(
            unsafe_call!(t.commit_order_enter, w, &h, &m),
            WSREP_BF_ABORT,
            "on anything else the server commits"
        );
        assert_eq!(
            unsafe_call!(t.commit_order_leave, w, &h, &m, ptr::null()),
            WSREP_NODE_FAIL
        );
        assert_eq!(
            unsafe_call!(t.replay_trx, w, &h, ptr::null_mut()),
            WSREP_OK,
            "the provider knows what was ordered"
        );
        assert_eq!(unsafe_call!(t.release, w, &mut h), WSREP_NODE_FAIL);
        assert_eq!(unsafe_call!(t.pause, w), -1);
        let joined = unsafe_call!(t.connect, w, ptr::null(), ptr::null(), ptr::null(), 0);
        assert_eq!(joined, WSREP_NODE_FAIL);
        assert_eq!(
            unsafe_call!(t.resume, w),
            WSREP_OK,
            "the server throws on anything else"
        );
        assert_eq!(
            unsafe_call!(t.disconnect, w),
            WSREP_OK,
            "it alone ends the server's wait"
        );
    });
    assert_eq!(host.stats().len(), 3);
    host.free();
    let calls = host.fake.calls();
    let asked = ["replay 1 Some(99)", "resume", "disconnect", "shutdown"];
    assert_eq!(calls[1..], asked);
}

#[test]
fn panic_in_recv_hands_over_the_context_for_the_last_view() {
    let host = Host::started(Fake {
        panic_at: Some("recv"),
        ..Fake::default()
    });
    let ctx = ptr::without_provenance_mut(0x77);
    assert_eq!(
        host.call(|w, t| unsafe_call!(t.recv, w, ctx)),
        WSREP_NODE_FAIL
    );
    assert!(
        host.fake.calls()[0].ends_with("true"),
        "{:?}",
        host.fake.calls()
    );
}

#[test]
fn panics_everywhere_are_caught() {
    let host = Host::started(Fake {
        panic_at: Some("everything"),
        ..Fake::default()
    });
    host.call(|w, t| {
        assert_eq!(unsafe_call!(t.capabilities, w), 0);
        assert_eq!(unsafe_call!(t.disconnect, w), WSREP_NODE_FAIL);
        assert_eq!(unsafe_call!(t.resume, w), WSREP_OK);
        unsafe_call!(t.stats_reset, w);
    });
    assert_eq!(host.options(), "");
    assert!(host.stats().is_empty());
    host.free();
}

#[test]
fn provider_threads_can_fence_the_node() {
    let host = Host::started(Fake::default());
    host.fake.callbacks().fence("log thread died");
    host.fake.callbacks().fence("again");
    assert_eq!(host.call(|w, t| unsafe_call!(t.desync, w)), WSREP_NODE_FAIL);
    assert_eq!(
        log_lines(),
        [(WSREP_LOG_FATAL, "log thread died".to_owned())]
    );
    assert_eq!(
        host.fake.callbacks().fence_reason(),
        Some("log thread died")
    );
}

#[test]
fn recv_delivers_views_and_actions_to_the_server() {
    let host = Host::started(Fake {
        deliver: true,
        ..Fake::default()
    });
    let ctx = ptr::without_provenance_mut(0x77);
    assert_eq!(host.call(|w, t| unsafe_call!(t.recv, w, ctx)), WSREP_OK);
    let expected = [
        "connected 9 view 1 status 0 idx 1 [n1@h:1 n2@h:2] proto 4",
        "view ctx 77 view 1 status 0 idx 1 [n1@h:1 n2@h:2] proto 4",
        "apply ctx 77 trx 17 opaque 99 flags 0x41 data rows seqno 12",
        "apply ctx 77 trx 17 opaque 99 flags 0x43 data  seqno 13",
        "synced",
        "view ctx 77 view -1 status 2 idx -1 [] proto 4",
    ];
    assert_eq!(applied(), expected);
}

#[test]
fn server_can_refuse_an_action_or_end_the_loop() {
    let host = Host::started(Fake::default());
    let callbacks = host.fake.callbacks();
    let ctx = synod::api::RecvContext::for_tests(1);
    let h = support::context(17);
    let apply = |data: &[u8]| callbacks.apply(ctx, &h, synod::api::WsFlags(0x41), data, &meta(5));
    assert_eq!(apply(b"exit"), Ok(ExitLoop::Yes));
    assert_eq!(apply(b"fail").unwrap_err().seqno, 5);
    let without = synod::api::TrxHandle {
        trx_id: 17,
        opaque: None,
    };
    let refused = callbacks.apply(ctx, &without, synod::api::WsFlags(0x41), b"x", &meta(5));
    assert!(
        refused.is_err(),
        "the server would take it for no transaction"
    );
}

#[test]
fn request_for_a_full_copy_is_copied_and_freed() {
    let host = Host::started(Fake::default());
    let callbacks = host.fake.callbacks();
    support::set_sst_request(Some(b"rsync\0addr\0"));
    assert_eq!(callbacks.sst_request().unwrap().unwrap(), b"rsync\0addr\0");
    support::set_sst_request(Some(b""));
    assert_eq!(
        callbacks.sst_request(),
        Ok(None),
        "a running server cannot take one"
    );
    support::set_sst_request(None);
    assert!(callbacks.sst_request().is_err());
}

#[test]
fn donation_passes_request_and_position() {
    let host = Host::started(Fake::default());
    let ctx = synod::api::RecvContext::for_tests(0x77);
    host.fake
        .callbacks()
        .sst_donate(ctx, b"rsync\0x\0", gtid(10), true)
        .unwrap();
    assert_eq!(applied(), ["donate ctx 77 8 bytes seqno 10 bypass 1"]);
}

#[test]
fn log_lines_with_a_nul_inside_arrive_whole() {
    let host = Host::started(Fake::default());
    host.fake.callbacks().log(LogLevel::Info, "a\0b");
    assert_eq!(log_lines(), [(WSREP_LOG_INFO, "a b".to_owned())]);
}

#[test]
fn missing_callbacks_are_errors() {
    let callbacks = synod::api::Callbacks::none();
    let view = View::last(gtid(1), 0);
    assert!(callbacks.connected(&view).is_err());
    assert!(callbacks.synced().is_err());
}

#[test]
fn view_with_members_arrives_field_by_field() {
    let host = Host::started(Fake::default());
    let member = |n: u8, name: &str| ViewMember {
        id: Uuid([n; 16]),
        name: name.to_owned(),
        incoming: String::new(),
    };
    let view = View {
        state_id: gtid(8),
        number: 3,
        status: ViewStatus::NonPrimary,
        capabilities: 0x7f,
        my_index: None,
        proto_ver: 4,
        members: vec![member(1, "a"), member(2, &"x".repeat(40))],
    };
    host.fake.callbacks().connected(&view).unwrap();
    let name = "x".repeat(31);
    let expected = format!("connected 8 view 3 status 1 idx -1 [a@ {name}@] proto 4");
    assert_eq!(applied(), [expected]);
}

fn meta_in_c() -> wsrep_trx_meta_t {
    wsrep_trx_meta_t {
        depends_on: 1,
        ..WSREP_TRX_META_UNDEFINED
    }
}

// Both live in process-wide state, so each has one test.

#[test]
fn allowlist_gets_terminated_text_and_decides() {
    use synod::boundary::{
        peer_ip_allowed, peer_subject_allowed, wsrep_deinit_allowlist_service_v1,
        wsrep_init_allowlist_service_v1,
    };
    unsafe extern "C-unwind" fn ask(
        context: *mut c_void,
        key: wsrep_allowlist_key_t,
        value: *const wsrep_buf_t,
    ) -> wsrep_status_t {
        assert_eq!(context.addr(), 0x55);
        // SAFETY: the provider passes a buffer with a NUL behind its bytes.
        let text = unsafe { CStr::from_ptr((*value).ptr.cast()) };
        // SAFETY: as above.
        assert_eq!(text.to_bytes().len(), unsafe { (*value).len });
        let allowed = match key {
            WSREP_ALLOWLIST_KEY_IP => text == c"10.0.0.1",
            _ => text == c"CN=a",
        };
        if allowed { WSREP_OK } else { WSREP_NOT_ALLOWED }
    }
    assert!(peer_ip_allowed("10.0.0.9"), "no list allows all");
    let mut service = wsrep_allowlist_service_v1_t {
        allowlist_cb: Some(ask),
        context: ptr::without_provenance_mut(0x55),
    };
    // SAFETY: a valid service; it is copied.
    let registered = unsafe { wsrep_init_allowlist_service_v1(&mut service) };
    assert_eq!(registered, WSREP_OK);
    assert!(peer_ip_allowed("10.0.0.1"));
    assert!(!peer_ip_allowed("10.0.0.2"));
    assert!(!peer_ip_allowed("10.0.0.1\0x"), "a NUL would hide the rest");
    assert!(peer_subject_allowed("CN=a"));
    wsrep_deinit_allowlist_service_v1();
    assert!(peer_ip_allowed("10.0.0.2"));
}

#[test]
fn isolation_mode_is_remembered_and_bad_modes_are_refused() {
    use synod::boundary::{IsolationMode, isolation_mode, wsrep_node_isolation_mode_set_v1 as set};
    assert_eq!(isolation_mode(), IsolationMode::NotIsolated);
    assert_eq!(
        set(WSREP_NODE_ISOLATION_ISOLATED),
        WSREP_NODE_ISOLATION_SUCCESS
    );
    assert_eq!(isolation_mode(), IsolationMode::Isolated);
    assert_eq!(set(7), WSREP_NODE_ISOLATION_INVALID_VALUE);
    assert_eq!(isolation_mode(), IsolationMode::Isolated);
    assert_eq!(
        set(WSREP_NODE_ISOLATION_FORCE_DISCONNECT),
        WSREP_NODE_ISOLATION_SUCCESS
    );
    assert_eq!(isolation_mode(), IsolationMode::ForceDisconnect);
    assert_eq!(
        set(WSREP_NODE_ISOLATION_NOT_ISOLATED),
        WSREP_NODE_ISOLATION_SUCCESS
    );
}

#[test]
fn opaque_texts_from_the_server_may_be_any_bytes() {
    let host = Host::started(Fake::default());
    let broken = CString::new(b"\xff=1".to_vec()).unwrap();
    assert_eq!(
        host.call(|w, t| unsafe_call!(t.options_set, w, broken.as_ptr())),
        WSREP_OK
    );
    assert_eq!(host.fake.calls(), ["options_set \u{fffd}=1"]);
}

/// Reads a parameter as MariaDB 11.8 does.
unsafe extern "C-unwind" fn take_parameter(
    parameter: *const wsrep_parameter_t,
    context: *mut c_void,
) -> wsrep_status_t {
    // SAFETY: a parameter for this call; the member of the union that its flags name; the context
    // is the list of the test.
    unsafe {
        let parameter = &*parameter;
        let name = CStr::from_ptr(parameter.name).to_str().unwrap();
        let value = match parameter.flags & !WSREP_PARAM_READONLY {
            WSREP_PARAM_TYPE_BOOL => format!("bool {}", parameter.value.as_bool),
            WSREP_PARAM_TYPE_INTEGER => format!("integer {}", parameter.value.as_integer),
            WSREP_PARAM_TYPE_DOUBLE => format!("double {}", parameter.value.as_double),
            0 => {
                let text = CStr::from_ptr(parameter.value.as_string);
                format!("text {}", text.to_str().unwrap())
            }
            other => panic!("flags {other}"),
        };
        let read_only = parameter.flags & WSREP_PARAM_READONLY != 0;
        let list = &mut *context.cast::<Vec<(String, String, bool)>>();
        list.push((name.to_owned(), value, read_only));
    }
    WSREP_OK
}

#[test]
fn config_service_names_every_option_with_its_type() {
    let host = Host::started(Fake::default());
    let mut seen: Vec<(String, String, bool)> = Vec::new();
    let list = (&raw mut seen).cast();
    let answer = unsafe_call!(get_parameters(), host.table, Some(take_parameter), list);
    assert_eq!(answer, WSREP_OK);
    let entry = |name: &str, value: &str, read_only| (name.into(), value.into(), read_only);
    assert_eq!(
        seen,
        [
            entry("on", "bool 1", false),
            entry("number", "integer -7", true),
            entry("seconds", "double 0.5", false),
            entry("text", "text a;b", true),
        ]
    );
}

#[test]
fn server_that_refuses_a_parameter_is_asked_no_more() {
    unsafe extern "C-unwind" fn refuse(
        _parameter: *const wsrep_parameter_t,
        context: *mut c_void,
    ) -> wsrep_status_t {
        // SAFETY: the context is the counter of the test.
        unsafe { *context.cast::<usize>() += 1 };
        WSREP_NODE_FAIL
    }
    let host = Host::started(Fake::default());
    let mut asked = 0_usize;
    let counter = (&raw mut asked).cast();
    let answer = unsafe_call!(get_parameters(), host.table, Some(refuse), counter);
    assert_eq!((answer, asked), (WSREP_NODE_FAIL, 1));
}
