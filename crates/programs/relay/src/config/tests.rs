//! A relay's file: keys, defaults and refusals.

use super::*;

const WHOLE: &str = r#"
    cluster_name = "g"
    name = "relay1"
    address = "relay1.example"
    peers = ["a.example"]
    synod.log_dir = "/log"
    synod.secret_file = "/secret"
    relay.listen = "0.0.0.0:3310"
    relay.accounts.repl = "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7"
"#;

fn parse(more: &str) -> Result<RelayConfig, RelayConfigError> {
    RelayConfig::parse(Path::new("relay.toml"), &format!("{WHOLE}\n{more}"))
}

#[track_caller]
fn refused(more: &str, part: &str) {
    let text = parse(more).unwrap_err().to_string();
    assert!(
        text.starts_with("relay.toml") && text.contains(part),
        "{text}"
    );
}

#[test]
fn relay_is_a_learner_unless_its_file_says_otherwise() {
    let config = parse("").unwrap();
    assert!(!config.member.node().wants_vote);
    assert_eq!(config.listen.to_string(), "0.0.0.0:3310");
    assert_eq!((config.domain, config.readers_max), (None, 64));
    for voter in ["synod.voter = true", "\"synod.voter\" = \"yes\""] {
        assert!(parse(voter).unwrap().member.node().wants_vote, "{voter}");
    }
}

#[test]
fn relay_has_less_in_memory_than_a_server_unless_its_file_says_otherwise() {
    let cached = |more| parse(more).unwrap().member.node().log.cache_bytes;
    assert_eq!(cached(""), 16 << 20);
    assert_eq!(cached("synod.log_cache_size = \"32M\""), 32 << 20);
}

#[test]
fn file_in_the_package_is_right_but_for_the_password() {
    let text = include_str!("../../../../../packaging/relay.toml");
    let hash = "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7";
    let path = Path::new("relay.toml");
    RelayConfig::parse(path, &text.replace("*...", hash)).unwrap();
    assert!(RelayConfig::parse(path, text).is_err());
}

#[test]
fn own_keys_are_understood_and_others_refused() {
    let config = parse("relay.domain = 0\nrelay.stalled_after = 5");
    let config = config.unwrap();
    assert_eq!(config.domain, Some(0));
    assert_eq!(config.stalled_after, Duration::from_secs(5));
    // It would be the same in every group.
    refused("relay.server_id = 7", "no key");
    refused("relay.domain = -1", "a number from 0 to");
    refused("relay.port = 1", "no key 'relay.port'");
    refused("relay.accounts.other = \"secret\"", "SELECT PASSWORD");
    for wrong in ["other = [1]", "repl = 99", "repl = [\"99\"]", "repl = [-1]"] {
        refused(
            &format!("relay.server_ids.{wrong}"),
            "relay.server_ids.repl = [99]",
        );
    }
    refused("relay.server_ids = 99", "relay.server_ids.repl = [99]");
    let bound = parse("relay.server_ids.repl = [98, 99]").unwrap().accounts;
    assert!(bound.may_have_server_id("repl", 99) && !bound.may_have_server_id("repl", 97));
    refused("synod.leader_weight = 1", "synod.leader_weight");
    let clear_or_not = WHOLE.replace("0.0.0.0:3310", "ssl://0.0.0.0:3310");
    let error = RelayConfig::parse(Path::new("relay.toml"), &clear_or_not).unwrap_err();
    assert!(error.to_string().contains("relay.tls_cert"), "{error}");
}

#[test]
fn encryption_has_a_certificate_and_a_key_and_is_required() {
    assert!(parse("").unwrap().encryption.is_none());
    let files = "relay.tls_cert = \"/c\"\nrelay.tls_key = \"/k\"\n";
    let is_required = |more: &str| {
        let config = parse(&format!("{files}{more}")).unwrap();
        config.encryption.unwrap().is_required
    };
    assert!(is_required(""));
    assert!(!is_required("relay.tls_required = false"));
    refused("relay.tls_cert = \"/c\"", "relay.tls_key");
    refused("relay.tls_key = \"/k\"", "relay.tls_cert");
    refused("relay.tls_required = true", "relay.tls_cert");
    refused(&format!("{files}relay.tls_required = 1"), "true or false");
    refused("relay.tls_cert = 1", "path of a file");
}

#[test]
fn values_of_accounts_are_not_repeated() {
    let text = parse("relay.accounts.other = \"my password\"").unwrap_err();
    assert!(!text.to_string().contains("my password"), "{text}");
    assert!(!format!("{:?}", parse("").unwrap()).contains("14E65567"));
}

#[test]
fn what_must_be_there_is_asked_for() {
    let without = |key: &str| {
        let lines = WHOLE.lines().filter(|line| !line.contains(key));
        let text: Vec<&str> = lines.collect();
        let error = RelayConfig::parse(Path::new("relay.toml"), &text.join("\n"));
        error.unwrap_err().to_string()
    };
    assert!(without("listen").contains("relay.listen = "));
    assert!(without("accounts").contains("SELECT PASSWORD"));
    assert!(without("cluster_name").contains("cluster_name = "));
}

#[test]
fn servers_for_statements_are_those_of_the_relays_group() {
    assert!(parse("").unwrap().sql.is_none());
    let sql = parse("relay.sql_servers = [\"db1\", \"db2:3307\"]")
        .unwrap()
        .sql
        .unwrap();
    let servers: Vec<String> = sql.servers.iter().map(ToString::to_string).collect();
    assert_eq!((&*servers[0], &*servers[1]), ("db1:3306", "db2:3307"));
    assert!(sql.encryption.is_none());
    let encrypted = "relay.sql_servers = [\"db1\"]\nrelay.sql_tls_ca = \"/ca.pem\"";
    assert!(
        parse(encrypted)
            .unwrap()
            .sql
            .unwrap()
            .encryption
            .unwrap()
            .checks_name
    );
    refused("relay.sql_servers = \"db1\"", "write a list");
    refused("relay.sql_servers = []", "write a list");
    refused("relay.sql_servers = [\"ssl://db1\"]", "relay.sql_tls_ca");
    refused(
        "relay.sql_tls_ca = \"/ca.pem\"",
        "'relay.sql_servers' is missing",
    );
    refused(
        "relay.sql_servers = [\"db1\"]\nrelay.sql_tls_verify_name = false",
        "'relay.sql_tls_ca' is missing",
    );
    refused(
        "relay.upstream = \"mysql://repl@db1\"\nrelay.upstream_server_id = 7\n\
         relay.sql_servers = [\"db1\"]",
        "Leave it out",
    );
}
