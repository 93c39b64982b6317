//! The router's process: one thread moves packets, others wait for requests.
//!
//! The process ends when its standard input ends, which the lab holds open: it cannot outlive the
//! lab.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Ipv4Addr;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use tappers::{Interface, Tun};

use super::control::{Answer, Counters, LinkName, Request};
use super::packet;
use super::queue::Network;
use super::stalls::{self, Stalls};
use crate::hosts::{DEVICE, in_namespace};

/// The longest packet that a device can give.
const PACKET_BYTES_MAX: usize = 65_536;

/// Packets read from one device before the others get their turn.
const BATCH: usize = 64;

/// Buffers kept for packets to come.
const SPARE_BUFFERS: usize = 4096;

/// Line that the router prints when its devices exist.
pub const READY: &str = "ready";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterHost {
    pub name: String,
    pub address: Ipv4Addr,
    pub namespace: PathBuf,
}

type Asked = (Request, Sender<Answer>);

/// The cores' lost time: the threads that note it have no end.
static STALLS: Stalls = Stalls::new();

/// Makes the devices, prints [`READY`], and moves packets until standard input ends.
pub fn run(socket: &Path, hosts: &[RouterHost]) -> io::Result<()> {
    let devices = hosts
        .iter()
        .map(|host| in_namespace(&host.namespace, open_device))
        .collect::<io::Result<Vec<Tun>>>()?;
    let (asked, requests) = channel();
    let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
    let listener = UnixListener::bind(socket)?;
    let waker = Arc::clone(&wake);
    std::thread::spawn(move || listen(&listener, &asked, &waker));
    std::thread::spawn(end_with_standard_input);
    stalls::watch_cores(&STALLS);
    // A packet must leave when it is due, and not up to 50 microseconds later.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    let mut router = Router::new(hosts, devices, requests);
    println!("{READY}");
    io::stdout().flush()?;
    router.run(&wake)
}

fn open_device() -> io::Result<Tun> {
    let mut device = Tun::new_named(Interface::new(DEVICE)?)?;
    device.set_nonblocking(true)?;
    Ok(device)
}

fn end_with_standard_input() {
    let mut byte = [0u8; 1];
    while matches!(io::stdin().read(&mut byte), Ok(1)) {}
    std::process::exit(0);
}

/// Reads requests, one connection and line at a time, and writes the answers.
fn listen(listener: &UnixListener, asked: &Sender<Asked>, wake: &OwnedFd) {
    for stream in listener.incoming().flatten() {
        // A client that sends nothing, or has gone, concerns no other one.
        let _ = serve(&stream, asked, wake);
    }
}

fn serve(stream: &UnixStream, asked: &Sender<Asked>, wake: &OwnedFd) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.set_write_timeout(Some(Duration::from_secs(1)))?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let answer = match serde_json::from_str(&line) {
        Ok(request) => {
            let (reply, answers) = channel();
            let gone = |_| io::Error::other("the router has ended");
            asked.send((request, reply)).map_err(|_| gone(()))?;
            rustix::io::write(wake, &1u64.to_ne_bytes())?;
            answers.recv().map_err(|_| gone(()))?
        }
        Err(error) => Answer::Refused(error.to_string()),
    };
    let mut writer = stream;
    writer.write_all((serde_json::to_string(&answer)? + "\n").as_bytes())
}

struct Router {
    names: Vec<String>,
    by_address: BTreeMap<Ipv4Addr, usize>,
    devices: Vec<Tun>,
    network: Network,
    requests: Receiver<Asked>,
    begun: Instant,
    spare: Vec<Vec<u8>>,
    packet: Box<[u8]>,
}

impl Router {
    fn new(hosts: &[RouterHost], devices: Vec<Tun>, requests: Receiver<Asked>) -> Router {
        let by_address = hosts.iter().map(|host| host.address).zip(0..).collect();
        Router {
            names: hosts.iter().map(|host| host.name.clone()).collect(),
            by_address,
            devices,
            network: Network::new(hosts.len()),
            requests,
            begun: Instant::now(),
            spare: Vec::new(),
            packet: vec![0; PACKET_BYTES_MAX].into_boxed_slice(),
        }
    }

