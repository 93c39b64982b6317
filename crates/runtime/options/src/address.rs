//! Network addresses as operators write them.
//!
//! IPv6 addresses are written in brackets. A missing port is filled in where the address is used.

use std::fmt;
use std::net::IpAddr;

/// Port of the group if none is given.
pub const DEFAULT_PORT: u16 = 4567;

/// A host with an optional port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Name or IP address; IPv6 without brackets.
    pub host: String,
    pub port: Option<u16>,
    /// Written with `ssl://`.
    pub tls: bool,
}

impl Address {
    /// All interfaces (IPv4).
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
        if host.parse::<std::net::Ipv6Addr>().is_err() {
            return Err(format!("'{host}' is not an IPv6 address"));
        }
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(format!("expected ':port' after ']' in '{text}'")),
        };
    }
    if text.parse::<std::net::Ipv6Addr>().is_ok() {
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
}
