//! A client and a server over a real socket, and clients that behave badly.

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use proptest::prelude::*;
use synod_admin::command_rights::CommandRights;
use synod_admin::protocol::{Answer, Reason, Reply, Request};
use synod_admin::socket::{self, Listening};
use synod_admin::status::Status;
use synod_admin::{Client, ClientError, LineError, ServeLimits, refuse_busy, serve};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

type Served = JoinHandle<Result<(), LineError>>;

fn answer(request: Request) -> Reply {
    match request {
        Request::Status => Reply::Answer(Answer::Status(Box::new(Status {
            at_unix_ms: 7,
            ..Status::default()
        }))),
        _ => Reply::refused(Reason::NoLeader, "ask db2\u{1b}[31m\n"),
    }
}

fn serve_one(limits: ServeLimits) -> (TempDir, Served) {
    serve_one_with(CommandRights::Orders, limits)
}

fn serve_one_with(rights: CommandRights, limits: ServeLimits) -> (TempDir, Served) {
    let dir = tempfile::tempdir().unwrap();
    let listening = Listening::begin(dir.path()).unwrap();
    listening.listener().set_nonblocking(false).unwrap();
    let served = thread::spawn(move || {
        let (stream, _) = listening.listener().accept().unwrap();
        stream.set_nonblocking(false).unwrap();
        serve(&mut &stream, rights, "9.9", limits, &answer)
    });
    (dir, served)
}

fn raw_client(dir: &TempDir) -> (UnixStream, BufReader<UnixStream>) {
    let stream = socket::connect(&socket::path(dir.path())).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let reader = BufReader::new(stream.try_clone().unwrap());
    (stream, reader)
}

#[test]
fn several_calls_on_one_connection() {
    let (dir, served) = serve_one(ServeLimits::default());
    let mut client = Client::connect(dir.path()).unwrap();
    assert_eq!(client.server().program, "9.9");
    for _ in 0..3 {
        let answer = client.ask(Request::Status, PATIENCE).unwrap();
        assert!(matches!(answer, Answer::Status(status) if status.at_unix_ms == 7));
        let refused = client.ask(Request::TransferLeadership { to: None }, PATIENCE);
        let Err(ClientError::Refused(refusal)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(
            (refusal.reason, refusal.text.as_str()),
            (Reason::NoLeader, "ask db2\\u001b[31m\\u000a"),
            "a terminal obeys nothing of it"
        );
    }
    drop(client);
    served.join().unwrap().unwrap();
}

#[test]
fn client_with_the_right_to_the_status_alone_gives_no_orders() {
    let (dir, served) = serve_one_with(CommandRights::Status, ServeLimits::default());
    let mut client = Client::connect(dir.path()).unwrap();
    let answer = client.ask(Request::Status, PATIENCE).unwrap();
    assert!(matches!(answer, Answer::Status(_)));
    for order in [
        Request::TransferLeadership { to: None },
        Request::Recover,
        Request::Conflicts,
    ] {
        let refused = client.ask(order, PATIENCE);
        let Err(ClientError::NotAllowed { .. }) = refused else {
            panic!("{refused:?}");
        };
    }
    drop(client);
    served.join().unwrap().unwrap();
}

#[test]
fn call_of_another_version_is_refused_and_the_next_one_served() {
    let (dir, served) = serve_one(ServeLimits::default());
    let (mut stream, reader) = raw_client(&dir);
    let calls =
        "{\"protocol\":9,\"command\":\"status\"}\n{\"protocol\":1,\"command\":\"status\"}\n";
    stream.write_all(calls.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let lines: Vec<String> = reader.lines().map(Result::unwrap).collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[1].contains("not_understood"), "{}", lines[1]);
    assert!(lines[2].contains("\"answer\""), "{}", lines[2]);
    served.join().unwrap().unwrap();
}

#[test]
fn client_that_says_nothing_is_given_up() {
    let limits = ServeLimits {
        idle: Duration::from_millis(5),
        ..ServeLimits::default()
    };
    let (dir, served) = serve_one(limits);
    let (_stream, mut reader) = raw_client(&dir);
    assert!(served.join().unwrap().is_err());
    let mut rest = String::new();
    while reader.read_line(&mut rest).unwrap() > 0 {}
    assert_eq!(rest.lines().count(), 1, "the greeting alone: {rest}");
}

#[test]
fn one_client_too_many_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let listening = Listening::begin(dir.path()).unwrap();
    listening.listener().set_nonblocking(false).unwrap();
    let refusing = thread::spawn(move || refuse_busy(&listening.listener().accept().unwrap().0));
    let error = Client::connect(dir.path()).err().unwrap();
    let ClientError::Refused(refusal) = error else {
        panic!("{error}");
    };
    assert_eq!(refusal.reason, Reason::Busy);
    refusing.join().unwrap();
}

#[test]
fn directory_without_a_server_is_named_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let error = Client::connect(dir.path()).err().unwrap();
    assert!(matches!(error, ClientError::NoSocket { .. }), "{error}");
    let listening = Listening::begin(dir.path()).unwrap();
    let file = listening.path().to_owned();
    let kept = dir.path().join("kept");
    std::fs::rename(&file, &kept).unwrap();
    drop(listening);
    std::fs::rename(&kept, &file).unwrap();
    let error = Client::connect(dir.path()).err().unwrap();
    assert!(matches!(error, ClientError::NotRunning { .. }), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever a client sends, the server answers with whole lines, and ends.
    #[test]
    fn any_bytes_are_answered_or_end_the_connection(
        bytes in proptest::collection::vec(any::<u8>(), 0..2000),
    ) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let served = thread::spawn(move || {
            serve(&mut &theirs, CommandRights::Orders, "9.9", ServeLimits::default(), &answer)
        });
        // The server may have gone before it has taken everything.
        let _ = (&ours).write_all(&bytes);
        let _ = ours.shutdown(Shutdown::Write);
        ours.set_read_timeout(Some(PATIENCE)).unwrap();
        let lines: Vec<String> = BufReader::new(&ours).lines().map_while(Result::ok).collect();
        for line in lines {
            prop_assert!(serde_json::from_str::<Reply>(&line).is_ok(), "{}", line);
        }
        let _ = served.join().unwrap();
    }
}
