//! The keys of a relay's file about an upstream.

use std::path::Path;

use super::*;

const WHOLE: &str = r#"
    cluster_name = "g"
    name = "relay1"
    address = "relay1.example"
    synod.log_dir = "/log"
    synod.secret_file = "/secret"
    relay.listen = "0.0.0.0:3310"
    relay.accounts.repl = "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7"
    relay.upstream = "mysql://repl@db1.example"
    relay.upstream_server_id = 4711
"#;

fn parse(more: &str) -> Result<RelayConfig, RelayConfigError> {
    RelayConfig::parse(Path::new("relay.toml"), &format!("{WHOLE}\n{more}"))
}

#[track_caller]
fn refused(more: &str, part: &str) {
    let text = parse(more).unwrap_err().to_string();
    assert!(text.contains(part), "{text}");
}

#[test]
fn relay_of_an_upstream_votes_and_may_be_alone() {
    let config = parse("").unwrap();
    let node = config.member.node();
    assert!(node.keeps_log_only && node.wants_vote && node.seeds.is_empty());
    let upstream = config.upstream.unwrap();
    assert_eq!(upstream.config.address.to_string(), "db1.example:3306");
    assert_eq!(upstream.config.user, "repl");
    assert_eq!(
        upstream.start,
        Position::Gtids(synod_binlog::GtidList::default())
    );
    assert!(!upstream.config.semi_sync && upstream.config.filter.keeps_all());
}

#[test]
fn start_is_understood_in_all_its_forms() {
    let start = |text: &str| {
        let config = parse(&format!("relay.upstream_start = \"{text}\""));
        config.unwrap().upstream.unwrap().start.to_string()
    };
    assert_eq!(start("now"), "the newest transaction");
    assert_eq!(start("0-1-7, 3-2-9"), "GTID '0-1-7,3-2-9'");
    assert_eq!(start("mysql-bin.000042:1234"), "mysql-bin.000042 at 1234");
    let set = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-4711";
    assert_eq!(start(set), format!("the set of MySQL's GTIDs '{set}'"));
    let tagged = format!("{set}:orders:1");
    let shown = format!("the set of MySQL's GTIDs '{tagged}'");
    assert_eq!(start(&tagged), shown);
    let not_a_tag = format!("{set}:1st:1");
    for text in ["yesterday", "a:b", ":4", "0-1", &not_a_tag] {
        refused(&format!("relay.upstream_start = \"{text}\""), "\"now\"");
    }
}

#[test]
fn wrong_keys_are_refused_with_what_to_write() {
    let changed = |from: &str, to: &str| {
        let text = WHOLE.replace(from, to);
        let error = RelayConfig::parse(Path::new("relay.toml"), &text).unwrap_err();
        error.to_string()
    };
    assert!(changed("mysql://", "http://").contains("mysql://repl@"));
    assert!(changed("repl@db1", "repl:secret@db1").contains("upstream_password_file"));
    let text = changed("relay.upstream_server_id = 4711", "");
    assert!(text.contains("relay.upstream_server_id = "), "{text}");
    let text = changed("relay.upstream = \"mysql://repl@db1.example\"", "");
    assert!(text.contains("'relay.upstream' is missing"), "{text}");
    refused("relay.upstream_keep = [\"shop\"]", "schema.table");
    refused("relay.upstream_semi_sync = 1", "true or false");
    refused("relay.upstream_tls_verify_name = false", "upstream_tls_ca");
    refused("relay.upstream_port = 1", "no key");
    assert!(
        address_of("ssl://db2:3306")
            .unwrap_err()
            .contains("upstream_tls_ca")
    );
}
