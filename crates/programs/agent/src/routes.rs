//! Maps requests to pages.

use std::borrow::Cow;

use hyper::{Method, StatusCode};
use synod_admin::relay::RelayStatus;

use crate::dashboard::files::File;
use crate::health::{self, Check, Verdict};
use crate::{Seen, SeenRelay, metrics};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    Health(Check),
    RelayHealth,
    Metrics,
    File(&'static File),
    Events,
}

/// An answer to a client: text, with its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: StatusCode,
    pub kind: &'static str,
    pub body: Cow<'static, str>,
}

/// The parameter with which a lag is answered by 404, as HAProxy's `http-check disable-on-404`
/// wants it.
const DRAINS: &str = "&lagging=404";

const PLAIN: &str = "text/plain; charset=utf-8";

const PAGES: &str = "\
/
/member/NAME
/events
/health/live
/health/primary
/health/writer
/health/reader?max_lag_ms=N
/health/reader?max_lag_ms=N&lagging=404
/health/relay
/clustercheck
/metrics
";

impl Answer {
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

/// The page that a request means, or the answer if there is none.
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
            return query.map_or(Ok(READER), reader).map(Page::Health);
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

const READER: Check = Check::Reader {
    max_lag_ms: None,
    drains: false,
};

fn reader(query: &str) -> Result<Check, Answer> {
    let (value, drains) = match query.strip_suffix(DRAINS) {
        Some(value) => (value, true),
        None => (query, false),
    };
    let value = value.strip_prefix("max_lag_ms=");
    // `parse` alone would take a sign.
    let is_number = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
    let number = value.filter(is_number).and_then(|text| text.parse().ok());
    let max_lag_ms = Some(number.ok_or_else(|| {
        bad_request(
            "/health/reader takes max_lag_ms=N, with a number of milliseconds, behind it \
             lagging=404, and nothing else: /health/reader?max_lag_ms=1000&lagging=404.",
        )
    })?);
    Ok(Check::Reader { max_lag_ms, drains })
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

pub(crate) fn health_of(check: Check, seen: &Seen) -> Answer {
    let drains = matches!(check, Check::Reader { drains: true, .. });
    told(check.verdict(seen), drains)
}

pub(crate) fn relay_health(seen: &Seen, relay: &SeenRelay) -> Answer {
    told(health::relay(seen, relay), false)
}

/// The answer for a verdict. `drains`: 404, by which HAProxy ends no session, for a mere lag.
fn told(verdict: Verdict, drains: bool) -> Answer {
    let status = match verdict.is_healthy {
        true => StatusCode::OK,
        false if drains && verdict.only_lags => StatusCode::NOT_FOUND,
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

pub(crate) fn file(file: &'static File) -> Answer {
    Answer {
        status: StatusCode::OK,
        kind: file.kind,
        body: file.text.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use synod_admin::status::{Group, Member, Status};

    use super::*;

    fn get(path: &str, query: Option<&str>) -> Result<Page, Answer> {
        page(&Method::GET, path, query)
    }

    #[test]
    fn checks_are_asked_for_by_path() {
        let reader = |max_lag_ms, drains| Ok(Page::Health(Check::Reader { max_lag_ms, drains }));
        assert_eq!(get("/health/reader", None), reader(None, false));
        let found = get("/health/reader", Some("max_lag_ms=0"));
        assert_eq!(found, reader(Some(0), false));
        let found = get("/health/reader", Some("max_lag_ms=7&lagging=404"));
        assert_eq!(found, reader(Some(7), true));
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
            "max_lag_ms=1&lagging=200",
            "&lagging=404",
        ] {
            let refused = get("/health/reader", Some(query)).unwrap_err();
            assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{query}");
            assert!(refused.body.contains("max_lag_ms=N"), "{query}");
        }
        let refused = get("/health/primary", Some("max_lag_ms=1")).unwrap_err();
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    }

    /// HAProxy ends the sessions of a server that answers 503, and sends none to one with 404.
    #[test]
    fn lag_is_told_apart_from_a_server_that_does_not_serve() {
        let mut status = Status::default();
        let answer = |status: &Status, max_lag_ms, drains| {
            let check = Check::Reader {
                max_lag_ms: Some(max_lag_ms),
                drains,
            };
            health_of(check, &Ok(Arc::new(status.clone())))
                .status
                .as_u16()
        };
        assert_eq!(answer(&status, 1, true), 503, "in no group");
        status.server.is_ready = true;
        status.group = Some(Group {
            is_primary: true,
            ..Group::default()
        });
        status.members = vec![Member {
            is_own: true,
            lag_ms: Some(40),
            ..Member::default()
        }];
        assert_eq!(answer(&status, 40, true), 200);
        assert_eq!(answer(&status, 39, true), 404);
        assert_eq!(answer(&status, 39, false), 503);
        assert_eq!(health_of(READER, &Err("gone".into())).status.as_u16(), 503);
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
