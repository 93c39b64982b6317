//! Attacks by quantity: many connections, slow ones, large and broken frames. During most of them
//! a member is stopped and started: it must get back in.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use synod_e2e::{Outcome, TestCluster, Why};
use synod_wire::{HelloReply, Lane};

use crate::attacks::{Attack, insider};
use crate::caller::{Name, address, connect};
use crate::configuration::Credentials;

/// Silent connections that are open at a time, to each server.
const CROWD: usize = 600;
/// Welcomed connections that are open at a time, to each server.
const WELCOMED: u64 = 100;
/// Handshakes that trickle in at a time, to each server.
const SLOW: usize = 60;
/// Time for which handshakes trickle in.
const SLOW_TIME: Duration = Duration::from_secs(4);

/// All attacks by quantity.
pub(crate) fn all() -> Vec<Attack> {
    let attack = |name, run| Attack { name, run };
    vec![
        attack("garbage and huge frames", garbage),
        attack("600 silent connections; a member returns", silent_crowd),
        attack("100 welcomed connections; a member returns", welcomed_crowd),
        attack("handshakes of one byte a second", slow_handshakes),
        attack("connects and hangs up; a member returns", flood),
    ]
}

fn servers(cluster: &TestCluster) -> Vec<SocketAddr> {
    cluster.nodes().map(|node| address(cluster, node)).collect()
}

/// Stops a follower and starts it; how long until it is synced.
fn member_returns(cluster: &mut TestCluster) -> Outcome<String> {
    let node = cluster.follower();
    cluster.stop(node).why("stopping a member")?;
    let begun = Instant::now();
    cluster
        .start(node, &|_, _| ())
        .why(format_args!("node{node} does not get back in"))?;
    let seconds = begun.elapsed().as_secs_f32();
    Ok(format!("node{node} was back in {seconds:.1} s"))
}

fn silent_crowd(cluster: &mut TestCluster, _: &Credentials) -> Outcome<String> {
    let mut crowd = Vec::new();
    for at in servers(cluster) {
        crowd.extend((0..CROWD).filter_map(|_| connect(at).ok()));
    }
    let back = member_returns(cluster)?;
    Ok(format!("{} connections; {back}", crowd.len()))
}

fn welcomed_crowd(cluster: &mut TestCluster, credentials: &Credentials) -> Outcome<String> {
    let first = insider(cluster, credentials);
    let mut crowd = Vec::new();
    for at in servers(cluster) {
        for number in 0..WELCOMED {
            let mut name = first.clone();
            name.member.0 += number;
            let call = name.call(at, Lane::Bulk);
            crowd.extend(call.ok().filter(is_welcome));
        }
    }
    let back = member_returns(cluster)?;
    Ok(format!("{} calls welcomed; {back}", crowd.len()))
}

fn is_welcome<T>((_, reply): &(T, HelloReply)) -> bool {
    matches!(reply, HelloReply::Welcome { .. })
}

/// Frames that promise much, and bytes that are no frames, before and after the handshake.
fn garbage(cluster: &mut TestCluster, credentials: &Credentials) -> Outcome<String> {
    let name = insider(cluster, credentials);
    let (mut sent, mut taken) = (0, 0);
    for at in servers(cluster) {
        for bytes in broken() {
            let mut stream = connect(at).why("connecting")?;
            // It may have been hung up on before all was sent.
            sent += usize::from(stream.write_all(&bytes).is_ok());
            if let Ok((mut conversation, HelloReply::Welcome { .. })) = name.call(at, Lane::Bulk) {
                taken += usize::from(conversation.send_bytes(&bytes));
            }
        }
        taken += held(&name, at);
    }
    Ok(format!("{sent} before and {taken} after the handshake"))
}

/// Connections that begin a frame of 80 MiB each, and send it for as long as they may.
fn held(name: &Name, at: SocketAddr) -> usize {
    let mut portion = header(18, 80 << 20);
    portion.resize(1 << 20, 7);
    let mut taken = 0;
    let mut open = Vec::new();
    for number in 0..16 {
        let mut name = name.clone();
        name.member.0 += number;
        if let Ok((mut conversation, HelloReply::Welcome { .. })) = name.call(at, Lane::Bulk) {
            while conversation.send_bytes(&portion) && taken < 1024 {
                taken += 1;
                portion.fill(7);
            }
            open.push(conversation);
        }
        portion = header(18, 80 << 20);
        portion.resize(1 << 20, 7);
    }
    taken
}

fn broken() -> Vec<Vec<u8>> {
    vec![
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        vec![0; 4096],
        vec![0xFF; 4096],
        vec![0x16, 3, 1, 0xFF, 0xFF],
        header(1, u32::MAX),
        header(1, 5000),
        header(16, 256 * 1024),
        header(18, 80 << 20),
        [header(1, 100), vec![7; 100]].concat(),
    ]
}

/// The header of a frame, with a right checksum of its own.
fn header(kind: u8, length: u32) -> Vec<u8> {
    let mut header = b"Sy".to_vec();
    header.extend([kind, 0]);
    header.extend(length.to_le_bytes());
    header.extend([0; 4]);
    header.extend(crc32c::crc32c(&header).to_le_bytes());
    header
}

/// Valid beginnings of handshakes, one byte a second each.
fn slow_handshakes(cluster: &mut TestCluster, credentials: &Credentials) -> Outcome<String> {
    let first: &[u8] = match credentials {
        Credentials::None => b"Sy\x01\0",
        Credentials::Some { .. } => &[0x16, 3, 1, 1],
    };
    let mut open: Vec<TcpStream> = Vec::new();
    for at in servers(cluster) {
        open.extend((0..SLOW).filter_map(|_| connect(at).ok()));
    }
    let until = Instant::now() + SLOW_TIME;
    let mut bytes = first.iter().chain(std::iter::repeat(&1));
    while Instant::now() < until {
        let byte = [*bytes.next().unwrap_or(&1)];
        open.retain_mut(|stream| stream.write_all(&byte).is_ok());
        std::thread::park_timeout(Duration::from_secs(1));
    }
    Ok(format!("{} of {} still open", open.len(), 3 * SLOW))
}

/// One thread for each server connects and hangs up, as fast as it can.
fn flood(cluster: &mut TestCluster, _: &Credentials) -> Outcome<String> {
    let stop = Arc::<AtomicBool>::default();
    let count = Arc::<AtomicUsize>::default();
    let threads: Vec<_> = servers(cluster)
        .into_iter()
        .map(|at| {
            let (stop, count) = (stop.clone(), count.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    count.fetch_add(usize::from(connect(at).is_ok()), Ordering::Relaxed);
                }
            })
        })
        .collect();
    let back = member_returns(cluster);
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        // A thread that panicked has printed the reason.
        let _ = thread.join();
    }
    Ok(format!(
        "{} connections; {}",
        count.load(Ordering::Relaxed),
        back?
    ))
}
