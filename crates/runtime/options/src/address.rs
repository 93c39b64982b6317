//! Network addresses and cluster addresses as operators write them.
//!
//! IPv6 addresses are written in brackets. A missing port is filled in where the address is used.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Port of the group if none is given.
pub const DEFAULT_PORT: u16 = 4567;
/// Encryption is not a matter of single members.
const NO_SCHEME: &str = "write it without ssl://; the option socket.ssl encrypts all connections";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Name or IP address; IPv6 without brackets.
    pub host: String,
    pub port: Option<u16>,
    pub tls: bool,
}

impl Address {
    pub fn any(port: u16) -> Address {
        Address {
            host: "0.0.0.0".to_owned(),
            port: Some(port),
            tls: false,
        }
    }

    /// Parses `host`, `host:port`, `[ipv6]`, `[ipv6]:port` or a bare IPv6 address, with or without
    /// `tcp://` or `ssl://` before it.
    pub fn parse(text: &str) -> Result<Address, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("tcp", text));
        let tls = match scheme {
            "tcp" => false,
            "ssl" => true,
            _ => {
                return Err(format!(
                    "unknown scheme '{scheme}' (expected tcp://host:port)"
                ));
            }
        };
        let (host, port) = split(rest)?;
        let host_ok = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c == '/');
        if !host_ok {
            return Err(format!("'{host}' is not a host (expected host:port)"));
        }
        let port = port.map(parse_port).transpose()?;
        Ok(Address {
            host: host.to_owned(),
            port,
            tls,
        })
    }

    /// Whether only processes of this machine reach it. A name other than `localhost` is not looked
    /// up, and does not count.
    pub fn is_loopback(&self) -> bool {
        let ip = self.host.parse::<IpAddr>();
        ip.is_ok_and(|ip| ip.to_canonical().is_loopback()) || self.host == "localhost"
    }

    /// The host, in brackets if a port could not follow it otherwise.
    pub fn host_text(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host_text()),
            None => f.write_str(&self.host_text()),
        }
    }
}

fn split(text: &str) -> Result<(&str, Option<&str>), String> {
    if let Some(inner) = text.strip_prefix('[') {
        let (host, rest) = inner
            .split_once(']')
            .ok_or_else(|| format!("no ']' in '{text}'"))?;
        if host.parse::<Ipv6Addr>().is_err() {
            return Err(format!("'{host}' is not an IPv6 address"));
        }
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(format!("expected ':port' after ']' in '{text}'")),
        };
    }
    if text.parse::<Ipv6Addr>().is_ok() {
        return Ok((text, None));
    }
    match text.split_once(':') {
        Some((_, port)) if port.contains(':') => Err(format!(
            "'{text}' has several ports; write IPv6 addresses in brackets"
        )),
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((text, None)),
    }
}

fn parse_port(text: &str) -> Result<u16, String> {
    // `parse` would take a sign.
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    let port = digits.then(|| text.parse().ok()).flatten();
    port.ok_or_else(|| format!("'{text}' is not a port (0 to 65535)"))
}

/// A parsed `wsrep_cluster_address`: `synod://host:port,host2?name=value&name2=value2`, or with
/// `gcomm://`. Without a host the server starts a new group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterUrl {
    /// Members to ask, in order; each with a port.
    pub peers: Vec<Peer>,
    pub options: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer {
    /// Name or IP address; IPv6 without brackets.
    pub host: String,
    /// Port; the option `base_port` where the address has none.
    pub port: u16,
}

/// Beginning of Galera's text for this error: log filters, those of the server's own tests among
/// them, know it.
fn galeras_words(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, _)) => format!("Backend not supported: {scheme}"),
        None => "Invalid backend URI".to_owned(),
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error(
        "{}: cluster address '{url}' must begin with synod:// or gcomm://",
        galeras_words(url)
    )]
    Scheme { url: String },
    #[error("cluster address: member '{peer}': {reason}")]
    Peer {
        /// The member as written.
        peer: String,
        reason: String,
    },
    #[error("cluster address: option '{option}' is not of the form name=value")]
    Option { option: String },
}

impl ClusterUrl {
    /// Parses an address. Members without a port get `default_port`; the same member twice is one.
    pub fn parse(url: &str, default_port: u16) -> Result<ClusterUrl, UrlError> {
        let trimmed = url.trim();
        let rest = trimmed
            .strip_prefix("synod://")
            .or_else(|| trimmed.strip_prefix("gcomm://"));
        let rest = rest.ok_or_else(|| UrlError::Scheme {
            url: url.to_owned(),
        })?;
        let (hosts, query) = rest.split_once('?').unwrap_or((rest, ""));

        let mut peers: Vec<Peer> = Vec::new();
        for part in hosts
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let peer = parse_peer(part, default_port)?;
            if !peers.contains(&peer) {
                peers.push(peer);
            }
        }
        let options = query
            .split('&')
            .filter(|part| !part.is_empty())
            .map(parse_option);
        Ok(ClusterUrl {
            peers,
            options: options.collect::<Result<_, _>>()?,
        })
    }

    /// Whether it names no member: the server starts a new group.
    pub fn is_bootstrap(&self) -> bool {
        self.peers.is_empty()
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Address {
            host: self.host.clone(),
            port: Some(self.port),
            tls: false,
        };
        fmt::Display::fmt(&address, f)
    }
}

