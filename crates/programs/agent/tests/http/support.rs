//! An agent beside a made-up server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use synod_admin::command_rights::CommandRights;
use synod_admin::protocol::{Answer, Reply};
use synod_admin::socket::Listening;
use synod_admin::status::{Group, Status};
use synod_admin::{Accepted, Client, ServeLimits, serve};
use synod_agent::{Access, Agent, Asker, Token};
use synod_tls::ServiceCertificates;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Answers the questions for the server of this directory with a healthy status; ends when the
/// stream that it gives is closed.
pub(crate) fn healthy_server(dir: &Path) -> UnixStream {
    let listening = Listening::begin(dir).unwrap();
    let (wake, end) = UnixStream::pair().unwrap();
    thread::spawn(move || {
        loop {
            match listening.accept(&wake, PATIENCE).unwrap() {
                Accepted::Client(client) => {
                    let answer = |_| Reply::Answer(Answer::Status(Box::new(healthy())));
                    // The agent closes its connections.
                    let _ = serve(
                        &mut &client,
                        CommandRights::Orders,
                        "0",
                        ServeLimits::default(),
                        &answer,
                    );
                }
                Accepted::Nothing => {}
                Accepted::Woken => return,
            }
        }
    });
    end
}

fn healthy() -> Status {
    let mut status = Status::default();
    status.server.name = "db1".into();
    status.server.is_ready = true;
    status.group = Some(Group {
        is_primary: true,
        ..Group::default()
    });
    status
}

/// An agent for that directory that is asked in clear. It runs until the test's process ends.
pub(crate) fn in_clear(dir: &Path, token: Option<Token>) -> SocketAddr {
    agent(dir, token, None)
}

/// An agent for that directory. It runs until the test's process ends.
pub(crate) fn agent(
    dir: &Path,
    token: Option<Token>,
    certificates: Option<ServiceCertificates>,
) -> SocketAddr {
    let access = Access::new("127.0.0.1:0".parse().unwrap(), token, certificates).unwrap();
    let dir = dir.to_owned();
    let connect = move || Client::connect(&dir).map_err(|error| error.to_string());
    let asker = Asker::start(Box::new(connect)).unwrap();
    let agent = Agent::listen(access, asker).unwrap();
    let address = agent.address().unwrap();
    thread::spawn(move || agent.run(None));
    address
}

/// Sends a request; gives all of the answer.
pub(crate) fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

pub(crate) fn get(address: SocketAddr, path: &str) -> String {
    ask(address, &format!("GET {path} HTTP/1.0\r\n\r\n"))
}

/// The token of an agent, in a file of this directory.
pub(crate) fn token(dir: &Path) -> Token {
    let path = dir.join("token");
    std::fs::write(&path, TOKEN).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    Token::read(&path).unwrap()
}
