//! The keys of a relay's file that say whose binlog it keeps.

use synod_options::Address;
use synod_upstream::{
    FilePosition, Filter, MysqlPosition, Position, TablePattern, UpstreamAddress, UpstreamConfig,
    UpstreamEncryption,
};
use toml::Value;

use crate::config::{Keys, RelayConfigError};

/// Largest part of a transaction that is one action of the group, unless an event is larger.
const PART_BYTES: usize = 2 << 20;
/// The port of a server, if the address names none.
const SERVER_PORT: u16 = 3306;
/// The key that must be there, for examples.
const EXAMPLE: &str = "relay.upstream = \"mysql://repl@db1.example.com:3306\"";

/// Upstream of a relay, and where to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamSettings {
    /// Connection to the upstream, and what is asked of it.
    pub config: UpstreamConfig,
    /// Start for a group whose log is empty.
    pub start: Position,
}

impl Keys<'_> {
    /// The upstream; none if the file names none.
    pub(crate) fn upstream(&self) -> Result<Option<UpstreamSettings>, RelayConfigError> {
        let Some(value) = self.own.get("upstream") else {
            let stray = self.own.keys().find(|key| key.starts_with("upstream_"));
            return match stray {
                None => Ok(None),
                Some(_) => Err(self.missing("upstream", EXAMPLE)),
            };
        };
        let text = value.as_str().unwrap_or_default();
        let (user, address) = upstream_of(text).map_err(|why| self.bad("upstream", why))?;
        let server_id = self.number("upstream_server_id", 1..=u32::MAX)?;
        let server_id = server_id
            .ok_or_else(|| self.missing("upstream_server_id", "relay.upstream_server_id = 4711"))?;
        let mut config = UpstreamConfig::new(address, &user, server_id);
        config.part_bytes = PART_BYTES;
        config.password_file = self.path("upstream_password_file")?;
        config.encryption = self.upstream_encryption()?;
        config.semi_sync = self.flag("upstream_semi_sync")?.unwrap_or(false);
        let domain = self.number("upstream_mysql_domain", 0..=u32::MAX)?;
        config.mysql_domain = domain.unwrap_or(0);
        config.filter = Filter {
            keep: self.patterns("upstream_keep")?,
            ignore: self.patterns("upstream_ignore")?,
        };
        Ok(Some(UpstreamSettings {
            config,
            start: self.start()?,
        }))
    }

    fn upstream_encryption(&self) -> Result<Option<UpstreamEncryption>, RelayConfigError> {
        let checks_name = self.flag("upstream_tls_verify_name")?;
        match self.path("upstream_tls_ca")? {
            Some(authorities) => Ok(Some(UpstreamEncryption {
                authorities,
                checks_name: checks_name.unwrap_or(true),
            })),
            None if checks_name.is_some() => {
                let example = "relay.upstream_tls_ca = \"/etc/synod/upstream-ca.pem\"";
                Err(self.missing("upstream_tls_ca", example))
            }
            None => Ok(None),
        }
    }

    pub(crate) fn flag(&self, key: &'static str) -> Result<Option<bool>, RelayConfigError> {
        match self.own.get(key) {
            None => Ok(None),
            Some(Value::Boolean(flag)) => Ok(Some(*flag)),
            Some(_) => Err(self.bad(key, "write true or false")),
        }
    }

    fn patterns(&self, key: &'static str) -> Result<Vec<TablePattern>, RelayConfigError> {
        let listed = match self.own.get(key) {
            None => return Ok(Vec::new()),
            Some(Value::Array(listed)) => listed,
            Some(_) => return Err(self.bad(key, "write a list, such as: [\"shop.*\"]")),
        };
        let pattern = |value: &Value| {
            let parsed = value.as_str().unwrap_or_default().parse::<TablePattern>();
            parsed.map_err(|error| self.bad(key, error.to_string()))
        };
        listed.iter().map(pattern).collect()
    }

    /// By default the beginning of all: what the upstream has purged is then an error, not a gap.
    fn start(&self) -> Result<Position, RelayConfigError> {
        const KEY: &str = "upstream_start";
        let text = match self.own.get(KEY) {
            None => return Ok(Position::Gtids(synod_binlog::GtidList::default())),
            Some(value) => value.as_str(),
        };
        let position = text.and_then(|text| start_of(text.trim()));
        position.ok_or_else(|| {
            let reason = "write \"now\"; or GTIDs, such as \"0-1-4711\"; or a file of the \
                          upstream's binlog and a place in it, such as \"mysql-bin.000042:1234\"; \
                          or a set of MySQL's GTIDs, such as \
                          \"3e11fa47-71ca-11e1-9e33-c80aa9429562:1-4711\"";
            self.bad(KEY, reason)
        })
    }
}

/// User and address of an upstream, as `mysql://user@host:port`.
fn upstream_of(text: &str) -> Result<(String, UpstreamAddress), String> {
    let form = || format!("write a user and an address, such as: {EXAMPLE}");
    let rest = text.strip_prefix("mysql://").ok_or_else(form)?;
    let (user, address) = rest.rsplit_once('@').ok_or_else(form)?;
    if user.is_empty() || user.contains(':') {
        return Err(format!(
            "{}. The password is in a file: relay.upstream_password_file",
            form()
        ));
    }
    Ok((user.to_owned(), address_of(address)?))
}

/// The address of an upstream, as operators write it: `host` or `host:port`.
///
/// # Errors
/// Says what is wrong.
pub(crate) fn address_of(text: &str) -> Result<UpstreamAddress, String> {
    let address = Address::parse(text)?;
    if address.tls {
        return Err(format!(
            "'{text}': relay.upstream_tls_ca encrypts the connection, not ssl:// before the address"
        ));
    }
    Ok(UpstreamAddress {
        host: address.host,
        port: address.port.unwrap_or(SERVER_PORT),
    })
}

fn start_of(text: &str) -> Option<Position> {
    if text.eq_ignore_ascii_case("now") {
        return Some(Position::Now);
    }
    if let Ok(list) = text.parse() {
        return Some(Position::Gtids(list));
    }
    if let Ok(has) = text.parse() {
        let given = synod_binlog::GtidList::default();
        return Some(Position::Mysql(MysqlPosition { has, given }));
    }
    let (file, offset) = text.rsplit_once(':')?;
    let offset = offset.parse().ok()?;
    // Else it is a set of MySQL's GTIDs, and none that can be.
    let is_name = !file.is_empty() && !file.contains(':');
    let file = file.to_owned();
    is_name.then_some(Position::File(FilePosition { file, offset }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RelayConfig;
    use std::path::Path;

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
        assert!(node.in_relay_group && node.wants_vote && node.seeds.is_empty());
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
}
