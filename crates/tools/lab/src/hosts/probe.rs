//! Measures round trips between hosts, with datagrams.

use std::io;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use super::{Host, in_namespace};

/// Longer than any round trip that the lab emulates, with room for a core that stands still.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The round trip from one host to another and back: the median of `count` (at least one), after
/// one that is not counted.
pub fn round_trip(from: &Host, to: &Host, count: usize) -> io::Result<Duration> {
    let near = in_namespace(&from.namespace_file(), || {
        UdpSocket::bind((from.address, 0))
    })?;
    let far = in_namespace(&to.namespace_file(), || UdpSocket::bind((to.address, 0)))?;
    near.connect(far.local_addr()?)?;
    far.connect(near.local_addr()?)?;
    for socket in [&near, &far] {
        socket.set_read_timeout(Some(TIMEOUT))?;
    }
    let rounds = count.max(1) + 1;
    std::thread::scope(|scope| {
        let echo = scope.spawn(|| echo(&far, rounds));
        let times = measure(&near, rounds);
        echo.join()
            .map_err(|_| io::Error::other("the echo panicked"))??;
        times.map(median)
    })
}

fn echo(socket: &UdpSocket, rounds: usize) -> io::Result<()> {
    let mut byte = [0u8; 8];
    for _ in 0..rounds {
        let length = socket.recv(&mut byte)?;
        socket.send(&byte[..length])?;
    }
    Ok(())
}

fn measure(socket: &UdpSocket, rounds: usize) -> io::Result<Vec<Duration>> {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let begin = Instant::now();
        socket.send(&[0u8; 8])?;
        socket.recv(&mut [0u8; 8])?;
        times.push(begin.elapsed());
    }
    times.remove(0);
    Ok(times)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
