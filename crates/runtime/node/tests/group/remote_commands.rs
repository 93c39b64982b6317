//! Clients that give commands over the connections of the group.

use std::fs;
use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use synod_admin::protocol::{Answer, Done, Reply, Request};
use synod_admin::{Client, ClientError, RemoteError, RemoteMember};
use synod_commands::{Answerer, Surroundings, remote_handler};
use synod_node::{Credentials, Level, TlsFiles};
use synod_wire::RefuseReason;

use crate::certificates::{Authority, Kind};
use crate::encryption::encrypt;
use crate::secret::{Files, secret};
use crate::support::{Group, Member, eventually, seqno_of};

const PATIENCE: Duration = Duration::from_secs(60);
/// Clients of a member at a time.
const CLIENTS_MAX: usize = 8;

struct Quiet;

impl Surroundings for Quiet {
    fn spawn(&self, _name: &str, _body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn log(&self, _level: Level, _text: &str) {}
}

/// Has a member answer every request with its name.
fn serve(member: &Member) {
    let text = member.config.name.clone();
    let done = move |_| {
        let (text, log_index) = (text.clone(), None);
        Reply::Answer(Answer::Done(Done { text, log_index }))
    };
    let answer: Answerer = Arc::new(done);
    let handler = remote_handler(answer, Arc::new(Quiet));
    member.node().serve_commands(handler);
}

fn remote(member: &Member, credentials: Credentials) -> RemoteMember {
    RemoteMember {
        address: member.config.address.clone(),
        cluster_name: String::new(),
        credentials,
    }
}

fn ask(client: &mut Client) -> Result<String, ClientError> {
    match client.ask(Request::Status, PATIENCE)? {
        Answer::Done(done) => Ok(done.text),
        other => panic!("{other:?}"),
    }
}

fn refused(to: &RemoteMember) -> RemoteError {
    match Client::connect_to(to).err() {
        Some(ClientError::Remote(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn client_with_the_secret_is_served_and_others_are_told_why_not() {
    let files = Files::new();
    let group = files.group("commands", &secret(1));
    let member = &group.members[1];
    let own = remote(member, files.credentials("node1"));
    let early = refused(&own);
    let RemoteError::Refused { reason, .. } = early else {
        panic!("{early}");
    };
    assert_eq!(reason, RefuseReason::Busy);

    serve(member);
    let mut client = Client::connect_to(&own).unwrap();
    for _ in 0..3 {
        assert_eq!(ask(&mut client).unwrap(), member.config.name);
    }
    files.write("foreign", &[&secret(2)]);
    let foreign = remote(member, files.credentials("foreign"));
    let error = refused(&foreign);
    assert!(matches!(error, RemoteError::NotProven { .. }), "{error}");
    assert!(error.to_string().contains("this program's"), "{error}");

    let other = RemoteMember {
        cluster_name: "other".to_owned(),
        ..own.clone()
    };
    let error = refused(&other);
    assert!(error.to_string().contains("cluster name"), "{error}");
    let says = "the cluster name here is";
    member.host.wait("the line", |record| record.says(says));
    seqno_of(member.order("k", "v"));
    group.wait_complete();
}

#[test]
fn clients_that_say_nothing_keep_neither_members_nor_other_clients_out() {
    let files = Files::new();
    let mut group = files.group("crowd", &secret(1));
    let member = &group.members[0];
    serve(member);
    let own = remote(member, files.credentials("node1"));
    let connect = || Client::connect_to(&own).unwrap();
    let mut clients: Vec<Client> = (0..CLIENTS_MAX).map(|_| connect()).collect();
    let mut late = connect();
    assert_eq!(ask(&mut late).unwrap(), member.config.name);
    assert!(ask(&mut clients[0]).is_err(), "it made room");
    seqno_of(member.order("k", "v"));

    // The credentials that they have shown count no longer.
    files.write("node1", &[&secret(2), &secret(1)]);
    for member in &group.members[1..] {
        files.write(&member.config.name, &[&secret(2), &secret(1)]);
        member.node().reload_tls().unwrap();
    }
    member.node().reload_tls().unwrap();
    assert_eq!(ask(&mut late).unwrap(), member.config.name);
    files.write("node1", &[&secret(2)]);
    member.node().reload_tls().unwrap();
    eventually("the client is cut off", || ask(&mut late).is_err());
    let mut newer = Client::connect_to(&own).unwrap();
    assert_eq!(ask(&mut newer).unwrap(), member.config.name);
    // Its end waits for no client.
    group.members[0].stop();
    assert!(ask(&mut newer).is_err());
}

#[test]
fn member_in_clear_takes_no_commands_from_other_machines() {
    let files = Files::new();
    files.write("client", &[&secret(1)]);
    let group = Group::of(1, "clear");
    serve(&group.members[0]);
    let error = refused(&remote(&group.members[0], files.credentials("client")));
    assert!(matches!(error, RemoteError::InClear { .. }), "{error}");
}

/// A member whose group has certificates of this authority, and which serves clients.
fn certified(authority: &Authority, name: &str) -> Group {
    let group = Group::prepared_by(1, name, encrypt(authority)).begin();
    serve(&group.members[0]);
    group
}

fn with_certificate(member: &Member, files: TlsFiles) -> RemoteMember {
    remote(member, Credentials::Certificates(files))
}

/// The member says in its log why it refused.
fn logs(member: &Member, why: &str) {
    member.host.wait(why, |record| record.says(why));
}

#[track_caller]
fn not_proven(to: &RemoteMember, why: &str) {
    let error = refused(to);
    let is_not_proven = matches!(error, RemoteError::NotProven { .. });
    assert!(is_not_proven && error.to_string().contains(why), "{error}");
}

#[test]
fn client_with_a_certificate_of_the_authority_is_served() {
    let ours = Authority::new("ours");
    let group = certified(&ours, "certified");
    let member = &group.members[0];
    let ops = with_certificate(member, ours.issue("ops", Kind::Good));
    let mut client = Client::connect_to(&ops).unwrap();
    assert_eq!(ask(&mut client).unwrap(), member.config.name);
}

#[test]
fn client_with_a_certificate_of_another_authority_is_refused_at_both_ends() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let group = certified(&ours, "foreign");
    let member = &group.members[0];

    // It takes the member for one of another group.
    let stranger = with_certificate(member, other.issue("stranger", Kind::Good));
    not_proven(
        &stranger,
        "its certificate is refused: none of the authorities",
    );
    logs(member, "it refuses this member's certificate");

    // It knows the member's authority, too, and so has to be told.
    let mut files = other.issue("foreign", Kind::Good);
    let both = other.file().with_file_name("both.pem");
    let known = [other.file(), ours.file()].map(|file| fs::read_to_string(file).unwrap());
    fs::write(&both, known.concat()).unwrap();
    files.authorities = Some(both);
    let foreign = with_certificate(member, files);
    not_proven(&foreign, "it refuses this program's certificate");
    logs(
        member,
        "its certificate is refused: none of the authorities",
    );
    seqno_of(member.order("k", "v"));
}

#[test]
fn client_with_an_expired_certificate_is_refused_at_both_ends() {
    let ours = Authority::new("ours");
    let group = certified(&ours, "expired");
    let member = &group.members[0];
    let error = refused(&with_certificate(member, ours.issue("old", Kind::Expired)));
    let is_own = matches!(error, RemoteError::Credentials(_));
    let text = error.to_string();
    assert!(is_own && text.contains("expired at 2020-01-01"), "{text}");

    // Only a program that does not look at its own certificate gets as far as the member.
    let life = Duration::from_secs(5);
    let files = ours.issue("ops", Kind::ValidFor(life));
    let expiry = Instant::now() + life + Duration::from_secs(1);
    let tls = Credentials::Certificates(files).load().unwrap();
    eventually("expiry", || Instant::now() > expiry);
    let socket = TcpStream::connect(&member.config.address).unwrap();
    let mut stream = tls.connect(socket).unwrap();
    let error = stream.read(&mut [0; 16]).unwrap_err().to_string();
    assert!(error.contains("it has expired"), "{error}");
    logs(member, "its certificate is refused: it has expired");
}

#[test]
fn client_without_a_certificate_is_refused_at_both_ends() {
    let ours = Authority::new("ours");
    let group = certified(&ours, "without");
    let member = &group.members[0];
    let files = Files::new();
    files.write("client", &[&secret(1)]);
    let by_secret = remote(member, files.credentials("client"));
    not_proven(&by_secret, "the same kind of credential");
    logs(
        member,
        "it shows a group secret, and this member has certificates",
    );
}
