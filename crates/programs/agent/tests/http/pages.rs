//! The pages of an agent that is asked in clear.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::{PATIENCE, TOKEN, ask, get, healthy_server, in_clear, token};

#[test]
fn pages_are_served_while_the_server_runs_and_checks_fail_when_it_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let server = healthy_server(dir.path());
    let agent = in_clear(dir.path(), None);
    let check = get(agent, "/clustercheck");
    assert!(check.starts_with("HTTP/1.0 200 "), "{check}");
    assert!(
        check.ends_with("\r\n\r\nGalera cluster node is synced.\r\n"),
        "{check}"
    );
    let page = get(agent, "/metrics");
    assert!(page.contains("text/plain; version=0.0.4"), "{page}");
    assert!(page.contains("\nsynod_up 1\n"), "{page}");
    let wish = "GET /metrics HTTP/1.0\r\nAccept: application/openmetrics-text\r\n\r\n";
    let page = ask(agent, wish);
    assert!(page.contains("application/openmetrics-text"), "{page}");
    assert!(
        page.contains("\nsynod_up 1\n") && page.ends_with("# EOF\n"),
        "{page}"
    );

    drop(server);
    let dir = dir.path().display().to_string();
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let check = get(agent, "/health/primary");
        if check.starts_with("HTTP/1.0 503 ") && check.contains(&dir) {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{check}");
    }
    assert!(get(agent, "/metrics").contains("\nsynod_up 0\n"));
}

