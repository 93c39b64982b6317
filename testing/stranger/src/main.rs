//! A stranger: attacks a group of real servers from outside, by its own protocol.
//!
//! ```text
//! make stranger                            all configurations, with `make build` before
//! cargo run -p synod-stranger              the same, with the library that is built
//! cargo run -p synod-stranger -- clear     one configuration: clear, secret, certificates
//! cargo run -p synod-stranger -- clear elsewhere    attacks with this word in their name
//! ```
//!
//! Three servers form a group, clients insert rows without a pause, and one attack follows another
//! ([`attacks`]). After each: every server still runs and is in the primary view, its database is
//! there, the group has committed with no long gap, and the servers' memory has not grown much. A
//! table lists the results. Exit code 1: an attack affected the group.
//!
//! - [`configuration`]: security of the group's connections, and the stranger's credentials.
//! - [`caller`]: one call by the protocol, in any name.
//! - [`messages`]: every kind of message, with plausible and extreme values.
//! - [`attacks`]: the attacks; [`commands`]: attacks by commands.
//! - [`watch`]: measures what attacks must not affect.
#![forbid(unsafe_code)]

mod attacks;
mod caller;
mod commands;
mod configuration;
mod floods;
mod messages;
mod watch;

use std::process::ExitCode;

use synod_e2e::{Failure, Outcome};

use configuration::Configuration;
use watch::{Findings, Watch};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (wanted, word) = (arguments.next(), arguments.next().unwrap_or_default());
    let mut gave_way = 0;
    for configuration in Configuration::ALL {
        if wanted
            .as_deref()
            .is_none_or(|name| name == configuration.name())
        {
            match run(configuration, &word) {
                Ok(failures) => gave_way += failures,
                Err(Failure(why)) => {
                    eprintln!("{}: {why}", configuration.name());
                    gave_way += 1;
                }
            }
        }
    }
    println!("stranger: {gave_way} attacks had an effect");
    if gave_way == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs the attacks with a word in their name on one group; how many had an effect.
fn run(configuration: Configuration, word: &str) -> Outcome<usize> {
    eprintln!("== {}: starting three servers", configuration.name());
    let (mut cluster, credentials) = configuration.start()?;
    let mut watch = Watch::start(&cluster)?;
    let mut findings = Vec::new();
    let attacks = attacks::all(configuration).into_iter();
    for attack in attacks.filter(|attack| attack.name.contains(word)) {
        let begun = watch.begin(&cluster);
        let done = (attack.run)(&mut cluster, &credentials);
        let finding = watch.end(&cluster, attack.name, begun, done);
        eprintln!("  {finding}");
        let is_over = finding.servers_gave_way();
        findings.push(finding);
        if is_over {
            eprintln!("{}", cluster.describe());
            break;
        }
    }
    let findings = Findings::judge(findings, &watch.finish());
    println!("{}\n{findings}", configuration.name());
    Ok(findings.failures())
}
