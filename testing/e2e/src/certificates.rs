//! Certificates made by the commands of the manual (`docs/operating/tls.md`).

use std::fs;
use std::path::Path;
use std::process::Command;

use synod_local_cluster::ServerUser;

use crate::failure::{Outcome, Why, ensure};
use crate::place;
use crate::programs::output_of;

/// Makes an authority (`ca.pem`, `ca.key`) in this directory, with certificates and keys for
/// `node1` to `node3`, over those that are there.
pub fn make(dir: &Path) -> Outcome {
    fs::create_dir_all(dir).why(dir.display())?;
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", &documented_commands()?]);
    output_of(shell.current_dir(dir), "the manual's commands").map(|_| ())
}

/// Makes them as [`make`] does; the options of a server that offers encryption with those of
/// `node1`, which its user may read.
///
/// # Errors
/// As [`make`], or when the user cannot be found or given the files.
pub fn server_options(dir: &Path) -> Outcome<[String; 2]> {
    make(dir)?;
    let (certificate, key) = (dir.join("node1.pem"), dir.join("node1.key"));
    let user = ServerUser::find().why("the user")?;
    for given in [dir, &key] {
        user.give(given).why("the certificates")?;
    }
    Ok([
        format!("--ssl-cert={}", certificate.display()),
        format!("--ssl-key={}", key.display()),
    ])
}

/// Makes a certificate of the authority in this directory, which has expired a second later:
/// `NAME.pem`, `NAME.key`.
///
/// # Errors
/// When `openssl` fails.
pub fn make_expired(dir: &Path, name: &str) -> Outcome {
    let script = format!(
        "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN={name}' \
             -keyout {name}.key -out {name}.csr
         openssl x509 -req -days 0 -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial \
             -out {name}.pem
         chmod 600 {name}.key"
    );
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", &script]).current_dir(dir);
    output_of(&mut shell, "making an expired certificate").map(|_| ())
}

fn documented_commands() -> Outcome<String> {
    let manual = place::workspace().join("docs/operating/tls.md");
    let text = fs::read_to_string(&manual).why(manual.display())?;
    let section = text.split("## TLS").nth(1).unwrap_or_default();
    let block = section.split("```sh\n").nth(1).unwrap_or_default();
    let commands = block.split("```").next().unwrap_or_default();
    ensure(commands.contains("openssl"), || {
        "the manual has no commands for certificates".to_owned()
    })?;
    Ok(commands.to_owned())
}