fn parse_peer(text: &str, default_port: u16) -> Result<Peer, UrlError> {
    let bad = |reason: String| UrlError::Peer {
        peer: text.to_owned(),
        reason,
    };
    let address = Address::parse(text).map_err(bad)?;
    if address.tls {
        return Err(bad(NO_SCHEME.to_owned()));
    }
    match address.port {
        Some(0) => Err(bad("no member can listen on port 0".to_owned())),
        port => Ok(Peer {
            host: address.host,
            port: port.unwrap_or(default_port),
        }),
    }
}

fn parse_option(text: &str) -> Result<(String, String), UrlError> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(UrlError::Option {
            option: text.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: &str, port: Option<u16>) -> Address {
        Address {
            host: host.to_owned(),
            port,
            tls: false,
        }
    }

    #[test]
    fn addresses_are_understood_in_all_spellings() {
        let cases = [
            ("h", "h", None),
            ("h:1", "h", Some(1)),
            ("tcp://0.0.0.0:4567", "0.0.0.0", Some(4567)),
            ("[::1]:4567", "::1", Some(4567)),
            ("[fe80::1]", "fe80::1", None),
            ("::1", "::1", None),
            ("tcp://[::]:65535", "::", Some(65535)),
        ];
        for (text, host, port) in cases {
            assert_eq!(Address::parse(text), Ok(address(host, port)), "{text}");
        }
        assert!(Address::parse("ssl://h:1").unwrap().tls);
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let cases = [
            "",
            ":1",
            "h:x",
            "h:-1",
            "h:65536",
            "h:+1",
            "h:1:2",
            "[::1",
            "[::1]1",
            "[h]:1",
            "udp://h:1",
            "a b:1",
            "h/x",
        ];
        for text in cases {
            assert!(Address::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn loopback_addresses_are_told_from_others() {
        let cases = [
            ("127.0.0.1:4567", true),
            ("127.0.1.1", true),
            ("[::1]:4567", true),
            ("[::ffff:127.0.0.1]", true),
            ("tcp://localhost:4567", true),
            ("0.0.0.0:4567", false),
            ("[::]", false),
            ("10.0.0.1", false),
            ("[::ffff:10.0.0.1]", false),
            ("localhost.example.com", false),
            ("127.0.0.1.example.com", false),
        ];
        for (text, expected) in cases {
            assert_eq!(
                Address::parse(text).unwrap().is_loopback(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn ipv6_is_shown_in_brackets() {
        assert_eq!(Address::parse("[::1]:7").unwrap().to_string(), "[::1]:7");
        assert_eq!(Address::parse("::1").unwrap().to_string(), "[::1]");
    }

    fn peers(url: &str) -> Vec<String> {
        ClusterUrl::parse(url, 4567)
            .unwrap()
            .peers
            .iter()
            .map(Peer::to_string)
            .collect()
    }

    #[test]
    fn both_schemes_name_members_with_a_default_port() {
        assert_eq!(peers("synod://a:1,b"), ["a:1", "b:4567"]);
        assert_eq!(
            peers("gcomm://10.0.0.1, 10.0.0.2:5 "),
            ["10.0.0.1:4567", "10.0.0.2:5"]
        );
        assert_eq!(
            peers("gcomm://[::1]:7,[::2],::3"),
            ["[::1]:7", "[::2]:4567", "[::3]:4567"]
        );
        assert_eq!(peers("synod://a,a:4567,"), ["a:4567"]);
    }

    #[test]
    fn bare_scheme_starts_a_new_group() {
        for url in ["gcomm://", "synod://", "gcomm://?pc.wait_prim=no"] {
            assert!(
                ClusterUrl::parse(url, 4567).unwrap().is_bootstrap(),
                "{url}"
            );
        }
        assert!(!ClusterUrl::parse("synod://a", 4567).unwrap().is_bootstrap());
    }

    #[test]
    fn options_follow_the_question_mark() {
        let url =
            ClusterUrl::parse("gcomm://a?pc.weight=2&gmcast.listen_addr=tcp://h:1", 1).unwrap();
        let expected = [("pc.weight", "2"), ("gmcast.listen_addr", "tcp://h:1")];
        assert_eq!(
            url.options,
            expected.map(|(n, v)| (n.to_owned(), v.to_owned()))
        );
    }

    #[test]
    fn wrong_addresses_are_refused_with_the_part_that_is_wrong() {
        let scheme = |url: &str| UrlError::Scheme {
            url: url.to_owned(),
        };
        for url in ["", "dummy://", "http://a", "a:1"] {
            assert_eq!(ClusterUrl::parse(url, 1), Err(scheme(url)));
        }
        for (url, part) in [
            ("synod://a:99999", "a:99999"),
            ("synod://a,b:x", "b:x"),
            ("synod://a:0", "a:0"),
            ("synod://ssl://a:1", "ssl://a:1"),
            ("synod://a?x", "'x'"),
            ("synod://a?=1", "'=1'"),
        ] {
            let error = ClusterUrl::parse(url, 1).unwrap_err().to_string();
            assert!(error.contains(part), "{url}: {error}");
        }
    }
}
