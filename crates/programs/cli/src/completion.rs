//! `synod completion`: a script that completes the commands of `synod` in a shell.

use std::io::{self, Write};

use clap::{Args, Command};
use clap_complete::{Shell, generate};

/// Arguments of `synod completion`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

const EXAMPLE: &str = "\
Example, for all users of bash:

  synod completion bash > /usr/share/bash-completion/completions/synod

Exit codes:
  0  done
  1  the script cannot be written
  2  wrong usage";

pub fn run(arguments: &CompletionArgs, mut commands: Command) -> io::Result<u8> {
    let mut script = Vec::new();
    generate(arguments.shell, &mut commands, "synod", &mut script);
    match io::stdout().lock().write_all(&script) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(0),
    }
}
