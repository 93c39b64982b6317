//! The packaged settings of HAProxy when servers lag: as after one large transaction, which all
//! followers apply at the same time. Servers and agents are made up; HAProxy is the real one.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::Duration;

use synod_e2e::packaged_proxy::{self, Backend, ProxyPorts};
use synod_e2e::{Outcome, Why, ensure, place};
use synod_local_cluster::wait_for;

const PORTS: ProxyPorts = ProxyPorts {
    writer: 18_901,
    readers: 18_902,
    clustercheck: 18_903,
    health: 18_904,
};
const PATIENCE: Duration = Duration::from_secs(30);

const FITS: u16 = 200;
const LAGS: u16 = 404;
const DOES_NOT_SERVE: u16 = 503;

/// A server that tells each client its number, and an agent that answers as it is told.
struct Played {
    reader: Arc<AtomicU16>,
    backend: Backend,
}

impl Played {
    fn start(number: u8) -> Outcome<Played> {
        let reader = Arc::new(AtomicU16::new(FITS));
        let said = reader.clone();
        let agent = listen(move |mut stream| {
            let mut head = [0; 2048];
            let count = stream.read(&mut head).unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..count]);
            let is_about_lag = head.contains("max_lag_ms=1000&lagging=404 ");
            let code = match said.load(Ordering::Relaxed) {
                LAGS if !is_about_lag => FITS,
                code => code,
            };
            // HAProxy has its answer, or asks again.
            let _ = stream.write_all(format!("HTTP/1.0 {code} x\r\n\r\n").as_bytes());
        })?;
        let sql = listen(move |mut stream| {
            while matches!(stream.read(&mut [0]), Ok(1)) {
                if stream.write_all(&[number]).is_err() {
                    return;
                }
            }
        })?;
        let backend = Backend { sql, agent };
        Ok(Played { reader, backend })
    }

    fn is(&self, code: u16) {
        self.reader.store(code, Ordering::Relaxed);
    }
}

/// Serves each connection on a thread; gives the port.
fn listen(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> Outcome<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).why("listening")?;
    let port = listener.local_addr().why("the port")?.port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    Ok(port)
}

/// A client of the port for readers.
struct Session(TcpStream);

impl Session {
    fn new() -> Option<Session> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, PORTS.readers)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        Some(Session(stream))
    }

    /// The number of the server that answers; none if the session has ended.
    fn server(&mut self) -> Option<u8> {
        let mut number = [0];
        self.0.write_all(b"?").ok()?;
        self.0.read_exact(&mut number).ok()?;
        Some(number[0])
    }
}

/// Servers that get new sessions, in order.
fn served() -> Option<Vec<u8>> {
    let sessions = (0..9).map(|_| Session::new());
    let mut sessions = sessions.collect::<Option<Vec<_>>>()?;
    let servers = sessions.iter_mut().map(Session::server);
    let mut servers = servers.collect::<Option<Vec<u8>>>()?;
    servers.sort_unstable();
    servers.dedup();
    Some(servers)
}

fn await_served(wanted: &[u8]) -> Outcome {
    let is_so = || (served()? == wanted).then_some(());
    ensure(wait_for(PATIENCE, is_so).is_some(), || {
        format!("new sessions go to {:?}, not {wanted:?}", served())
    })
}

#[test]
fn lag_ends_no_session_and_leaves_readers_a_server() -> Outcome {
    let dir = place::cluster_dir("proxy-lag")?;
    fs::create_dir_all(&dir).why("a directory")?;
    let played = (1..=3).map(Played::start).collect::<Outcome<Vec<_>>>()?;
    let backends: Vec<Backend> = played.iter().map(|server| server.backend).collect();
    let _proxy = packaged_proxy::start_before(&backends, "token", &dir, PORTS)?;
    await_served(&[1, 2, 3])?;

    let sessions = (0..6).map(|_| Session::new());
    let mut sessions = sessions
        .collect::<Option<Vec<_>>>()
        .ok_or("ended")
        .why("a session")?;
    let before: Vec<_> = sessions.iter_mut().map(Session::server).collect();
    let mut ensure_all_live = |what: &str| -> Outcome {
        let now: Vec<_> = sessions.iter_mut().map(Session::server).collect();
        ensure(now == before, || {
            format!("{what}: sessions at {now:?}, before at {before:?}")
        })
    };
    played[0].is(LAGS);
    played[1].is(LAGS);
    await_served(&[3])?;
    ensure_all_live("two lag")?;
    played[2].is(LAGS);
    await_served(&[1, 2, 3])?;
    ensure_all_live("all lag")?;

    played[0].is(DOES_NOT_SERVE);
    await_served(&[2, 3])?;
    // Each of the two backends makes up its mind by itself.
    let are_ended = || {
        let now: Vec<_> = sessions.iter_mut().map(Session::server).collect();
        let wanted = before
            .iter()
            .map(|server| server.filter(|number| *number != 1));
        now.into_iter().eq(wanted).then_some(())
    };
    ensure(wait_for(PATIENCE, are_ended).is_some(), || {
        "not the sessions of the server that does not serve have ended".into()
    })?;
    played.iter().for_each(|server| server.is(FITS));
    await_served(&[1, 2, 3])
}
