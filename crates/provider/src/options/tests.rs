use super::*;

fn defaults() -> Defaults {
    Defaults {
        data_dir: "/data/".to_owned(),
        node_address: "10.0.0.1".to_owned(),
    }
}

fn options(text: &str) -> Options {
    Options::new(defaults(), text).unwrap().0
}

fn refused(text: &str) -> OptionsError {
    Options::new(defaults(), text).unwrap_err()
}

#[test]
fn every_default_fits_its_option() {
    for (spec, slot) in SPECS.iter().zip(&options("").slots) {
        assert_eq!(
            value::parse(spec.kind, &slot.text).as_ref(),
            Ok(&slot.value),
            "{}",
            spec.name
        );
    }
}

#[test]
fn names_are_unique_and_in_galeras_order() {
    let names: Vec<&str> = SPECS.iter().map(|spec| spec.name).collect();
    assert!(names.is_sorted(), "ours begin with s and follow socket.*");
    for pair in names.windows(2) {
        assert_ne!(pair[0], pair[1]);
    }
}

#[test]
fn listing_has_the_defaults_that_servers_and_tools_look_for() {
    let text = options("").to_text();
    let expected = [
        "base_dir = /data/; base_host = 10.0.0.1; base_port = 4567; cert.log_conflicts = no; ",
        "gcache.size = 128M; ",
        "repl.max_ws_size = 2147483647; ",
        "gmcast.listen_addr = tcp://0.0.0.0:4567; ",
        "gcomm.thread_prio = ; ",
        "ist.recv_addr = 10.0.0.1:4568; ",
        "socket.send_buf_size = auto; synod.apply_queue_size = 64M; ",
    ];
    for part in expected {
        assert!(text.contains(part), "{part} in {text}");
    }
    for hidden in [
        "pc.bootstrap",
        "socket.ssl",
        "gmcast.isolate",
        "gcs.stateless",
    ] {
        assert!(!text.contains(hidden), "{hidden} in {text}");
    }
}

#[test]
fn listing_can_be_given_back_to_a_starting_server() {
    let text = options("").to_text();
    let (again, update) = Options::new(Defaults::default(), &text).unwrap();
    assert_eq!(again.to_text(), text);
    assert!(
        update
            .notices
            .iter()
            .all(|n| matches!(n.name, "gcache.dir" | "base_dir" | "ist.recv_addr"))
    );
}

#[test]
fn listing_with_separators_in_values_can_be_given_back() {
    let given = r"base_dir=/a\;b\=c\\; base_host=\ ; gcache.name=x y";
    let shown = options(given).to_text();
    let (again, _) = Options::new(defaults(), &shown).unwrap();
    assert_eq!(again.to_text(), shown);
    assert_eq!(again.text(key::BASE_HOST), " ");
}

proptest::proptest! {
    #[test]
    fn no_text_breaks_the_parsers(text in "[-a-zA-Z0-9_.=;\\\\ :/\\[\\]?&,é]{0,60}", name in 0..SPECS.len()) {
        let _ = Options::new(defaults(), &text);
        let _ = Options::new(defaults(), &format!("{}={text}", SPECS[name].name));
        let _ = ClusterUrl::parse(&format!("synod://{text}"), DEFAULT_PORT);
        let _ = Options::new(Defaults { node_address: text, ..defaults() }, "");
    }
}

#[test]
fn listing_shows_values_as_they_were_written() {
    let mut options = options("gcs.fc_limit=1K; gmcast.isolate = 0");
    assert!(options.to_text().contains("gcs.fc_limit = 1K; "));
    assert!(options.to_text().contains("gmcast.isolate = 0; "));
    let _ = options.set("repl.causal_read_timeout=PT0.1S").unwrap();
    assert_eq!(options.duration_ms(key::REPL_CAUSAL_READ_TIMEOUT), 100);
}

#[test]
fn defaults_follow_the_nodes_address_and_port() {
    let given = Defaults {
        node_address: "127.0.0.1:5000".to_owned(),
        ..defaults()
    };
    let (options, _) = Options::new(given.clone(), "").unwrap();
    assert_eq!(options.int(key::BASE_PORT), 5000);
    assert_eq!(options.listen_address().to_string(), "0.0.0.0:5000");

    let (options, _) = Options::new(given, "base_port=6000").unwrap();
    assert_eq!(options.listen_address().to_string(), "0.0.0.0:6000");
    assert!(
        options
            .to_text()
            .contains("ist.recv_addr = 127.0.0.1:6001; ")
    );
}

#[test]
fn ipv6_node_addresses_stay_in_brackets() {
    let given = Defaults {
        node_address: "[::1]:5000".to_owned(),
        ..defaults()
    };
    let (options, _) = Options::new(given, "").unwrap();
    assert!(options.to_text().contains("ist.recv_addr = [::1]:5001; "));
}

