//! The configuration file of a node.
//!
//! Only this file is read by the server (`--defaults-file`), so nothing of the system's own
//! MariaDB is read. It is written again at every start.

use std::path::Path;

use crate::files::{NodeFiles, SstFiles};
use crate::ports::Ports;
use crate::settings::{NodeOverrides, Settings, SstMethod};

/// User that `mariadb-backup` connects to the donor as.
pub(crate) const SST_USER: &str = "synod_sst";

/// The text of the configuration of node `node`. `provider` is the library to load, which may
/// be a copy of the one in `settings`.
pub(crate) fn render(settings: &Settings, node: u8, provider: &Path) -> String {
    let none = NodeOverrides::default();
    let own = settings.overrides.get(&node).unwrap_or(&none);
    let mut text = server_part(settings, node);
    if settings.is_group() {
        text.push_str(&group_part(settings, node, provider, own));
    }
    for line in &own.extra_lines {
        text.push_str(line);
        text.push('\n');
    }
    if settings.encrypts_copies && settings.sst_method == SstMethod::Mariabackup {
        text.push('\n');
        text.push_str(&SstFiles::of(&settings.dir).section());
    }
    text
}

fn server_part(settings: &Settings, node: u8) -> String {
    let files = NodeFiles::of(&settings.dir, node);
    let ports = Ports::of(settings.base_port, node);
    format!(
        "# Generated at every start of the node; changes made here are lost.
[mariadbd]
datadir = {data}
socket = {socket}
pid_file = {pid}
tmpdir = {tmp}
log_error = {log}
secure_file_priv = {tmp}
bind_address = {address}
port = {sql}
skip_name_resolve = ON
performance_schema = OFF
innodb_buffer_pool_size = 128M
binlog_format = ROW
default_storage_engine = InnoDB
innodb_autoinc_lock_mode = 2
",
        data = files.data.display(),
        socket = files.socket.display(),
        pid = files.pid_file.display(),
        tmp = files.tmp.display(),
        log = files.error_log.display(),
        address = settings.address(node),
        sql = ports.sql,
    )
}

fn group_part(settings: &Settings, node: u8, provider: &Path, own: &NodeOverrides) -> String {
    let ports = Ports::of(settings.base_port, node);
    let cluster_address = own
        .cluster_address
        .clone()
        .unwrap_or_else(|| cluster_address(settings));
    format!(
        "
# Durability is the group's log, on a majority of the disks; InnoDB may lag behind it.
innodb_flush_log_at_trx_commit = 0
skip_log_bin
innodb_snapshot_isolation = ON
# The server sometimes misses a transaction that blocks an applier: this bounds the time of that.
innodb_lock_wait_timeout = 10

wsrep_on = ON
wsrep_provider = {provider}
wsrep_provider_options = \"{options}\"
wsrep_cluster_name = {cluster}
wsrep_cluster_address = \"{cluster_address}\"
wsrep_node_name = node{node}
wsrep_node_address = {address}:{group}
wsrep_node_incoming_address = {address}:{sql}
wsrep_slave_threads = 4
wsrep_sst_method = {method}
wsrep_sst_receive_address = {address}:{sst}
wsrep_sst_auth = {SST_USER}:{password}
",
        address = settings.address(node),
        sql = ports.sql,
        group = ports.group,
        sst = ports.sst,
        provider = provider.display(),
        options = provider_options(settings, node, own),
        cluster = settings.cluster_name,
        method = settings.sst_method.name(),
        password = settings.sst_password,
    )
}

/// `synod://127.0.0.1:p1,127.0.0.1:p2,…`, the same on every node.
fn cluster_address(settings: &Settings) -> String {
    let scheme = if settings.is_galera() {
        "gcomm"
    } else {
        "synod"
    };
    let hosts: Vec<String> = (1..=settings.nodes)
        .map(|node| {
            let port = Ports::of(settings.base_port, node).group;
            format!("{}:{port}", settings.address(node))
        })
        .collect();
    format!("{scheme}://{}", hosts.join(","))
}

