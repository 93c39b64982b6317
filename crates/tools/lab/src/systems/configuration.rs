//! Configuration of the servers of each system.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use synod_local_cluster::{
    ClusterError, NodeHost, NodeOverrides, Replication, ServerUser, Settings, find_program,
};

use super::kind::{MeasuredSystem, SystemKind};
use super::{Setup, mysql, node};
use crate::error::{IoContext, Result};
use crate::hosts::Host;
use crate::tools;

/// Settings of every server of every system. The data of the loads fit into memory, the redo log
/// does not run full, and no client waits for a thread.
const EVERYWHERE: [&str; 5] = [
    "innodb_buffer_pool_size = 512M",
    "innodb_log_file_size = 192M",
    "max_connections = 1000",
    "thread_cache_size = 300",
    "innodb_stats_persistent = OFF",
];

/// A primary and its replicas, any of which may become the primary: each logs what it applies, and
/// syncs.
const REPLICATED: [&str; 8] = [
    "innodb_flush_log_at_trx_commit = 1",
    "log_bin = binlog",
    "sync_binlog = 1",
    "log_slave_updates = ON",
    "gtid_strict_mode = ON",
    "slave_parallel_threads = 4",
    "slave_parallel_mode = optimistic",
    "expire_logs_days = 1",
];

/// A transaction is stored by a replica before others see it. The time is long, so that no
/// transaction is acknowledged without. The primary's part is switched on when its replicas are
/// connected (`replicas`): before that, the first statement would wait for them.
const SEMI_SYNC: [&str; 3] = [
    "rpl_semi_sync_master_wait_point = AFTER_SYNC",
    "rpl_semi_sync_master_timeout = 60000",
    "rpl_semi_sync_slave_enabled = ON",
];

pub(super) fn settings(system: MeasuredSystem, setup: &Setup, hosts: &[Host]) -> Result<Settings> {
    let MeasuredSystem {
        kind, encrypted, ..
    } = system;
    let dir = setup.data.join(system.to_string());
    let mut settings = Settings::new(dir, library(kind, setup).to_owned())?;
    settings.cluster_name = "lab".into();
    settings.base_port = setup.base_port;
    settings.nodes = u8::try_from(hosts.len()).unwrap_or(u8::MAX);
    settings.die_with_parent = true;
    if !kind.is_group() {
        settings.replication = Replication::Own;
    }
    let certificate = if encrypted && kind != SystemKind::Synod {
        Some(Certificate::make(&setup.data)?)
    } else {
        None
    };
    settings.provider_options = provider_options(kind, encrypted, certificate.as_ref());
    if kind == SystemKind::Synod && encrypted {
        let secret = fs::read_to_string(group_secret(setup)?).context("read", "the secret")?;
        settings.group_secret = Some(secret.trim().to_owned());
    }
    for (server, host) in hosts.iter().enumerate() {
        let place = NodeHost {
            address: IpAddr::V4(host.address),
            enter: host.enter(),
        };
        settings.hosts.insert(node(server), place);
        let mut own = overrides(kind, server, certificate.as_ref());
        own.extra_lines.extend(setup.extra_lines.iter().cloned());
        settings.overrides.insert(node(server), own);
    }
    Ok(settings)
}

fn library(kind: SystemKind, setup: &Setup) -> &Path {
    match kind {
        SystemKind::Galera { .. } => &setup.galera,
        _ => &setup.synod,
    }
}

/// Options of all members of a group.
fn provider_options(
    kind: SystemKind,
    encrypted: bool,
    certificate: Option<&Certificate>,
) -> String {
    match (kind, certificate) {
        (SystemKind::Synod, _) => {
            // The hosts have addresses that are no loopback ones, so clear must be asked for.
            let insecure = if encrypted { "no" } else { "yes" };
            format!("synod.leader_handover=yes;synod.insecure={insecure}")
        }
        (SystemKind::Galera { .. }, Some(certificate)) => {
            let (certificate, key) = (&certificate.certificate, &certificate.key);
            format!(
                "socket.ssl_cert={certificate};socket.ssl_key={key};socket.ssl_ca={certificate}"
            )
        }
        _ => String::new(),
    }
}

/// Settings that differ between systems and servers.
fn overrides(kind: SystemKind, server: usize, certificate: Option<&Certificate>) -> NodeOverrides {
    let mut own = NodeOverrides::default();
    let mut add = |lines: &[&str]| {
        own.extra_lines
            .extend(lines.iter().map(|l| (*l).to_owned()))
    };
    add(&EVERYWHERE);
    match kind {
        SystemKind::Synod => {
            let weight = if server == 0 { 100 } else { 50 };
            own.provider_options = Some(format!("synod.leader_weight={weight}"));
        }
        SystemKind::Galera { flush } => {
            add(&[&format!("innodb_flush_log_at_trx_commit = {flush}")]);
        }
        SystemKind::SemiSync | SystemKind::Async => {
            add(&REPLICATED);
            add(&[&format!("server_id = {}", server + 1)]);
            if kind == SystemKind::SemiSync {
                add(&SEMI_SYNC);
            }
            if server > 0 {
                add(&["read_only = ON"]); // for accounts without SUPER
            }
            if let Some(certificate) = certificate {
                add(&[
                    &format!("ssl_cert = {}", certificate.certificate),
                    &format!("ssl_key = {}", certificate.key),
                ]);
            }
        }
        SystemKind::Standalone => add(&["innodb_flush_log_at_trx_commit = 1", "skip_log_bin"]),
        SystemKind::SynodMysql | SystemKind::Mgr(_) | SystemKind::MysqlSemiSync => {}
    }
    own
}

/// The file with the secret of a group, made once.
pub(super) fn group_secret(setup: &Setup) -> Result<PathBuf> {
    let file = setup.data.join("group.secret");
    if !file.exists() {
        let secret = tools::output_of(Command::new(setup.synod_program()).arg("keygen"))?;
        fs::write(&file, secret).context("write", &file)?;
        let only_its_owner = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&file, only_its_owner).context("protect", &file)?;
        ServerUser::find()?.give(&file)?;
    }
    Ok(file)
}

/// A certificate for the connections of systems that know no group secret.
struct Certificate {
    certificate: String,
    key: String,
}

impl Certificate {
    fn make(dir: &Path) -> Result<Certificate> {
        let openssl = find_program("openssl", "openssl")?;
        let (certificate, key) = (dir.join("lab.pem"), dir.join("lab.key"));
        if !key.exists() {
            let mut command = Command::new(openssl);
            command.args([
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30",
            ]);
            command
                .args(["-subj", "/CN=synod-lab", "-keyout"])
                .arg(&key);
            tools::output_of(command.arg("-out").arg(&certificate))?;
            let user = ServerUser::find()?;
            user.give(&key)?;
            user.give(&certificate)?;
        }
        Ok(Certificate {
            certificate: certificate.display().to_string(),
            key: key.display().to_string(),
        })
    }
}

pub fn check(kind: SystemKind, setup: &Setup) -> Result<()> {
    if kind.is_mysql() {
        return mysql::check(kind, setup);
    }
    find_program("mariadbd", "mariadb-server")?;
    let next = setup.next_synod.as_deref();
    let mut libraries = std::iter::once(library(kind, setup)).chain(next);
    match libraries.find(|path| kind.is_group() && !path.is_file()) {
        Some(path) => Err(ClusterError::ProviderMissing {
            path: path.to_owned(),
        }
        .into()),
        None => Ok(()),
    }
}