#[test]
fn own_listen_address_goes_before_galeras() {
    let options = options("gmcast.listen_addr=tcp://1.1.1.1:1; synod.listen_addr=2.2.2.2");
    assert_eq!(options.listen_address().to_string(), "2.2.2.2:4567");
}

#[test]
fn unknown_name_is_the_line_galera_logs() {
    for name in ["a", "gmcasts.segment", "dbug"] {
        assert_eq!(
            refused(&format!("{name}=1")).to_string(),
            format!("Unknown parameter '{name}'")
        );
    }
}

#[test]
fn unknown_own_name_comes_with_the_nearest_known_one() {
    let text = refused("synod.log_dri=/x").to_string();
    assert_eq!(
        text,
        "Unknown parameter 'synod.log_dri'; did you mean 'synod.log_dir'?"
    );
}

#[test]
fn options_without_meaning_are_accepted_with_a_notice() {
    let (_, update) =
        Options::new(defaults(), "gcache.size=10M;evs.version=1;base_port=4000").unwrap();
    let notices: Vec<String> = update.notices.iter().map(Notice::to_string).collect();
    assert_eq!(
        notices.len(),
        1,
        "not for a default, not for what works: {notices:?}"
    );
    assert!(notices[0].contains("'gcache.size'") && notices[0].contains("synod.log_retain_size"));
}

#[test]
fn encryption_is_refused_as_long_as_there_is_none() {
    let cases = [
        "socket.ssl=yes",
        "socket.ssl_key=/k.pem",
        "socket.ssl_reload=1",
        "gmcast.listen_addr=ssl://0.0.0.0:4567",
    ];
    for text in cases {
        assert!(refused(text).to_string().contains("TLS"), "{text}");
    }
    assert!(matches!(
        refused("gcache.encryption=on"),
        OptionsError::Refused { .. }
    ));
    options("socket.ssl=no; gcache.encryption=off");
}

#[test]
fn minority_cannot_be_made_primary_by_option() {
    assert!(matches!(
        options("").set("pc.bootstrap=YES"),
        Err(OptionsError::Refused { .. })
    ));
    let update = options("").set("pc.bootstrap=0").unwrap();
    assert_eq!(update.value(key::PC_BOOTSTRAP), Some(&Value::Bool(false)));
}

#[test]
fn lease_must_lie_between_heartbeat_and_election() {
    for text in [
        "synod.lease=PT2S",
        "synod.election_timeout=PT0.4S",
        "synod.heartbeat_period=PT0.4S",
        "synod.heartbeat_period=PT0S",
    ] {
        assert!(
            refused(text).to_string().contains("synod.election_timeout"),
            "{text}"
        );
    }
    options("synod.lease=PT2S;synod.election_timeout=PT5S");
}

#[test]
fn options_for_start_cannot_be_set_at_run_time() {
    let error = options("").set("base_port=1").unwrap_err();
    assert_eq!(error, OptionsError::ReadOnly { name: "base_port" });
}

#[test]
fn refused_list_changes_nothing() {
    let mut options = options("");
    let before = options.to_text();
    assert!(options.set("gcs.fc_limit=3; repl.max_ws_size=4G").is_err());
    assert_eq!(options.to_text(), before);
}

#[test]
fn run_time_change_reports_what_changed() {
    let mut options = options("");
    let update = options
        .set("gcs.fc_limit=1;repl.max_ws_size=10000")
        .unwrap();
    assert_eq!(update.value(key::GCS_FC_LIMIT), Some(&Value::Int(1)));
    assert_eq!(update.value(key::BASE_PORT), None);
    assert_eq!(options.unsigned(key::REPL_MAX_WS_SIZE), 10_000);
    assert!(
        options.set("gmcast.isolate=1").is_err(),
        "a live member cannot be cut off"
    );
    let _ = options.set("gmcast.isolate=0").unwrap();
    for blank in ["", " ", ";"] {
        assert_eq!(options.set(blank).unwrap(), Update::default());
    }
}

#[test]
fn cluster_address_may_carry_options_for_start() {
    let url = ClusterUrl::parse("gcomm://a?base_port=7000&pc.wait_prim=no", DEFAULT_PORT).unwrap();
    let mut options = options("");
    let _ = options.set_from_url(&url.options).unwrap();
    assert_eq!(options.listen_address().port, Some(7000));
    assert!(!options.bool(key::PC_WAIT_PRIM));
}

#[test]
fn configuration_of_the_servers_own_tests_is_accepted() {
    options(
        "base_port=16021;evs.suspect_timeout=PT10S;evs.inactive_timeout=PT30S;\
         evs.install_timeout=PT15S;pc.wait_prim_timeout=PT60S;gcache.size=10M;\
         repl.causal_read_timeout=PT90S;pc.ignore_sb=true",
    );
}
