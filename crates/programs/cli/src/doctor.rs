//! `synod doctor`: what stands between a server and a group.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use synod_doctor::fix::{self, FixError};
use synod_doctor::{Finding, GatherError, Place, Severity, examine, has_server};

use crate::number::number;
use crate::operate::print_line;
use crate::without_database::{self, Examined};

const FIX_FILE: &str = "/etc/mysql/mariadb.conf.d/70-synod-doctor.cnf";

/// The usual file for a server of MySQL.
const MYSQL_FIX_FILE: &str = "/etc/mysql/mysql.conf.d/70-synod-doctor.cnf";

const FILES_OF_MEMBERS: &str = "/etc/synod";

/// Arguments of `synod doctor`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct DoctorArgs {
    /// Machine of the server [default: this one]
    #[arg(long)]
    host: Option<String>,
    /// Port of the server
    #[arg(long, value_parser = number::<u16, 1, 65_535>)]
    port: Option<u16>,
    /// Socket of the server
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
    /// User of the database
    #[arg(long)]
    user: Option<String>,
    /// Option file of the program mariadb, with user and password
    #[arg(long, value_name = "FILE")]
    defaults_file: Option<PathBuf>,
    /// Show what is as it should be, too
    #[arg(long)]
    all: bool,
    /// Answer as JSON, with everything that was looked at
    #[arg(long)]
    json: bool,
    /// Show a configuration file with the settings that should be changed; with --yes, write it
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = FIX_FILE)]
    fix_config: Option<PathBuf>,
    /// Write the file
    #[arg(long, requires = "fix_config")]
    yes: bool,
}

const EXAMPLE: &str = "\
Will Synod work with the server on this machine? As root:

  synod doctor

It changes nothing, and asks the server by the program mariadb, or else mysql, which reads user and
password from its option files. Disk, clock, memory, limits and credentials are looked at on the
server's machine only. On a machine without a server it looks at the logger or relay that /etc/synod
names.

Exit codes:
  0   nothing, or notes only
  1   the server cannot be asked, or a file cannot be written
  2   wrong usage
  10  warnings
  11  problems: a group with this server does not work";

#[derive(Debug, thiserror::Error)]
pub enum DoctorError {
    #[error(transparent)]
    Gather(#[from] GatherError),
    #[error(transparent)]
    Fix(#[from] FixError),
    #[error("cannot write to standard output: {0}")]
    Output(#[from] io::Error),
}

#[derive(Serialize)]
struct Document<'a> {
    server: &'a str,
    version: &'a str,
    findings: &'a [Finding],
}

pub fn run(arguments: &DoctorArgs) -> Result<u8, DoctorError> {
    let place = Place {
        client: client_arguments(arguments),
        is_named: [
            arguments.host.is_some(),
            arguments.port.is_some(),
            arguments.socket.is_some(),
        ]
        .contains(&true),
    };
    if !place.is_named && arguments.fix_config.is_none() && !has_server() {
        let members = without_database::look(Path::new(FILES_OF_MEMBERS));
        if !members.is_empty() {
            return report_members(&members, arguments);
        }
    }
    let (facts, findings) = examine(&place)?;
    if let Some(path) = &arguments.fix_config {
        let path = match facts.server.is_mysql() && path == Path::new(FIX_FILE) {
            true => Path::new(MYSQL_FIX_FILE),
            false => path,
        };
        return fix_config(fix::configuration(&facts.server), path, arguments.yes);
    }
    let text = if arguments.json {
        let document = Document {
            server: facts.server.variable("hostname"),
            version: &facts.server.version,
            findings: &findings,
        };
        serde_json::to_string_pretty(&document).map_err(io::Error::from)?
    } else {
        report(&findings, arguments.all)
    };
    print_line(&text)?;
    Ok(exit_code(&findings))
}

/// Findings about the logger and the relay of a machine without a server.
fn report_members(members: &[Examined], arguments: &DoctorArgs) -> Result<u8, DoctorError> {
    let findings = members.iter().flat_map(|member| member.findings.clone());
    let findings: Vec<Finding> = findings.collect();
    let documents: Vec<Document> = members.iter().map(Document::of_member).collect();
    let text = match arguments.json {
        true => serde_json::to_string_pretty(&documents).map_err(io::Error::from)?,
        false => report(&findings, arguments.all),
    };
    print_line(&text)?;
    Ok(exit_code(&findings))
}

impl Document<'_> {
    fn of_member(member: &Examined) -> Document<'_> {
        Document {
            server: &member.name,
            version: "",
            findings: &member.findings,
        }
    }
}