fn provider_options(settings: &Settings, node: u8, own: &NodeOverrides) -> String {
    let ports = Ports::of(settings.base_port, node);
    let mut options = format!(
        "base_port={group};gmcast.listen_addr=tcp://{address}:{group};\
         ist.recv_addr=tcp://{address}:{ist}",
        address = settings.address(node),
        group = ports.group,
        ist = ports.ist
    );
    if settings.group_secret.is_some() {
        let files = NodeFiles::of(&settings.dir, node);
        let secret = files.secret.display();
        options.push_str(&format!(";synod.secret_file={secret}"));
    }
    let own = own.provider_options.as_deref().unwrap_or("");
    for more in [settings.provider_options.as_str(), own] {
        if !more.is_empty() {
            options.push(';');
            options.push_str(more);
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{NodeHost, Replication};

    fn settings() -> Settings {
        Settings::new("/data/demo".into(), "/lib/libsynod.so".into()).unwrap()
    }

    #[test]
    fn every_path_lies_in_the_clusters_directory() {
        let text = render(&settings(), 2, Path::new("/data/demo/libsynod.so"));
        for line in text.lines().filter(|line| line.contains("= /")) {
            assert!(line.contains("= /data/demo/"), "{line}");
        }
    }

    #[test]
    fn address_lists_all_group_ports() {
        let text = render(&settings(), 1, Path::new("/lib/libsynod.so"));
        let address = "synod://127.0.0.1:13407,127.0.0.1:13408,127.0.0.1:13409";
        assert!(text.contains(address), "{text}");
    }

    #[test]
    fn members_with_a_secret_are_told_where_it_is() {
        let mut settings = settings();
        let render = |settings: &Settings| render(settings, 2, Path::new("/lib/libsynod.so"));
        assert!(!render(&settings).contains("synod.secret_file"));
        settings.group_secret = Some("synod-secret-v1-...".to_owned());
        let text = render(&settings);
        assert!(text.contains(";synod.secret_file=/data/demo/node2/synod.secret\""));
        assert!(!text.contains("synod-secret-v1"), "{text}");
    }

    #[test]
    fn copies_are_encrypted_where_the_method_can() {
        let mut settings = settings();
        settings.encrypts_copies = true;
        let render = |settings: &Settings| render(settings, 2, Path::new("/lib/libsynod.so"));
        assert!(!render(&settings).contains("[sst]"));
        settings.sst_method = SstMethod::Mariabackup;
        assert!(render(&settings).contains("ssl-key = /data/demo/sst/synod-sst.key\n"));
    }

    #[test]
    fn members_on_hosts_of_their_own_know_each_other_by_address() {
        let mut settings = settings();
        for node in 1..=3 {
            let host = NodeHost {
                address: [10, 77, 0, node].into(),
                enter: Vec::new(),
            };
            settings.hosts.insert(node, host);
        }
        let text = render(&settings, 2, Path::new("/lib/libsynod.so"));
        assert!(!text.contains("127.0.0.1"), "{text}");
        let address = "synod://10.77.0.1:13407,10.77.0.2:13408,10.77.0.3:13409";
        assert!(text.contains(address), "{text}");
        assert!(text.contains("bind_address = 10.77.0.2\n"), "{text}");
    }

    #[test]
    fn servers_of_their_own_have_no_provider() {
        let mut settings = settings();
        settings.replication = Replication::Own;
        let text = render(&settings, 2, Path::new("/lib/libsynod.so"));
        assert!(
            !text.contains("wsrep") && !text.contains("skip_log_bin"),
            "{text}"
        );
    }

    #[test]
    fn overrides_reach_only_their_node() {
        let mut settings = settings();
        let own = settings.overrides.entry(2).or_default();
        own.provider_options = Some("synod.nonsense=1".into());
        own.cluster_address = Some("synod://nowhere".into());
        own.extra_lines.push("max_connections = 7".into());
        let [one, two] = [1, 2].map(|n| render(&settings, n, Path::new("/lib/libsynod.so")));
        for text in [
            "synod.nonsense=1",
            "synod://nowhere\"",
            "max_connections = 7",
        ] {
            assert!(two.contains(text) && !one.contains(text), "{text}");
        }
    }
}
