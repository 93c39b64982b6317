//! Attacks by commands from other machines: lines after a client's hello.
//!
//! A stranger with the group's credentials may give orders, as it may join. It must not be able to
//! do more by lines that are no orders, by their length, or by the number of its clients.

use synod_e2e::{Outcome, TestCluster, ensure};
use synod_wire::{HelloReply, RefuseReason};

use crate::attacks::{Attack, insider};
use crate::caller::{Name, address};
use crate::configuration::Credentials;

/// Bytes of a line that no server reads to its end.
const LONG_LINE: usize = 8 << 20;
/// Clients at a time, for each server.
const CLIENTS: usize = 40;

/// All attacks by commands.
pub(crate) fn all() -> Vec<Attack> {
    let attack = |name, run| Attack { name, run };
    vec![
        attack("commands without the group's credentials", without),
        attack("commands: lines that are no commands", no_commands),
        attack("commands: 40 clients that say nothing", silent_clients),
    ]
}

/// In clear, and with another group's credentials.
fn without(cluster: &mut TestCluster, credentials: &Credentials) -> Outcome<String> {
    let mut names = vec![Name::stranger(cluster, 0x5712_A464)];
    if let Credentials::Some { foreign, .. } = credentials {
        let name = Name::stranger(cluster, 0x5712_A464);
        names.push(name.with(foreign));
    }
    let mut refused = 0;
    for name in &names {
        for node in cluster.nodes() {
            match name.call_as_client(address(cluster, node)) {
                Ok((_, HelloReply::Welcome { .. })) => {
                    return ensure(false, || format!("node{node} takes commands"))
                        .map(|()| String::new());
                }
                Ok((_, HelloReply::Refused { reason, text })) => {
                    ensure(reason == RefuseReason::NotAllowed, || {
                        format!("node{node} refuses for another reason: {text}")
                    })?;
                    refused += 1;
                }
                // TLS has ended it.
                Err(_) => refused += 1,
            }
        }
    }
    Ok(format!("{refused} clients refused"))
}

fn no_commands(cluster: &mut TestCluster, credentials: &Credentials) -> Outcome<String> {
    let name = insider(cluster, credentials);
    let long = [
        &b"{\"protocol\":1,\"command\":\""[..],
        &vec![b'x'; LONG_LINE],
    ]
    .concat();
    let nested = [&vec![b'['; 60_000][..], b"\n"].concat();
    let lines: [&[u8]; 8] = [
        b"\n",
        b"\0\xff\xfe\n",
        b"{\"protocol\":1,\"command\":\"drop_database\"}\n",
        b"{\"protocol\":65535,\"command\":\"status\"}\n",
        b"{\"protocol\":1,\"command\":\"remove_member\",\"member\":\"no one\",\"force\":true}\n",
        b"{\"protocol\":1,\"command\":\"set_weight\",\"member\":\"\",\"weight\":255}\n",
        &nested,
        &long,
    ];
    let mut sent = 0;
    for node in cluster.nodes() {
        for line in lines {
            let Ok((mut client, HelloReply::Welcome { .. })) =
                name.call_as_client(address(cluster, node))
            else {
                continue;
            };
            sent += usize::from(client.send_bytes(line));
            client.end();
        }
    }
    Ok(format!("{sent} lines sent whole"))
}

fn silent_clients(cluster: &mut TestCluster, credentials: &Credentials) -> Outcome<String> {
    let name = insider(cluster, credentials);
    let mut clients = Vec::new();
    for node in cluster.nodes() {
        let at = address(cluster, node);
        let called = (0..CLIENTS).filter_map(|_| name.call_as_client(at).ok());
        clients.extend(called.filter(|(_, reply)| matches!(reply, HelloReply::Welcome { .. })));
    }
    Ok(format!("{} clients welcomed", clients.len()))
}
