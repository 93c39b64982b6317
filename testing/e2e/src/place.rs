//! Paths and parameters of the tests. Environment variables change them:
//!
//! - `SYNOD_E2E_BUILD`: the directory in `target` with what is tested, `release` or `quick`
//!   (default; `make demo` builds it);
//! - `SYNOD_E2E_PROVIDER`: another provider library than the `libsynod.so` in it;
//! - `SYNOD_E2E_NEXT_PROVIDER`: the library of the next version (default
//!   `target/next-version/release/libsynod.so`);
//! - `SYNOD_E2E_PLANTED_PROVIDER`: the library that can be made wrong (default
//!   `target/planted/release/libsynod.so`);
//! - `SYNOD_E2E_PROGRAM`: another program than the `synod` in it;
//! - `SYNOD_E2E_LAB`: the program `synod-lab` (default `target/release/synod-lab`);
//! - `SYNOD_E2E_DIR`: where clusters are made (default `target/e2e`, or below `/var/tmp` where
//!   the servers' user could not reach that);
//! - `SYNOD_E2E_KEEP`: if it is set, clusters of ended test programs are not removed when another
//!   one begins;
//! - `SYNOD_E2E_SECONDS`: how long each standard load runs (default 60);
//! - `SYNOD_E2E_ROUNDS`: how often a server fails in each way (default 1);
//! - `SYNOD_E2E_KILL_SECONDS`: for how long processes are killed at random, or their disks lose
//!   their power (default 40);
//! - `SYNOD_E2E_SEED`: which of them when (default: another one each time; it is printed).

use std::path::{Path, PathBuf};
use std::time::Duration;

use synod_local_cluster::ServerUser;

use crate::failure::{Outcome, Why, ensure};

/// The root of the workspace.
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// The provider library under test.
pub fn provider() -> Outcome<PathBuf> {
    from_environment("SYNOD_E2E_PROVIDER", &built("libsynod.so"))
}

/// The provider library with one more version of the wire and of the log, made by
/// `make build-next-version`.
pub fn next_provider() -> Outcome<PathBuf> {
    let default = "target/next-version/release/libsynod.so";
    from_environment("SYNOD_E2E_NEXT_PROVIDER", default)
}

/// The provider library that `SYNOD_PLANTED` makes wrong, made by `make build-planted`.
pub fn planted_provider() -> Outcome<PathBuf> {
    let default = "target/planted/release/libsynod.so";
    from_environment("SYNOD_E2E_PLANTED_PROVIDER", default)
}

/// The program `synod`.
pub fn program() -> Outcome<PathBuf> {
    from_environment("SYNOD_E2E_PROGRAM", &built("synod"))
}

/// The program `synod-lab`, made by `make build-lab`.
pub fn lab() -> Outcome<PathBuf> {
    from_environment("SYNOD_E2E_LAB", "target/release/synod-lab")
}

/// Duration of a standard load.
pub fn load_time() -> Duration {
    Duration::from_secs(number("SYNOD_E2E_SECONDS", 60))
}

/// Number of failures of a server, of each kind.
pub fn rounds() -> u64 {
    number("SYNOD_E2E_ROUNDS", 1)
}

/// For how long processes are killed at random, or their disks lose their power.
pub fn kill_time() -> Duration {
    Duration::from_secs(number("SYNOD_E2E_KILL_SECONDS", 40))
}

/// Seed of random faults; printed, so that it can be set again.
pub fn seed() -> u64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let seed = number("SYNOD_E2E_SEED", u64::from(since.subsec_nanos()));
    println!("SYNOD_E2E_SEED={seed}");
    seed
}

/// The number in a variable of the environment; `default` if there is none.
pub fn number(variable: &str, default: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The directory for the cluster called `name`; its parents exist.
pub fn cluster_dir(name: &str) -> Outcome<PathBuf> {
    let user = ServerUser::find().why("finding the servers' user")?;
    let parent = match std::env::var_os("SYNOD_E2E_DIR") {
        Some(dir) => PathBuf::from(dir),
        None if user.check_reach(&workspace()).is_ok() => workspace().join("target/e2e"),
        None => PathBuf::from("/var/tmp/synod-e2e"),
    };
    std::fs::create_dir_all(&parent).why(format_args!("creating {}", parent.display()))?;
    user.check_reach(&parent).why("the directory for tests")?;
    Ok(parent.join(name))
}

fn built(file: &str) -> String {
    let build = std::env::var("SYNOD_E2E_BUILD").unwrap_or_else(|_| "quick".to_owned());
    format!("target/{build}/{file}")
}

fn from_environment(variable: &str, default: &str) -> Outcome<PathBuf> {
    let path = std::env::var_os(variable).map_or_else(|| workspace().join(default), PathBuf::from);
    ensure(path.is_file(), || {
        format!(
            "{} is missing: run 'make quick', or set {variable}",
            path.display()
        )
    })?;
    Ok(path)
}
