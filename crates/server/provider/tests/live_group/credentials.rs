//! Start of servers with equal, unequal and missing credentials.

use synod_node::GroupSecret;
use wsrep_sys::*;

use crate::server::*;

fn server(options: &str) -> Server {
    Server::with("n1", &new_dir(), free_port(), UNDEFINED, options)
}

#[test]
fn server_that_any_process_could_speak_to_does_not_start_and_says_what_to_do() {
    let everywhere = format!("gmcast.listen_addr=tcp://0.0.0.0:{}", free_port());
    let set_at_start = server(&everywhere);
    let set_by_address = server("");
    let address = format!("gcomm://?{everywhere}");
    for (server, address) in [(set_at_start, "gcomm://"), (set_by_address, &address)] {
        assert_eq!(server.connect(address, true), WSREP_NODE_FAIL);
        for text in ["without credentials", "synod keygen", "synod.secret_file="] {
            server.inner.wait_logged(text);
        }
    }
}

#[test]
fn insecure_server_starts_and_warns_each_time() {
    let server = server("synod.insecure=yes");
    for starts in 1..=2 {
        assert_eq!(server.connect("gcomm://", true), WSREP_OK);
        let lines = server.inner.log_lines();
        let warnings = lines.iter().filter(|(level, text)| {
            *level == WSREP_LOG_WARN && text.contains("neither encrypted nor authenticated")
        });
        assert_eq!(warnings.count(), starts, "{lines:?}");
        assert_eq!(server.disconnect(), WSREP_OK);
    }
}

/// Options of a server with the secret of this byte.
fn with_secret(byte: u8) -> String {
    let dir = new_dir();
    let path = dir.join("secret");
    std::fs::write(&path, GroupSecret::from_random([byte; 32]).to_line()).unwrap();
    let closed = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&path, closed).unwrap();
    format!("synod.secret_file={}", path.display())
}

#[test]
fn server_with_another_secret_ends_its_start_with_an_error_that_says_so() {
    let home = server(&with_secret(1));
    assert_eq!(home.connect("gcomm://", true), WSREP_OK);
    let impatient = format!("{};pc.wait_prim_timeout=PT3S", with_secret(2));
    let stray = server(&impatient);
    assert_eq!(stray.connect(&home.address(), false), WSREP_NODE_FAIL);
    let lines = stray.inner.log_lines();
    let mut errors = lines.iter().filter(|line| line.0 == WSREP_LOG_ERROR);
    let ended = errors.find(|(_, text)| text.contains("was not reached within"));
    let (_, text) = ended.unwrap_or_else(|| panic!("no such error: {lines:?}"));
    assert!(text.contains("group secret differs"), "{text}");
}

#[test]
fn unusable_secret_is_named_with_its_file_and_line() {
    let dir = new_dir();
    let path = dir.join("secret");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(&path, "# mine\nsynod-secret-v1-0123").unwrap();
    let closed = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&path, closed).unwrap();
    let server = server(&format!("synod.secret_file={}", path.display()));
    assert_eq!(server.connect("gcomm://", true), WSREP_NODE_FAIL);
    let named = format!("line 2 of {} (synod.secret_file)", path.display());
    server.inner.wait_logged(&named);
}
