//! Context of a run: its command, the versions, and the load of the machine before.

use std::collections::BTreeMap;
use std::fs;

use mysql::prelude::Queryable;

use super::error::Result;
use super::group::Group;

pub(crate) fn command_line() -> String {
    let arguments: Vec<String> = std::env::args().collect();
    let program = arguments.first().and_then(|path| path.rsplit('/').next());
    let mut words = vec![program.unwrap_or("synod").to_owned()];
    words.extend(arguments.into_iter().skip(1));
    words.join(" ")
}

fn cores() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u32::try_from(cores).unwrap_or(1)
}

/// Processes that run or could run, the mean of a minute, per core.
pub(crate) fn load_per_core() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Option<f64> = text.split(' ').next().and_then(|first| first.parse().ok());
    load.unwrap_or_default() / f64::from(cores())
}

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
