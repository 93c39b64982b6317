//! One 600-byte entry per sync, next to a bare pwrite + fdatasync of as many bytes.
//!
//! `cargo bench -p synod-log --bench append [-- DIR]`; the ratio is what counts, disks differ.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use synod_consensus::{EntryHeader, EntryKind, LogIndex, MemberId, Origin, Seqno, SessionId, Term};
use synod_log::{Entry, Log, LogOptions, RealFiles};

const ENTRIES: u64 = 2000;
const PAYLOAD_BYTES: usize = 600;
/// Batch header, record header, payload.
const WRITTEN_BYTES: usize = 48 + 80 + PAYLOAD_BYTES;
const ROUNDS: usize = 3;

fn main() {
    let given = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let root = given.map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = root.join(format!("synod-log-bench-{}", std::process::id()));
    for round in 0..ROUNDS {
        let raw = raw(&dir.join(format!("raw-{round}")));
        let log = log(&dir.join(format!("log-{round}")));
        let ratio = log.median.as_secs_f64() / raw.median.as_secs_f64();
        println!("raw {raw:?}\nlog {log:?}\nmedian ratio {ratio:.2}");
    }
    let _ = std::fs::remove_dir_all(&dir);
}

#[derive(Debug)]
struct Figures {
    #[allow(dead_code, reason = "printed")]
    mean: Duration,
    median: Duration,
    #[allow(dead_code, reason = "printed")]
    p99: Duration,
}

fn measure(mut step: impl FnMut(u64)) -> Figures {
    let mut times: Vec<Duration> = (1..=ENTRIES)
        .map(|i| {
            let start = Instant::now();
            step(i);
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    let total: Duration = times.iter().sum();
    Figures {
        mean: total / times.len() as u32,
        median: times[times.len() / 2],
        p99: times[times.len() * 99 / 100],
    }
}

fn raw(dir: &Path) -> Figures {
    std::fs::create_dir_all(dir).unwrap();
    let file = std::fs::File::create(dir.join("raw")).unwrap();
    file.write_all_at(&vec![0; WRITTEN_BYTES * (ENTRIES as usize + 1)], 0)
        .unwrap();
    file.sync_all().unwrap();
    let bytes = [7; WRITTEN_BYTES];
    measure(|i| {
        file.write_all_at(&bytes, i * WRITTEN_BYTES as u64).unwrap();
        file.sync_data().unwrap();
    })
}

fn log(dir: &Path) -> Figures {
    let mut log = Log::open(Arc::new(RealFiles), dir, LogOptions::default()).unwrap();
    measure(|i| {
        let header = EntryHeader {
            origin: Origin::new(MemberId(1), SessionId(1), i),
            depends_on: Seqno(0),
            ..EntryHeader::bare(Term(1), LogIndex(i), Seqno(i as i64), EntryKind::Action)
        };
        let entry = Entry::new(header, vec![7; PAYLOAD_BYTES].into()).unwrap();
        log.writer.append(&[entry]).unwrap();
        log.writer.sync().unwrap();
    })
}
