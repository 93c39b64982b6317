//! Commands for the servers of a group. Each asks the running server of one log directory, over the
//! socket in it, or a member on another machine, over the connections of its group (`synod-admin`).
//! Answers go to standard output: a table for people, or with `--json` a document.
//!
//! Commands that can cost data or availability want `--yes`. Times are in UTC, so that all servers'
//! logs can be compared by them.

mod conflicts;
mod member_address;
mod orders;
mod protocol;
mod recover;
mod server;
mod status;
mod upstream;
mod utc;
mod watch;
mod why;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use synod_admin::protocol::{Answer, Reason, Request};
use synod_admin::{ClientError, Place, RemoteError, visible};
use synod_wire::RefuseReason;
use thiserror::Error;

pub use member_address::MemberAddress;
pub use orders::{LeaderArgs, MemberArgs, WeightArgs, leader, member, weight};
pub use protocol::{ProtocolArgs, run as protocol};
pub use recover::{RecoverArgs, run as recover};
pub(crate) use server::Finder;
pub use status::{StatusArgs, run as status};
pub(crate) use upstream::{UpstreamCommand, run as upstream};
pub use watch::{WatchArgs, run as watch};
pub use why::{WhyArgs, run as why};

pub use conflicts::{ConflictsArgs, run as conflicts};

const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Arguments that name the server to ask.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
pub struct PlaceArgs {
    /// Log directory of the server [default: that of the only server that runs here]
    ///
    /// The directory with the files synod-*.log: the data directory, unless synod.log_dir names
    /// another one.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    member: MemberAddress,
}

/// Arguments that name the server to ask, and the form of its answer.
#[derive(Debug, Args)]
pub struct ServerArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Answer as JSON
    #[arg(long)]
    json: bool,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed, see the message
  2  wrong usage
  3  no running server was found, or it cannot be told which is meant
  4  refused: by the server, or because --yes is missing
  5  this user may not give orders to the server, or its credentials are not the group's; or it is
     a process of another user that listens in the place of a server";

#[derive(Debug, Error)]
pub enum OperateError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("{0}")]
    NoServer(String),
    /// The order is dangerous.
    #[error("{stakes}. If that is what you want, repeat the command with --yes")]
    NeedsYes {
        /// The danger, in a sentence.
        stakes: String,
    },
    /// `synod recover` in a group that is not lost.
    #[error("{0}")]
    NotLost(String),
    #[error("cannot write to standard output: {0}")]
    Output(#[from] io::Error),
}

impl OperateError {
    pub fn exit_code(&self) -> u8 {
        match self {
            OperateError::Client(error) => match error {
                ClientError::NoSocket { .. } | ClientError::NotRunning { .. } => 3,
                ClientError::NotAllowed { .. } | ClientError::Foreign { .. } => 5,
                ClientError::Refused(refusal) => match refusal.reason {
                    Reason::Busy | Reason::NotUnderstood | Reason::Unknown => 1,
                    _ => 4,
                },
                ClientError::Remote(error) => remote_exit_code(error),
                ClientError::NoCommonVersion { .. }
                | ClientError::NoAnswer { .. }
                | ClientError::Unexpected { .. } => 1,
            },
            OperateError::NoServer(_) => 3,
            OperateError::NeedsYes { .. } | OperateError::NotLost(_) => 4,
            OperateError::Output(_) => 1,
        }
    }
}

fn remote_exit_code(error: &RemoteError) -> u8 {
    match error {
        RemoteError::NotReached { .. } => 3,
        RemoteError::NotProven { .. } | RemoteError::InClear { .. } => 5,
        RemoteError::Refused { reason, .. } => match reason {
            RefuseReason::NotAllowed => 5,
            RefuseReason::Busy => 1,
            _ => 4,
        },
        RemoteError::Credentials(_) | RemoteError::NoAnswer { .. } => 1,
    }
}

fn ask(arguments: &ServerArgs, request: Request) -> Result<Answer, OperateError> {
    let mut client = server::connect(&arguments.place)?;
    Ok(client.ask(request, ANSWER_LIMIT)?)
}

/// The error for an answer of another kind than the request's.
fn unexpected(arguments: &ServerArgs) -> OperateError {
    let place = &arguments.place;
    let place = match place.member.remote() {
        Some(member) => Place::Address(member.address),
        None => Place::Dir(place.dir.clone().unwrap_or_default()),
    };
    ClientError::Unexpected { place }.into()
}

fn print(json: bool, document: &impl Serialize, text: impl FnOnce() -> String) -> io::Result<()> {
    let text = match json {
        true => serde_json::to_string_pretty(document)?,
        false => text(),
    };
    print_line(&text)
}

/// Prints a line, as far as a terminal only shows it; a reader that has enough is no error.
pub(crate) fn print_line(text: &str) -> io::Result<()> {
    match writeln!(io::stdout().lock(), "{}", visible(text)) {
        // The reader has closed the pipe ('synod why | head').
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
