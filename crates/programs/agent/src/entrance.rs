//! Authorization of requests.

use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderValue};
use hyper::{HeaderMap, Uri};

use crate::Access;
use crate::dashboard::files::is_page;
use crate::encryption::handshake::ClientCertificate;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entrance {
    Open,
    /// A browser has shown the token in the address: it gets this cookie, and is sent on to this
    /// path.
    Welcome {
        cookie: String,
        path: String,
    },
    Unknown,
    /// The request names a host, while the agent is for this machine only.
    WrongName,
}

/// Decides about a request with this address and these headers, on a connection with or without a
/// client's certificate.
pub(crate) fn entrance(
    access: &Access,
    certificate: ClientCertificate,
    uri: &Uri,
    headers: &HeaderMap,
) -> Entrance {
    if !access.asks_for_proof() {
        // By TLS the browser has compared the name with the certificate.
        let is_encrypted = access.certificates().is_some();
        return match headers.get(HOST).map(HeaderValue::as_bytes) {
            Some(host) if !is_encrypted && !is_of_this_machine(host) => Entrance::WrongName,
            _ => Entrance::Open,
        };
    }
    let in_address = token_of(uri).filter(|_| access.has_token() && is_page(uri.path()));
    if let Some(shown) = in_address {
        return match access.cookie_for(shown.as_bytes()) {
            Some(cookie) => Entrance::Welcome {
                cookie,
                path: uri.path().to_owned(),
            },
            None => Entrance::Unknown,
        };
    }
    let has_certificate = certificate == ClientCertificate::Shown;
    if has_certificate || shows_token(access, headers) {
        Entrance::Open
    } else {
        Entrance::Unknown
    }
}

fn shows_token(access: &Access, headers: &HeaderMap) -> bool {
    let authorization = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let mut cookies = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes);
    access.admits(authorization) || cookies.any(|header| access.knows_cookie(header))
}

fn token_of(uri: &Uri) -> Option<&str> {
    uri.query()?.strip_prefix("token=")
}

/// Whether a `Host` header can come from a person or program that means this machine. A web page of
/// a stranger could have its own name lead to 127.0.0.1, and read the answers in the browser of a
/// person who opens it (DNS rebinding). Then the header has that name.
fn is_of_this_machine(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else {
        return false;
    };
    let port_begins = host.rfind(':').filter(|at| !host[*at..].contains(']'));
    let name = &host[..port_begins.unwrap_or(host.len())];
    let literal = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    name.is_empty()
        || name.eq_ignore_ascii_case("localhost")
        || literal.unwrap_or(name).parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Token;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn access(token: Option<&str>) -> Access {
        let token = token.and_then(Token::from_line);
        Access::new("127.0.0.1:4580".parse().unwrap(), token, None).unwrap()
    }

    fn enter(access: &Access, uri: &str, headers: &[(&'static str, &str)]) -> Entrance {
        let headers = headers.iter().map(|(name, value)| {
            let name = hyper::header::HeaderName::from_static(name);
            (name, HeaderValue::from_str(value).unwrap())
        });
        let uri = uri.parse().unwrap();
        entrance(access, ClientCertificate::None, &uri, &headers.collect())
    }

    #[test]
    fn agent_without_a_token_answers_to_no_name_of_a_stranger() {
        let access = access(None);
        for host in [
            "127.0.0.1:4580",
            "localhost:80",
            "LOCALHOST",
            "[::1]:4580",
            "[::1]",
            "1.2.3.4",
        ] {
            assert_eq!(
                enter(&access, "/", &[("host", host)]),
                Entrance::Open,
                "{host}"
            );
        }
        assert_eq!(enter(&access, "/metrics", &[]), Entrance::Open);
        for host in [
            "example.org",
            "localhost.example.org:4580",
            "127.0.0.1.example.org",
            "[x]",
        ] {
            let entered = enter(&access, "/metrics", &[("host", host)]);
            assert_eq!(entered, Entrance::WrongName, "{host}");
        }
    }

    #[test]
    fn browser_shows_the_token_once_and_then_its_cookie() {
        let access = access(Some(TOKEN));
        let first = enter(&access, &format!("/member/a?token={TOKEN}"), &[]);
        let Entrance::Welcome { cookie, path } = first else {
            panic!("{first:?}");
        };
        assert_eq!(path, "/member/a");
        let pair = cookie.split(';').next().unwrap();
        for page in ["/", "/events", "/metrics"] {
            assert_eq!(
                enter(&access, page, &[("cookie", pair)]),
                Entrance::Open,
                "{page}"
            );
        }
        let shown = format!("Bearer {TOKEN}");
        assert_eq!(
            enter(&access, "/", &[("authorization", &shown)]),
            Entrance::Open
        );
    }

    #[test]
    fn wrong_tokens_open_nothing() {
        let access = access(Some(TOKEN));
        for uri in [
            "/",
            "/events",
            "/?token=",
            "/?token=x",
            &format!("/?token={TOKEN}0"),
            &format!("/metrics?token={TOKEN}"),
            &format!("/events?token={TOKEN}"),
        ] {
            assert_eq!(enter(&access, uri, &[]), Entrance::Unknown, "{uri}");
        }
        let entered = enter(&access, "/", &[("cookie", "synod_agent_4580=0")]);
        assert_eq!(entered, Entrance::Unknown);
    }
}