/// The option file is read instead of all others, so it has to come first.
fn client_arguments(arguments: &DoctorArgs) -> Vec<String> {
    let file = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let named = [
        ("defaults-file", file(&arguments.defaults_file)),
        ("host", arguments.host.clone()),
        ("port", arguments.port.map(|port| port.to_string())),
        ("socket", file(&arguments.socket)),
        ("user", arguments.user.clone()),
    ];
    let given = named
        .into_iter()
        .filter_map(|(name, value)| Some(format!("--{name}={}", value?)));
    given.collect()
}

fn exit_code(findings: &[Finding]) -> u8 {
    let worst = findings.iter().map(|finding| finding.severity).max();
    match worst {
        Some(Severity::Problem) => 11,
        Some(Severity::Warning) => 10,
        _ => 0,
    }
}

fn report(findings: &[Finding], all: bool) -> String {
    let shown = findings
        .iter()
        .filter(|finding| all || finding.severity > Severity::Good);
    let mut lines: Vec<String> = shown.map(paragraph).collect();
    let count = |severity| {
        let of = findings
            .iter()
            .filter(|finding| finding.severity == severity);
        of.count()
    };
    lines.push(format!(
        "{} problems, {} warnings, {} notes; {} as it should be",
        count(Severity::Problem),
        count(Severity::Warning),
        count(Severity::Note),
        count(Severity::Good)
    ));
    lines.join("\n")
}

fn paragraph(finding: &Finding) -> String {
    let word = match finding.severity {
        Severity::Problem => "PROBLEM",
        Severity::Warning => "WARNING",
        Severity::Note => "note",
        Severity::Good => "good",
    };
    let mut text = format!("{word:7}  {}: {}", finding.subject.name(), finding.what);
    for (name, part) in [("why", &finding.why), ("do", &finding.remedy)] {
        if !part.is_empty() {
            // The lines of a part stand below each other, so that they can be copied together.
            let indented = part.replace('\n', "\n             ");
            text.push_str(&format!("\n         {name}: {indented}"));
        }
    }
    text
}

fn fix_config(content: Option<String>, path: &Path, yes: bool) -> Result<u8, DoctorError> {
    let Some(content) = content else {
        print_line("no setting has to be changed")?;
        return Ok(0);
    };
    print_line(&content)?;
    let file = path.display();
    let outcome = if yes {
        fix::write(path, &content)?;
        format!("written to {file}; it takes effect when the server starts again")
    } else {
        format!("not written; repeat the command with --yes to write it to {file}")
    };
    print_line(&outcome)?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_doctor::Subject;

    fn finding(severity: Severity) -> Finding {
        Finding::new(Subject::Disk, severity, "what", "why", "remedy")
    }

    #[test]
    fn exit_code_is_that_of_the_worst_finding() {
        let code = |severities: &[Severity]| {
            let findings: Vec<Finding> = severities.iter().copied().map(finding).collect();
            exit_code(&findings)
        };
        use Severity::{Good, Note, Problem, Warning};
        assert_eq!(code(&[]), 0);
        assert_eq!(code(&[Good, Note]), 0);
        assert_eq!(code(&[Warning, Note]), 10);
        assert_eq!(code(&[Warning, Problem, Good]), 11);
    }

    #[test]
    fn report_leaves_out_what_is_good_unless_all_is_asked_for() {
        let findings = [
            finding(Severity::Warning),
            Finding::good(Subject::Clock, "fine"),
        ];
        let short = report(&findings, false);
        assert_eq!(
            short,
            "WARNING  disk: what\n         why: why\n         do: remedy\n\
             0 problems, 1 warnings, 0 notes; 1 as it should be"
        );
        assert!(report(&findings, true).contains("good     clock: fine"));
    }
}
