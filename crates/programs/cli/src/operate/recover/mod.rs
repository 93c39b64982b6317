//! `synod recover`: a majority is lost for good. Which server continues, what is lost with that,
//! and the order to continue.

mod plan;
mod text;

use std::path::PathBuf;

use clap::Args;
use synod_admin::protocol::{Answer, Request};
use synod_admin::recovery::Recovery;

use super::{ANSWER_LIMIT, EXIT_CODES, MemberAddress, OperateError, PlaceArgs, print, server};
use plan::{Asked, Plan};

/// Arguments of `synod recover`.
#[derive(Debug, Args)]
#[command(after_help = help())]
pub struct RecoverArgs {
    /// Show what the servers have that are left, and which one should continue (the default)
    #[arg(long)]
    plan: bool,
    /// Continue with this server alone, as the only voter
    #[arg(long, conflicts_with = "plan")]
    force: bool,
    /// Do it, whatever is at stake
    #[arg(long, requires = "force")]
    yes: bool,
    /// Log directory of the server [default: that of the only server that runs here]
    ///
    /// The directory with the files synod-*.log: the data directory, unless synod.log_dir names
    /// another one. With --plan, several servers of this machine may be named.
    #[arg(long, value_name = "DIR")]
    dir: Vec<PathBuf>,
    #[command(flatten)]
    member: MemberAddress,
    /// Answer as JSON
    #[arg(long)]
    json: bool,
}

fn help() -> String {
    format!(
        "\
Example: of three servers, two have burnt. On the machine of the third one, whose server runs or
waits at its start:

  synod recover --plan
  synod recover --force --yes

Only if the lost servers surely do not run, and cannot be started any more: what only they had is
lost. If one of them can be started with its disk, start it instead.

{EXIT_CODES}"
    )
}

impl RecoverArgs {
    /// The server of this directory; of none, the member that is named, or the only server here.
    fn place(&self, dir: Option<&PathBuf>) -> PlaceArgs {
        PlaceArgs {
            dir: dir.cloned(),
            member: self.member.clone(),
        }
    }
}

pub fn run(arguments: &RecoverArgs) -> Result<u8, OperateError> {
    if arguments.force {
        return force(arguments);
    }
    let plan = Plan::of(&ask_all(arguments)?).map_err(OperateError::NotLost)?;
    print(arguments.json, &plan, || text::text(&plan))?;
    Ok(0)
}

fn force(arguments: &RecoverArgs) -> Result<u8, OperateError> {
    let dir = match arguments.dir.as_slice() {
        [] => None,
        [one] => Some(one),
        _ => {
            let text = "only one server may continue: name one directory with --force";
            return Err(OperateError::NoServer(text.to_owned()));
        }
    };
    if !arguments.yes {
        let stakes =
            "this server would continue as the only voter, without the majority: what the \
                      others had committed and no server that is left has is lost for ever, and \
                      others that come back with it have to be copied again. 'synod recover \
                      --plan' shows what that is"
                .to_owned();
        return Err(OperateError::NeedsYes { stakes });
    }
    let mut client = server::connect(&arguments.place(dir))?;
    let Answer::Done(done) = client.ask(Request::Recover, ANSWER_LIMIT)? else {
        return Err(client.unexpected().into());
    };
    print(arguments.json, &done, || text::done(&done.text))?;
    Ok(0)
}

/// Answers of the servers of these directories; of the only one that runs, if none is named.
fn ask_all(arguments: &RecoverArgs) -> Result<Vec<Asked>, OperateError> {
    if arguments.dir.is_empty() {
        let recovery = ask_one(&arguments.place(None))?;
        return Ok(vec![Asked {
            dir: None,
            recovery,
        }]);
    }
    let answers = arguments.dir.iter().map(|dir| {
        let recovery = ask_one(&arguments.place(Some(dir)))?;
        let dir = Some(dir.display().to_string());
        Ok(Asked { dir, recovery })
    });
    answers.collect()
}

fn ask_one(place: &PlaceArgs) -> Result<Recovery, OperateError> {
    let mut client = server::connect(place)?;
    match client.ask(Request::RecoveryPlan, ANSWER_LIMIT)? {
        Answer::Recovery(recovery) => Ok(*recovery),
        _ => Err(client.unexpected().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(yes: bool, dirs: &[&str]) -> RecoverArgs {
        RecoverArgs {
            plan: false,
            force: true,
            yes,
            dir: dirs.iter().map(PathBuf::from).collect(),
            member: MemberAddress::default(),
            json: false,
        }
    }

    #[test]
    fn order_is_confirmed_before_a_server_is_asked() {
        let error = run(&order(false, &["/nowhere"])).unwrap_err();
        assert_eq!(error.exit_code(), 4);
        assert!(error.to_string().contains("--yes"), "{error}");
        let error = run(&order(true, &["/nowhere"])).unwrap_err();
        assert_eq!(error.exit_code(), 3, "no server");
    }

    #[test]
    fn order_is_for_one_server() {
        let error = run(&order(true, &["/a", "/b"])).unwrap_err();
        assert!(error.to_string().contains("only one server"), "{error}");
    }
}
