//! Which page a request means, and what stands on it.

use std::borrow::Cow;

use hyper::{Method, StatusCode};
use synod_admin::relay::RelayStatus;

use crate::dashboard::files::File;
use crate::health::{self, Check, Verdict};
use crate::{Seen, SeenRelay, metrics};

/// A page of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// A health check.
    Health(Check),
    /// The health check of a relay.
    RelayHealth,
    /// The page for Prometheus.
    Metrics,
    /// A file of the page for people.
    File(&'static File),
    /// What that page is sent while it is open.
    Events,
}

/// An answer to a client: text, with its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: StatusCode,
    /// What the body is (`Content-Type`).
    pub kind: &'static str,
    /// The body.
    pub body: Cow<'static, str>,
}

const PLAIN: &str = "text/plain; charset=utf-8";

/// What the agent has, for those that ask for something else.
const PAGES: &str = "\
/
/member/NAME
/events
/health/live
/health/primary
/health/writer
/health/reader?max_lag_ms=N
/health/relay
/clustercheck
/metrics
";

impl Answer {
    /// A sentence.
    pub fn sentence(status: StatusCode, text: impl Into<String>) -> Answer {
        let mut body = text.into();
        // As `clustercheck` ends its line.
        body.push_str("\r\n");
        Answer {
            status,
            kind: PLAIN,
            body: body.into(),
        }
    }
}

/// The page that a request means.
///
/// # Errors
/// The answer, if there is no such page.
pub fn page(method: &Method, path: &str, query: Option<&str>) -> Result<Page, Answer> {
    // HAProxy's `option httpchk` asks with OPTIONS unless it is told otherwise.
    if ![Method::GET, Method::HEAD, Method::OPTIONS].contains(method) {
        let text = "This agent only reads. Orders are given by 'synod member' and 'synod leader'.";
        return Err(Answer::sentence(StatusCode::METHOD_NOT_ALLOWED, text));
    }
    let page = match path {
        "/metrics" => Page::Metrics,
        "/events" => Page::Events,
        "/health/live" => Page::Health(Check::Live),
        "/health/primary" => Page::Health(Check::Primary),
        "/health/writer" => Page::Health(Check::Writer),
        "/health/reader" => {
            let max_lag_ms = query.map(max_lag_ms).transpose()?;
            return Ok(Page::Health(Check::Reader { max_lag_ms }));
        }
        "/health/relay" => Page::RelayHealth,
        "/clustercheck" => Page::Health(Check::Clustercheck),
        _ => match File::at(path) {
            Some(file) => Page::File(file),
            None => {
                let text = format!("There is no such page. There are:\n{PAGES}");
                return Err(Answer::sentence(StatusCode::NOT_FOUND, text));
            }
        },
    };
    no_parameters(path, query)?;
    Ok(page)
}

/// The value of the only parameter that a reader's check has.
fn max_lag_ms(query: &str) -> Result<u64, Answer> {
    let value = query.strip_prefix("max_lag_ms=");
    // `parse` alone would take a sign.
    let is_number = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
    let number = value.filter(is_number).and_then(|text| text.parse().ok());
    number.ok_or_else(|| {
        bad_request(
            "/health/reader takes max_lag_ms=N, with a number of milliseconds, and nothing else: \
             /health/reader?max_lag_ms=1000.",
        )
    })
}

fn no_parameters(path: &str, query: Option<&str>) -> Result<(), Answer> {
    match query {
        None | Some("") => Ok(()),
        Some(_) => Err(bad_request(format!("{path} takes no parameters."))),
    }
}

fn bad_request(text: impl Into<String>) -> Answer {
    Answer::sentence(StatusCode::BAD_REQUEST, text)
}

/// The answer to a health check, by what is known of the server.
pub(crate) fn health_of(check: Check, seen: &Seen) -> Answer {
    told(check.verdict(seen))
}

/// The answer to the health check of a relay.
pub(crate) fn relay_health(seen: &Seen, relay: &SeenRelay) -> Answer {
    told(health::relay(seen, relay))
}

fn told(verdict: Verdict) -> Answer {
    let status = match verdict.is_healthy {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    Answer::sentence(status, verdict.why)
}

/// The page for Prometheus, by what is known of the server and of the agent's certificate.
pub(crate) fn metrics(
    seen: &Seen,
    relay: Option<&RelayStatus>,
    certificate_until_unix: Option<u64>,
    format: metrics::Format,
) -> Answer {
    match metrics::page(seen, relay, certificate_until_unix, format) {
        Ok(body) => Answer {
            status: StatusCode::OK,
            kind: format.kind(),
            body: body.into(),
        },
        Err(error) => Answer::sentence(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("The page cannot be written: {error}."),
        ),
    }
}

/// A file of the page for people.
pub(crate) fn file(file: &'static File) -> Answer {
    Answer {
        status: StatusCode::OK,
        kind: file.kind,
        body: file.text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: &str, query: Option<&str>) -> Result<Page, Answer> {
        page(&Method::GET, path, query)
    }

    #[test]
    fn checks_are_asked_for_by_path() {
        let reader = |max_lag_ms| Ok(Page::Health(Check::Reader { max_lag_ms }));
        assert_eq!(get("/health/reader", None), reader(None));
        assert_eq!(get("/health/reader", Some("max_lag_ms=0")), reader(Some(0)));
        assert_eq!(
            get("/clustercheck", None),
            Ok(Page::Health(Check::Clustercheck))
        );
        for method in [Method::HEAD, Method::OPTIONS] {
            assert_eq!(
                page(&method, "/health/live", None),
                Ok(Page::Health(Check::Live))
            );
        }
    }

    #[test]
    fn all_pages_of_the_list_exist() {
        for line in PAGES.lines() {
            let asked = line.replace("=N", "=1");
            let (path, query) = match asked.split_once('?') {
                Some((path, query)) => (path, Some(query)),
                None => (&asked[..], None),
            };
            assert!(get(path, query).is_ok(), "{line}");
        }
    }

    #[test]
    fn bad_values_are_refused_with_a_sentence() {
        for query in [
            "",
            "max_lag_ms",
            "max_lag_ms=",
            "max_lag_ms=-1",
            "max_lag_ms=+1",
            "max_lag_ms=1s",
            "max_lag_ms=1.5",
            "max_lag_ms=18446744073709551616",
            "max_lag=1",
            "max_lag_ms=1&max_lag_ms=2",
            "max_lag_ms=%31",
        ] {
            let refused = get("/health/reader", Some(query)).unwrap_err();
            assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{query}");
            assert!(refused.body.contains("max_lag_ms=N"), "{query}");
        }
        let refused = get("/health/primary", Some("max_lag_ms=1")).unwrap_err();
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    }

    #[test]
    fn other_pages_and_methods_are_refused() {
        let missing = get("/health", None).unwrap_err();
        assert_eq!(missing.status, StatusCode::NOT_FOUND);
        assert!(missing.body.contains("/clustercheck"));
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            let refused = page(&method, "/health/live", None).unwrap_err();
            assert_eq!(refused.status, StatusCode::METHOD_NOT_ALLOWED);
        }
    }
}
