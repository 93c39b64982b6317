//! Tests of option strings, defaults and changes at run time.

use synod_node::{Credentials, GroupSetting, GroupSettings, LeaderPreference, Writers};

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
fn segment_that_the_log_cannot_hold_is_refused_as_an_option() {
    options("synod.log_segment_size=1G");
    let error = refused("synod.log_segment_size=2G").to_string();
    assert!(error.contains("synod.log_segment_size"), "{error}");
}

#[test]
fn chunk_is_at_most_what_an_entry_of_the_log_holds() {
    let max = i64::from(synod_node::PAYLOAD_BYTES_MAX);
    assert_eq!(options("synod.chunk_size=64M").int(key::CHUNK_SIZE), max);
    let error = refused("synod.chunk_size=65M").to_string();
    assert!(error.contains("synod.chunk_size"), "{error}");
}

#[test]
fn every_text_has_at_most_two_sentences() {
    for OptionSpec {
        name,
        about,
        meaning,
        ..
    } in &SPECS
    {
        if matches!(meaning, Meaning::None(_)) {
            assert!(about.is_empty(), "{name}: the reason is enough");
            continue;
        }
        let sentences = about.matches(". ").count() + 1;
        assert!(about.ends_with('.') && sentences <= 2, "{name}: {about}");
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
    fn no_text_breaks_the_parsers(
        text in "[-a-zA-Z0-9_.=;\\\\ :/\\[\\]?&,é]{0,60}",
        name in 0..SPECS.len(),
    ) {
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
    assert!(!options.to_text().contains("gmcast.isolate"), "not kept");
    let _ = options.set("repl.causal_read_timeout=PT0.1S").unwrap();
    let timeout = options.duration(key::REPL_CAUSAL_READ_TIMEOUT);
    assert_eq!(timeout, Duration::from_millis(100));
}

#[test]
fn staleness_is_bounded_by_a_time_that_answers_take() {
    let mut options = options("");
    let set = options.set("synod.max_staleness=50ms");
    assert!(set.is_ok());
    assert_eq!(
        options.duration(key::MAX_STALENESS),
        Duration::from_millis(50)
    );
    for (text, why) in [
        ("-5", "milliseconds such as 50ms"),
        ("-5ms", "milliseconds such as 50ms"),
        ("soon", "milliseconds such as 50ms"),
        ("0.0005", "at least 1ms"),
        ("18446744073709551616ms", "milliseconds such as 50ms"),
    ] {
        let refused = options
            .set(&format!("synod.max_staleness={text}"))
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("'synod.max_staleness'") && refused.contains(why),
            "{refused}"
        );
    }
    assert!(options.to_text().contains("synod.max_staleness = 50ms; "));
    let _ = options.set("synod.max_staleness=0").unwrap();
    assert!(options.duration(key::MAX_STALENESS).is_zero());
}

#[test]
fn defaults_follow_the_nodes_address_and_port() {
    let given = Defaults {
        node_address: "127.0.0.1:5000".to_owned(),
        ..defaults()
    };
    let (options, _) = Options::new(given.clone(), "").unwrap();
    assert_eq!(options.int(key::BASE_PORT), 5000);
    assert_eq!(options.listen_address().to_string(), "127.0.0.1:5000");

    let (options, _) = Options::new(given, "base_port=6000").unwrap();
    assert_eq!(options.listen_address().to_string(), "127.0.0.1:6000");
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
fn encryption_has_galeras_options() {
    assert_eq!(options("").tls(), None);
    let set = options(
        "socket.ssl=yes;socket.ssl_cert=/c.pem;socket.ssl_key=/k.pem;socket.ssl_ca=/ca.pem;\
         socket.ssl_password_file=/p;socket.dynamic=yes;socket.ssl_cipher=TLS_AES_128_GCM_SHA256",
    );
    let tls = set.tls().unwrap();
    let Credentials::Certificates(files) = tls.credentials else {
        panic!("{tls:?}");
    };
    assert_eq!(files.certificate.to_str(), Some("/c.pem"));
    assert_eq!(files.key.to_str(), Some("/k.pem"));
    let path = |path: &str| Some(std::path::PathBuf::from(path));
    assert_eq!(files.authorities, path("/ca.pem"));
    assert_eq!(files.password, path("/p"));
    assert_eq!(files.ciphers, "TLS_AES_128_GCM_SHA256");
    assert!(tls.accept_plain);
}

#[test]
fn certificate_and_key_are_used_unless_the_operator_says_no() {
    let files = "socket.ssl_cert=/c.pem;socket.ssl_key=/k.pem";
    assert!(options(files).tls().is_some());
    assert!(options("socket.ssl_cert=/c.pem").tls().is_none());
    assert!(options(&format!("{files};socket.ssl=no")).tls().is_none());
    // Then a missing file is found out when it is read, not passed over.
    assert!(options("socket.ssl=yes").tls().is_some());
}

#[test]
fn encryption_options_without_effect_come_with_a_notice() {
    let names = |text: &str| -> Vec<&str> {
        let (_, update) = Options::new(defaults(), text).unwrap();
        update.notices.iter().map(|notice| notice.name).collect()
    };
    assert_eq!(names("socket.dynamic=yes"), ["socket.dynamic"]);
    assert_eq!(names("socket.dynamic=yes;socket.ssl=yes"), [""; 0]);
    let cipher = "socket.ssl=yes;socket.ssl_cipher=AES128-SHA256";
    assert_eq!(names(cipher), ["socket.ssl_cipher"]);
    let compression = "socket.ssl=yes;socket.ssl_compression=yes";
    assert_eq!(names(compression), ["socket.ssl_compression"]);
}

#[test]
fn address_does_not_promise_encryption_that_is_off() {
    let address = "gmcast.listen_addr=ssl://0.0.0.0:4567";
    assert!(refused(address).to_string().contains("socket.ssl=yes"));
    let both = options(&format!("{address};socket.ssl=yes"));
    assert_eq!(both.listen_address().to_string(), "0.0.0.0:4567");
    assert!(matches!(
        refused("gcache.encryption=on"),
        OptionsError::Refused { .. }
    ));
}

#[test]
fn reload_is_listed_where_there_is_something_to_reload() {
    // The server looks for the name before it asks for it (FLUSH SSL).
    assert!(!options("").to_text().contains("socket.ssl_reload"));
    let mut with = options("socket.ssl=yes");
    assert!(with.to_text().contains("socket.ssl_reload = no; "));
    let update = with.set("socket.ssl_reload=1").unwrap();
    assert_eq!(
        update.value(key::SOCKET_SSL_RELOAD),
        Some(&Value::Bool(true))
    );
    assert!(with.to_text().contains("socket.ssl_reload = no; "));
}

#[test]
fn member_with_an_ipv6_address_listens_on_and_tells_ipv6() {
    let given = Defaults {
        node_address: "[fd00::7]:5000".to_owned(),
        ..defaults()
    };
    let (options, _) = Options::new(given, "").unwrap();
    assert_eq!(options.listen_address().to_string(), "[::]:5000");
    assert_eq!(options.own_address("h:1").to_string(), "[fd00::7]:5000");
    let listed = options.to_text();
    assert!(
        listed.contains("gmcast.listen_addr = tcp://[::]:5000; "),
        "{listed}"
    );
}

#[test]
fn own_address_is_the_node_address_or_where_clients_come() {
    let own = |node: &str, text: &str, fallback: &str| {
        let given = Defaults {
            node_address: node.to_owned(),
            ..defaults()
        };
        let (options, _) = Options::new(given, text).unwrap();
        options.own_address(fallback).to_string()
    };
    assert_eq!(own("10.0.0.1", "", "c:3306"), "10.0.0.1:4567");
    assert_eq!(own("", "", "c:3306"), "c:4567");
    assert_eq!(own("", "", "[::1]:3306"), "[::1]:4567");
    assert_eq!(own("", "", ":3306"), "127.0.0.1:4567");
    assert_eq!(own("", "base_host=::1;base_port=7", "c:3306"), "[::1]:7");
    let listen = "base_host=[::1];gmcast.listen_addr=tcp://[::1]:8";
    assert_eq!(own("", listen, ""), "[::1]:8");
}

#[test]
fn heartbeat_must_be_shorter_than_a_quarter_of_the_election_timeout() {
    for text in [
        "synod.election_timeout=PT0.4S",
        "synod.heartbeat_period=PT0.4S",
        "synod.heartbeat_period=PT0S",
    ] {
        let error = refused(text).to_string();
        assert!(error.contains("synod.heartbeat_period"), "{text}: {error}");
    }
    let timing = options("synod.heartbeat_period=PT0.3S").timing();
    assert_eq!(timing.promise_us, 1_200_000);
}

#[test]
fn option_of_an_earlier_version_is_refused_with_what_happens_instead() {
    for name in ["synod.lease", "synod.promise", "synod.laggard_after"] {
        let error = refused(&format!("{name}=PT0.4S")).to_string();
        assert!(
            error.starts_with(&format!("{name} is no longer an option: ")),
            "{error}"
        );
        assert!(error.ends_with("Remove it"), "{error}");
    }
}

#[test]
fn leader_weight_and_handover_can_be_set_at_any_time_within_bounds() {
    let mut options = options("");
    assert_eq!(options.leader_preference(), LeaderPreference::default());
    let _ = options
        .set("synod.leader_weight=0; synod.leader_handover=yes")
        .unwrap();
    let LeaderPreference { weight, hands_over } = options.leader_preference();
    assert_eq!((weight.get(), hands_over), (0, true));
    for text in ["synod.leader_weight=101", "synod.leader_weight=-1"] {
        let refused = options.set(text).unwrap_err().to_string();
        assert!(refused.contains("from 0 to 100"), "{refused}");
    }
}

#[test]
fn options_for_start_cannot_be_set_at_run_time() {
    let error = options("").set("base_port=1").unwrap_err();
    assert_eq!(error, OptionsError::ReadOnly { name: "base_port" });
}

#[test]
fn saved_listing_can_be_put_back_at_run_time() {
    let mut options = options("base_port=7000");
    let saved = options.to_text();
    let _ = options.set("gcs.fc_limit=3").unwrap();
    let _ = options.set(&saved).unwrap();
    assert_eq!(options.to_text(), saved);
}

#[test]
fn saved_listing_changes_nothing_that_is_the_groups() {
    let mut options = options("base_port=7000");
    // As another server has shown it, or this one some time ago.
    let saved = options.to_text();
    let _ = options.set("synod.leader_weight=90").unwrap();
    let leader = GroupSetting::Writers(Writers::Leader);
    options.follow_group(GroupSettings::default().with(leader));
    let update = options.set(&saved).unwrap();
    assert_eq!(update.value(key::WRITERS), None);
    assert_eq!(update.value(key::LEADER_WEIGHT), None);
    assert_eq!(options.writers(), Writers::Leader);
    assert_eq!(options.leader_preference().weight.get(), 90);
    let said: Vec<String> = update.not_restored.iter().map(|n| n.to_string()).collect();
    assert!(said[0].starts_with("synod.leader_weight=50 is ignored."));
    assert!(said[1].starts_with("synod.writers=any is ignored."));
    assert_eq!(said.len(), 2);

    let update = options.set(&options.to_text()).unwrap();
    assert_eq!(update.not_restored, [], "it is so already");
    let update = options.set("synod.leader_weight=7; synod.writers=any; gcs.fc_limit=3");
    let update = update.unwrap();
    assert!(update.value(key::WRITERS).is_some(), "a person names it");
    assert_eq!(options.leader_preference().weight.get(), 7);
}

#[test]
fn list_for_a_start_sets_everything_that_it_names() {
    let (options, update) =
        Options::new(defaults(), "base_port=7000; synod.writers=leader").unwrap();
    assert_eq!(update.not_restored, []);
    assert_eq!(options.writers(), Writers::Leader);
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
    let update = options.set("gmcast.isolate=1").unwrap();
    assert_eq!(update.value(key::GMCAST_ISOLATE), Some(&Value::Int(1)));
    assert!(options.set("gmcast.isolate=2").is_err());
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

#[test]
fn group_secret_is_a_credential_that_excludes_certificates() {
    let set = options("synod.secret_file=/etc/s;socket.dynamic=yes");
    let tls = set.tls().unwrap();
    let Credentials::Secret(file) = tls.credentials else {
        panic!("{tls:?}");
    };
    assert_eq!(file.path.to_str(), Some("/etc/s"));
    assert!(tls.accept_plain);
    assert!(
        set.to_text().contains("socket.ssl_reload"),
        "FLUSH SSL looks for it"
    );
    for certificates in ["socket.ssl=yes", "socket.ssl_cert=/c;socket.ssl_key=/k"] {
        let text = refused(&format!("synod.secret_file=/etc/s;{certificates}")).to_string();
        assert!(
            text.contains("'synod.secret_file'") && text.contains("one kind"),
            "{text}"
        );
    }
    let off = "synod.secret_file=/etc/s;socket.ssl_cert=/c;socket.ssl_key=/k;socket.ssl=no";
    assert!(matches!(
        options(off).tls().unwrap().credentials,
        Credentials::Secret(_)
    ));
}

#[test]
fn member_without_credentials_listens_on_loopback_only_or_is_refused() {
    let exposure = |node: &str, text: &str| {
        let defaults = Defaults {
            node_address: node.to_owned(),
            ..defaults()
        };
        Options::new(defaults, text).unwrap().0.exposure()
    };
    for text in ["", "synod.insecure=no", "socket.ssl=no;socket.dynamic=yes"] {
        let error = exposure("10.0.0.1", text).unwrap_err().to_string();
        for hint in ["synod keygen", "synod.secret_file=", "0.0.0.0:4567"] {
            assert!(error.contains(hint), "{error}");
        }
    }
    assert!(exposure("", "").is_err(), "the server knows no address");
    assert!(exposure("127.0.0.1", "gmcast.listen_addr=tcp://0.0.0.0:4567").is_err());
    assert!(exposure("127.0.0.1", "synod.listen_addr=10.0.0.1").is_err());
    for (node, text) in [
        ("127.0.0.1", ""),
        ("[::1]:5000", ""),
        ("localhost:5000", ""),
        ("10.0.0.1", "base_host=127.0.0.1"),
        ("10.0.0.1", "gmcast.listen_addr=tcp://127.0.0.1:4567"),
    ] {
        assert_eq!(exposure(node, text), Ok(Exposure::Machine), "{node} {text}");
    }
    let secret = "synod.secret_file=/s;synod.insecure=yes";
    assert_eq!(exposure("10.0.0.1", secret), Ok(Exposure::Members));
}

#[test]
fn member_whose_own_address_is_loopback_listens_there_only() {
    for (node, listen) in [
        ("127.0.0.1", "127.0.0.1:4567"),
        ("127.0.0.1:5000", "127.0.0.1:5000"),
        ("[::1]:5000", "[::1]:5000"),
        ("10.0.0.1", "0.0.0.0:4567"),
        ("[2001:db8::1]", "[::]:4567"),
    ] {
        let defaults = Defaults {
            node_address: node.to_owned(),
            ..defaults()
        };
        let (options, _) = Options::new(defaults, "").unwrap();
        assert_eq!(options.listen_address().to_string(), listen, "{node}");
    }
}

#[test]
fn what_lets_anyone_in_is_warned_of_at_every_start() {
    let warning = |text: &str| options(text).exposure().unwrap().warning();
    let insecure = warning("synod.insecure=yes").unwrap();
    assert!(
        insecure.contains("neither encrypted nor authenticated"),
        "{insecure}"
    );
    let changing = warning("synod.secret_file=/s;socket.dynamic=yes").unwrap();
    assert!(changing.contains("socket.dynamic=yes"), "{changing}");
    assert_eq!(warning("synod.secret_file=/s"), None);
    assert_eq!(warning("gmcast.listen_addr=tcp://127.0.0.1"), None);
    let (_, update) = Options::new(defaults(), "synod.secret_file=/s;synod.insecure=1").unwrap();
    assert_eq!(update.notices.len(), 1, "{:?}", update.notices);
}