#[test]
fn requests_that_are_wrong_get_an_answer() {
    let dir = tempfile::tempdir().unwrap();
    let agent = in_clear(dir.path(), None);
    for (path, code) in [
        ("/index.html", "404"),
        ("/page/", "404"),
        ("/?x=1", "400"),
        ("/health/reader?max_lag_ms=x", "400"),
        ("/metrics?x=1", "400"),
        ("/health/reader?max_lag_ms=1", "503"),
    ] {
        let answer = get(agent, path);
        assert_eq!(answer.split(' ').nth(1), Some(code), "{path}: {answer}");
    }
    let posted = ask(
        agent,
        "POST /health/live HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}",
    );
    assert!(
        posted.starts_with("HTTP/1.0 405 ") && posted.contains("allow: GET"),
        "{posted}"
    );
    let nonsense = ask(agent, "\r\nhello\r\n\r\n");
    assert!(nonsense.starts_with("HTTP/1.1 400 "), "{nonsense}");
    let head = ask(agent, "HEAD /clustercheck HTTP/1.0\r\n\r\n");
    assert!(
        head.starts_with("HTTP/1.0 503 ") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    let options = ask(agent, "OPTIONS /clustercheck HTTP/1.0\r\n\r\n");
    assert!(options.starts_with("HTTP/1.0 503 "), "{options}");
    let long = "x".repeat(1 << 20);
    let mut stream = TcpStream::connect(agent).unwrap();
    // It may be refused before all of it was sent.
    let _ = stream.write_all(format!("GET /{long} HTTP/1.0\r\n\r\n").as_bytes());
    assert!(get(agent, "/health/live").starts_with("HTTP/1.0 503 "));
}

/// Reads until the stream has said this.
fn read_until(stream: &mut TcpStream, words: &str) -> String {
    let mut text = Vec::new();
    let mut part = [0; 4096];
    while !String::from_utf8_lossy(&text).contains(words) {
        let count = stream.read(&mut part).unwrap();
        assert!(count > 0, "no {words}: {}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&part[..count]);
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn dashboard_is_served_with_a_policy_and_told_of_the_server_while_it_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let server = healthy_server(dir.path());
    let agent = in_clear(dir.path(), None);
    for (path, kind) in [
        ("/", "text/html"),
        ("/member/a%20%3Cb%3E", "text/html"),
        ("/page/main.js", "text/javascript"),
        ("/page/style.css", "text/css"),
    ] {
        let file = get(agent, path);
        assert!(file.starts_with("HTTP/1.0 200 "), "{path}: {file}");
        for header in [
            &format!("content-type: {kind}"),
            "content-security-policy: default-src 'none'; script-src 'self'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
        ] {
            assert!(file.contains(header), "{path} without {header}");
        }
    }
    let mut viewer = TcpStream::connect(agent).unwrap();
    viewer.set_read_timeout(Some(PATIENCE)).unwrap();
    viewer
        .write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let begin = read_until(&mut viewer, "\"name\":\"db1\"");
    assert!(begin.contains("content-type: text/event-stream"), "{begin}");
    assert!(begin.contains("\nevent: past\ndata: ["), "{begin}");
    drop(server);
    read_until(&mut viewer, "\"status\":null,\"trouble\":\"");
}

#[test]
fn agent_without_a_token_answers_to_no_name_of_a_stranger() {
    let dir = tempfile::tempdir().unwrap();
    let agent = in_clear(dir.path(), None);
    let request = "GET /metrics HTTP/1.0\r\nHost: rebound.example.org\r\n\r\n";
    let refused = ask(agent, request);
    assert!(refused.starts_with("HTTP/1.0 421 "), "{refused}");
    assert!(refused.contains("localhost"), "{refused}");
}

#[test]
fn browser_gets_a_cookie_for_the_token_and_continues_without_it() {
    let dir = tempfile::tempdir().unwrap();
    let agent = in_clear(dir.path(), Some(token(dir.path())));
    let welcome = get(agent, &format!("/?token={TOKEN}"));
    assert!(welcome.starts_with("HTTP/1.0 303 "), "{welcome}");
    let header = |name: &str| {
        let mut found = welcome.lines().filter_map(|line| line.strip_prefix(name));
        found
            .next()
            .unwrap_or_else(|| panic!("no {name} in {welcome}"))
    };
    assert_eq!(header("location: "), "/");
    let cookie = header("set-cookie: ");
    assert!(cookie.ends_with("; HttpOnly; SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains(TOKEN), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    let page = ask(agent, &format!("GET / HTTP/1.0\r\nCookie: {pair}\r\n\r\n"));
    assert!(page.starts_with("HTTP/1.0 200 "), "{page}");
    let refused = get(agent, "/?token=x");
    assert!(refused.starts_with("HTTP/1.0 401 ") && refused.contains("/?token=TOKEN"));
}

#[test]
fn every_page_needs_the_token_if_there_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let agent = in_clear(dir.path(), Some(token(dir.path())));
    for page in [
        "/",
        "/member/db1",
        "/events",
        "/page/main.js",
        "/metrics",
        "/health/live",
        "/clustercheck",
        "/health/reader?x",
    ] {
        let refused = get(agent, page);
        assert!(refused.starts_with("HTTP/1.0 401 "), "{page}: {refused}");
        assert!(refused.contains("www-authenticate: Bearer"), "{refused}");
    }
    let shown = format!("GET /health/live HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    assert!(ask(agent, &shown).starts_with("HTTP/1.0 503 "));
}

#[test]
fn clients_without_the_token_keep_no_check_out() {
    let dir = tempfile::tempdir().unwrap();
    let _server = healthy_server(dir.path());
    let agent = in_clear(dir.path(), Some(token(dir.path())));
    let silent: Vec<TcpStream> = (0..100)
        .map(|_| TcpStream::connect(agent).unwrap())
        .collect();
    let begin = Instant::now();
    let shown = format!("GET /health/live HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    let check = ask(agent, &shown);
    assert!(check.starts_with("HTTP/1.0 200 "), "{check}");
    // One after the other gives way to the next; the last ones have some seconds.
    assert!(
        begin.elapsed() < Duration::from_secs(4),
        "{:?}",
        begin.elapsed()
    );
    // Otherwise it would read until the connection ends by itself.
    let refused = ask(
        agent,
        "GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n",
    );
    assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
    assert!(refused.contains("connection: close"), "{refused}");
    for mut stream in silent {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // Ended, or reset because it had to give way.
        assert!(!matches!(stream.read(&mut [0]), Ok(1)));
    }
    assert!(
        begin.elapsed() < Duration::from_secs(20),
        "a silent client is let go"
    );
}