    fn run(&mut self, wake: &OwnedFd) -> io::Result<()> {
        loop {
            let readable = self.wait(wake)?;
            let (devices, request) = readable.split_at(self.devices.len());
            for (host, _) in devices
                .iter()
                .enumerate()
                .filter(|(_, readable)| **readable)
            {
                self.read_from(host);
            }
            if request.contains(&true) {
                self.answer_requests(wake);
            }
            self.hand_over();
        }
    }

    /// Waits for a packet, a request, or until a packet is due. Says which of the devices can be
    /// read, and last whether there is a request.
    fn wait(&self, wake: &OwnedFd) -> io::Result<Vec<bool>> {
        let mut files: Vec<PollFd<'_>> = self
            .devices
            .iter()
            .map(|device| PollFd::new(device, PollFlags::IN))
            .collect();
        files.push(PollFd::new(wake, PollFlags::IN));
        let left = self.network.next_due();
        let left = left.map(|due| timespec(due.saturating_sub(self.now_ns())));
        match poll(&mut files, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_readable = |file: &PollFd<'_>| file.revents().contains(PollFlags::IN);
        Ok(files.iter().map(is_readable).collect())
    }

    fn read_from(&mut self, from: usize) {
        for _ in 0..BATCH {
            let Ok(length) = self.devices[from].recv(&mut self.packet) else {
                return; // nothing more to read
            };
            let bytes = &self.packet[..length];
            let to = packet::destination(bytes).and_then(|to| self.by_address.get(&to));
            let Some(to) = to.copied() else {
                continue; // for no host: multicast, or an address that no host has
            };
            let mut buffer = self.spare.pop().unwrap_or_default();
            buffer.clear();
            buffer.extend_from_slice(bytes);
            let now_ns = self.now_ns();
            self.network.accept(now_ns, from, to, buffer);
        }
    }

    fn hand_over(&mut self) {
        loop {
            let now_ns = self.now_ns();
            let Some(due) = self.network.pop(now_ns) else {
                return;
            };
            // A device refuses packets while it is down: they are lost, as on a real network.
            let _ = self.devices[due.to].send(&due.bytes);
            if self.spare.len() < SPARE_BUFFERS {
                self.spare.push(due.bytes);
            }
        }
    }

    fn answer_requests(&mut self, wake: &OwnedFd) {
        let _ = rustix::io::read(wake, &mut [0u8; 8]); // it only wakes
        while let Ok((request, reply)) = self.requests.try_recv() {
            let _ = reply.send(self.answer(&request)); // the client may have gone
        }
    }

    fn answer(&mut self, request: &Request) -> Answer {
        let changes = match request {
            Request::Read => return Answer::Counters(self.counters()),
            Request::Set(changes) => changes,
        };
        let place = |name: &str| self.names.iter().position(|known| known == name);
        let mut known = Vec::new();
        for change in changes {
            let (Some(from), Some(to)) = (place(&change.from), place(&change.to)) else {
                let (from, to, names) = (&change.from, &change.to, self.names.join(", "));
                return Answer::Refused(format!("no link {from} to {to}; hosts are {names}"));
            };
            known.push((from, to, change.settings));
        }
        for (from, to, settings) in known {
            self.network.set(from, to, settings);
        }
        Answer::Done
    }

    fn counters(&self) -> Counters {
        let mut links = Vec::new();
        for (from, from_name) in self.names.iter().enumerate() {
            for (to, to_name) in self.names.iter().enumerate() {
                let name = LinkName {
                    from: from_name.clone(),
                    to: to_name.clone(),
                };
                links.push((name, self.network.counters(from, to)));
            }
        }
        let stalls = STALLS.read();
        Counters { links, stalls }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

fn timespec(ns: u64) -> Timespec {
    let duration = Duration::from_nanos(ns);
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
