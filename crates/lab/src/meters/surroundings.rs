//! What a reader needs to judge a run: when, by what, where.

use std::collections::BTreeMap;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use mysql::prelude::Queryable;

use super::error::Result;
use super::group::{Group, Server};
use crate::results::Machine;

/// The command that this process was started by.
pub(super) fn command_line() -> String {
    let arguments: Vec<String> = std::env::args().collect();
    let program = arguments.first().and_then(|path| path.rsplit('/').next());
    let mut words = vec![program.unwrap_or("synod").to_owned()];
    let mut is_secret = false;
    for argument in arguments.iter().skip(1) {
        let shown = if is_secret { "..." } else { argument };
        is_secret = argument == "--password";
        words.push(match argument.split_once('=') {
            Some(("--password", _)) => "--password=...".to_owned(),
            _ => shown.to_owned(),
        });
    }
    words.join(" ")
}

/// Now, UTC, as `2026-11-22T23:45:00Z`.
pub(super) fn utc_now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    utc(since.map_or(0, |since| since.as_secs()))
}

/// Seconds since 1970 as a date. The calendar repeats every 400 years, which begin on 1 March.
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * day + 2) / 153;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    format!(
        "{:04}-{month:02}-{:02}T{:02}:{:02}:{:02}Z",
        era * 400 + year + u64::from(month <= 2),
        day - (153 * from_march + 2) / 5 + 1,
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// This machine.
pub(super) fn machine() -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let after = |text: &str, field: &str| {
        let line = text.lines().find(|line| line.starts_with(field));
        let value = line.and_then(|line| line.split_once(':'));
        value.map_or(String::new(), |(_, value)| value.trim().to_owned())
    };
    let memory = after(&read("/proc/meminfo"), "MemTotal");
    let kib = memory
        .split(' ')
        .next()
        .and_then(|text| text.parse::<u64>().ok());
    let kernel = read("/proc/sys/kernel/ostype") + " " + &read("/proc/sys/kernel/osrelease");
    Machine {
        processor: after(&read("/proc/cpuinfo"), "model name"),
        cores: cores(),
        memory_bytes: kib.unwrap_or_default() * 1024,
        kernel: kernel.split_whitespace().collect::<Vec<_>>().join(" "),
        fsync_us: 0,
    }
}

fn cores() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u32::try_from(cores).unwrap_or(1)
}

/// Processes that run or could run, the mean of a minute, per core.
pub(super) fn load_per_core() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Option<f64> = text.split(' ').next().and_then(|first| first.parse().ok());
    load.unwrap_or_default() / f64::from(cores())
}

/// The system that a server replicates by: `synod`, `galera`, or the name of its library.
///
/// # Errors
/// When the server does not answer.
pub(super) fn system(server: &Server) -> Result<String> {
    let read = "SELECT @@wsrep_provider";
    let path = server.connect()?.query_first(read);
    let path: Option<String> = path.map_err(|source| server.refused(read, source))?;
    let path = path.unwrap_or_default();
    let known = ["synod", "galera"]
        .into_iter()
        .find(|name| path.contains(name));
    let file = path.rsplit('/').next().unwrap_or_default();
    Ok(known.unwrap_or(file).to_owned())
}

/// Versions of the server and its library.
///
/// # Errors
/// When the first server does not answer.
pub(super) fn versions(group: &Group) -> Result<BTreeMap<String, String>> {
    let server = &group.servers[0];
    let read = "SELECT @@version";
    let version = server.connect()?.query_first(read);
    let version: Option<String> = version.map_err(|source| server.refused(read, source))?;
    let mut versions = BTreeMap::from([("mariadbd".to_owned(), version.unwrap_or_default())]);
    if let Some(library) = server.status()?.get("wsrep_provider_version") {
        versions.insert(group.system.clone(), library.clone());
    }
    Ok(versions)
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn dates_have_known_values() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_795_391_100), "2026-11-22T23:45:00Z");
    }
}
