//! The disk of the log: every commit waits for it on a majority of the servers.

use std::time::Duration;

use synod_options::key;

use crate::bytes_text;
use crate::facts::{ConfiguredOptions, DiskError, DiskFacts};
use crate::finding::{Finding, Severity, Subject};

/// Above it a disk is slow for a database.
const SLOW: Duration = Duration::from_millis(10);

/// Above it a group with this disk on a majority is hardly usable.
const TOO_SLOW: Duration = Duration::from_millis(50);

/// Below it nothing was made durable: no disk is that fast.
const IMPLAUSIBLE: Duration = Duration::from_micros(5);

pub(super) fn judge_speed(disk: &Result<DiskFacts, DiskError>) -> Finding {
    let disk = match disk {
        Ok(disk) => disk,
        Err(error) => {
            return Finding::new(
                Subject::Disk,
                Severity::Note,
                format!("the disk of the log was not measured: {error}"),
                "every commit waits for it",
                "run synod doctor as root",
            );
        }
    };
    let (usual, slow) = (disk.sync_quantile(0.5), disk.sync_quantile(0.99));
    let what = format!(
        "{}: a sync takes {} ms (99 of 100: {} ms)",
        disk.directory.display(),
        ms(usual),
        ms(slow)
    );
    let finding = |severity, why: &str, remedy: &str| {
        Finding::new(Subject::Disk, severity, what.clone(), why, remedy)
    };
    match usual {
        usual if usual < IMPLAUSIBLE => finding(
            Severity::Warning,
            "no disk is that fast: this one says that data are durable before they are, or is \
             memory, and loses them when power fails",
            "put synod.log_dir on a disk that keeps its word",
        ),
        usual if usual > TOO_SLOW => finding(
            Severity::Problem,
            "every commit waits for a sync on a majority of the servers",
            "put synod.log_dir on a faster disk (SSD)",
        ),
        usual if usual > SLOW => finding(
            Severity::Warning,
            "every commit waits for a sync on a majority of the servers",
            "put synod.log_dir on a faster disk (SSD)",
        ),
        _ => Finding::good(Subject::Disk, what),
    }
}

fn ms(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1000.0)
}

/// The log takes up to twice its size, and at most a quarter of the file system.
pub(super) fn judge_space(
    disk: &Result<DiskFacts, DiskError>,
    options: &ConfiguredOptions,
) -> Option<Finding> {
    let (Ok(disk), Ok((options, _))) = (disk, &options.read) else {
        return None;
    };
    let retained = options.unsigned(key::LOG_RETAIN_SIZE);
    let log_max = (2 * retained).min(disk.total_bytes / 4);
    let what = format!(
        "{} of {} are free in {}",
        bytes_text(disk.free_bytes),
        bytes_text(disk.total_bytes),
        disk.directory.display()
    );
    if disk.free_bytes > log_max {
        return Some(Finding::good(Subject::Disk, what));
    }
    Some(Finding::new(
        Subject::Disk,
        Severity::Warning,
        what,
        format!(
            "the log may take up to {}. With less it reaches back less far, and a server that was \
             away needs a full copy sooner",
            bytes_text(log_max)
        ),
        "make room, put synod.log_dir on another disk, or lower synod.log_retain_size",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use synod_options::{Defaults, Options};

    fn disk(sync_us: u64, free_bytes: u64) -> Result<DiskFacts, DiskError> {
        Ok(DiskFacts {
            directory: PathBuf::from("/log"),
            sync_times: vec![Duration::from_micros(sync_us); 3],
            free_bytes,
            total_bytes: 100 << 30,
        })
    }

    #[test]
    fn disks_are_judged_by_their_usual_sync() {
        let severity = |us| judge_speed(&disk(us, 0)).severity;
        assert_eq!(severity(1), Severity::Warning, "implausible");
        assert_eq!(severity(900), Severity::Good);
        assert_eq!(severity(11_000), Severity::Warning);
        assert_eq!(severity(60_000), Severity::Problem);
    }

    #[test]
    fn free_space_is_held_against_what_the_log_may_take() {
        let text = "synod.log_retain_size=4G";
        let read = Options::new(Defaults::default(), text).map_err(|error| error.to_string());
        let options = ConfiguredOptions {
            text: text.to_owned(),
            read,
        };
        let judged = |free: u64| judge_space(&disk(900, free << 30), &options).unwrap();
        assert_eq!(judged(9).severity, Severity::Good);
        assert_eq!(judged(7).severity, Severity::Warning);
        assert!(judged(7).why.contains("8.0 GiB"));
    }
}
