//! The file format: comments, commands at the start of a line, and the output of each indented
//! below it.

use std::fmt::Write;

use super::command::Command;
use super::world::World;

/// Two spaces before every line of output.
const INDENT: &str = "  ";
/// Lines of what happened before a problem.
const CONTEXT_LINES: usize = 12;

pub struct Script {
    name: String,
    steps: Vec<Step>,
    /// Comments after the last command.
    end: Vec<String>,
}

struct Step {
    /// Comments and empty lines before the command.
    before: Vec<String>,
    line: usize,
    text: String,
    recorded: Vec<String>,
}

impl Script {
    pub fn parse(name: &str, text: &str) -> Result<Script, String> {
        if !text.starts_with('#') {
            return Err(format!(
                "{name}:1: a script starts with a comment: what it shows, and its source"
            ));
        }
        let (mut steps, mut before) = (Vec::<Step>::new(), Vec::new());
        for (line, text) in (1..).zip(text.lines()) {
            if text.trim().is_empty() || text.starts_with('#') {
                before.push(text.to_owned());
            } else if let Some(output) = text.strip_prefix(INDENT) {
                match steps.last_mut().filter(|_| before.is_empty()) {
                    Some(step) => step.recorded.push(output.to_owned()),
                    None => return Err(format!("{name}:{line}: output without a command")),
                }
            } else {
                steps.push(Step {
                    before: std::mem::take(&mut before),
                    line,
                    text: text.to_owned(),
                    recorded: Vec::new(),
                });
            }
        }
        let name = name.to_owned();
        Ok(Script {
            name,
            steps,
            end: before,
        })
    }

    /// Runs it; an error if it cannot be run or anything else than what is recorded happens.
    pub fn check(&self) -> Result<(), String> {
        self.run(|step, output| {
            if output == step.recorded {
                return Ok(());
            }
            let indented = |lines: &[String]| lines.join("\n    ");
            Err(format!(
                "'{}' gave\n    {}\nrecorded is\n    {}\n(SYNOD_WRITE_SCRIPTS=1 records it again)",
                step.text,
                indented(&output),
                indented(&step.recorded)
            ))
        })
    }

    fn run(
        &self,
        mut each: impl FnMut(&Step, Vec<String>) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut world = World::new();
        let mut happened = Vec::new();
        for step in &self.steps {
            let place = Place {
                name: &self.name,
                step,
            };
            let result = Command::parse(&step.text).and_then(|command| world.perform(command));
            let output = world.take_output();
            happened.push(step.text.clone());
            happened.extend(output.iter().map(|line| format!("{INDENT}{line}")));
            let result = result.and_then(|()| each(step, output));
            result.map_err(|problem| {
                let before = happened.split_off(happened.len().saturating_sub(CONTEXT_LINES));
                let before = before.join("\n    ");
                format!(
                    "{}:{}: {problem}\n    ...\n    {before}",
                    self.name, step.line
                )
            })?;
            drop(place);
        }
        Ok(())
    }
}

/// The script with the output of this run. What it asserts has to hold all the same.
pub fn rewrite(name: &str, text: &str) -> Result<String, String> {
    let script = Script::parse(name, text)?;
    let mut new = String::new();
    let mut line = |text: &str| writeln!(new, "{text}").expect("memory");
    script.run(|step, output| {
        step.before.iter().for_each(|text| line(text));
        line(&step.text);
        output
            .iter()
            .for_each(|text| line(&format!("{INDENT}{text}")));
        Ok(())
    })?;
    script.end.iter().for_each(|text| line(text));
    Ok(new)
}

/// Says which command broke a rule of the harness, or an assertion of the core.
struct Place<'a> {
    name: &'a str,
    step: &'a Step,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}:{}: in '{}'", self.name, self.step.line, self.step.text);
        }
    }
}
