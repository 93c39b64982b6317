//! The drills of the manual (`docs/operating/membership.md`, `migration*.md`), as tests read them.
//!
//! A drill is a section `## Drill: TITLE`. What an operator types is in its indented blocks, with
//! the prompt of root on the machine of that name, or on several, one after the other. The lines
//! below a command, up to the next one or the end of the block, are what it shows in the end on
//! each:
//!
//! ```text
//!     db1,db2# synod member list
//!     db3 ... absent
//! ```
//!
//! Each of these lines stands for a line of the output that has its words in this order; `...`
//! stands for any words, and is there for the reader.
//!
//! A drill may say `All steps are those of [OTHER](...), but`. It then has the numbered steps of
//! that drill, and its own in the place of those with the same numbers.

use std::fs;

use crate::failure::{Outcome, Why, ensure};
use crate::place;

/// A page of `docs/operating` with drills.
#[derive(Clone, Copy, Debug)]
pub struct Page(pub &'static str);

const HEADING: &str = "## Drill: ";
/// Text before the title of another drill of the page, whose steps a drill has.
const REPEATED: &str = "All steps are those of [";
/// Blocks of commands are indented by this or more.
const INDENT: &str = "    ";

/// A command of a drill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Machine to type at: `db1`, `witness`.
    pub machine: String,
    pub command: String,
    /// Expected output in the end, line by line.
    pub shows: Vec<String>,
}

impl Step {
    /// The first line that the output lacks.
    pub fn missing_in(&self, output: &str) -> Option<&str> {
        let shown = |line: &&String| !output.lines().any(|found| has_words(found, line));
        self.shows.iter().find(shown).map(String::as_str)
    }
}

/// Whether the line has these words in this order.
fn has_words(line: &str, words: &str) -> bool {
    let mut found = line.split_whitespace();
    let mut wanted = words.split_whitespace().filter(|word| *word != "...");
    wanted.all(|word| found.any(|other| other == word))
}

impl Page {
    /// The titles of all its drills.
    pub fn titles(self) -> Outcome<Vec<String>> {
        let page = self.read()?;
        let titles = page.lines().filter_map(|line| line.strip_prefix(HEADING));
        Ok(titles.map(str::to_owned).collect())
    }

    /// The commands of a drill.
    ///
    /// # Errors
    /// When the page has no such drill, or no command in it.
    pub fn steps(self, title: &str) -> Outcome<Vec<Step>> {
        let steps = steps_in(&self.read()?, title);
        ensure(!steps.is_empty(), || {
            format!("{} has no drill '{title}' with commands", self.0)
        })?;
        Ok(steps)
    }

    /// The file that an indented block of the page shows; the block begins with this line.
    pub fn file(self, first_line: &str) -> Outcome<String> {
        let page = self.read()?;
        let block = page
            .lines()
            .skip_while(|line| line.trim() != first_line || !line.starts_with(INDENT));
        let lines: Vec<&str> = block
            .take_while(|line| line.starts_with(INDENT))
            .map(str::trim)
            .collect();
        ensure(!lines.is_empty(), || {
            format!("{} shows no file that begins with '{first_line}'", self.0)
        })?;
        Ok(lines.join("\n") + "\n")
    }

    /// Each block of the page that is marked as a shell's, in their order.
    pub fn shell_blocks(self) -> Outcome<Vec<String>> {
        let page = self.read()?;
        let blocks = page.split("```sh\n").skip(1);
        let block = |rest: &str| rest.split("```").next().unwrap_or_default().to_owned();
        Ok(blocks.map(block).collect())
    }

    fn read(self) -> Outcome<String> {
        let path = place::workspace().join("docs/operating").join(self.0);
        fs::read_to_string(path).why(self.0)
    }
}

fn steps_in(page: &str, title: &str) -> Vec<Step> {
    let mut steps = numbered_steps(page, title);
    if let Some(other) = drill_that_is_repeated(page, title) {
        let mut repeated = numbered_steps(page, &other);
        repeated.retain(|(number, _)| steps.iter().all(|(own, _)| own != number));
        steps.extend(repeated);
        steps.sort_by_key(|(number, _)| *number);
    }
    steps.into_iter().map(|(_, step)| step).collect()
}

/// The title of the drill whose steps this one has, except those that it gives itself.
fn drill_that_is_repeated(page: &str, title: &str) -> Option<String> {
    let text = section(page, title).collect::<Vec<_>>().join(" ");
    let (_, link) = text.split_once(REPEATED)?;
    Some(link.split_once(']')?.0.to_owned())
}

fn section<'page>(page: &'page str, title: &str) -> impl Iterator<Item = &'page str> {
    let is_it = move |line: &&str| line.strip_prefix(HEADING) == Some(title);
    let lines = page.lines();
    let begin = lines.clone().position(|line| is_it(&line));
    let lines = lines.skip(begin.map_or(usize::MAX, |at| at + 1));
    lines.take_while(|line| !line.starts_with("## "))
}

/// The commands of a section, each with the number of the list's item that it is in, or 0.
fn numbered_steps(page: &str, title: &str) -> Vec<(u32, Step)> {
    let mut steps: Vec<(u32, Step)> = Vec::new();
    let mut number = 0;
    // Steps of the last prompt in this block.
    let mut shown_by = 0;
    for line in section(page, title) {
        if !line.starts_with(INDENT) {
            let item = line
                .split_once(". ")
                .and_then(|(item, _)| item.parse().ok());
            number = item.unwrap_or(number);
            shown_by = 0;
            continue;
        }
        let typed = typed(line.trim());
        if typed.is_empty() {
            let first = steps.len() - shown_by;
            for (_, step) in &mut steps[first..] {
                step.shows.push(line.trim().to_owned());
            }
        } else {
            shown_by = typed.len();
            steps.extend(typed.into_iter().map(|step| (number, step)));
        }
    }
    steps
}

/// The command on each machine of the prompt that the line begins with; none without a prompt.
fn typed(line: &str) -> Vec<Step> {
    let Some((prompt, command)) = line.split_once("# ") else {
        return Vec::new();
    };
    let is_name =
        |machine: &str| !machine.is_empty() && machine.chars().all(|c| c.is_ascii_alphanumeric());
    if !prompt.split(',').all(is_name) {
        return Vec::new();
    }
    let step = |machine: &str| Step {
        machine: machine.to_owned(),
        command: command.to_owned(),
        shows: Vec::new(),
    };
    prompt.split(',').map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
## Drill: one

Text with db1# in it.

    db1# synod status
    3 voters: ...

    key = value

1. In a list:

       db2# poweroff -f
       db1,db3# synod member list
       db2 ... absent
       db1*

## Another section

    db9# not of the drill
";

    fn step(machine: &str, command: &str, shows: &[&str]) -> Step {
        Step {
            machine: machine.into(),
            command: command.into(),
            shows: shows.iter().map(|line| (*line).to_owned()).collect(),
        }
    }

    #[test]
    fn commands_of_a_section_are_read_with_what_they_show() {
        let expected = [
            step("db1", "synod status", &["3 voters: ..."]),
            step("db2", "poweroff -f", &[]),
            step("db1", "synod member list", &["db2 ... absent", "db1*"]),
            step("db3", "synod member list", &["db2 ... absent", "db1*"]),
        ];
        assert_eq!(steps_in(TEXT, "one"), expected);
        assert_eq!(steps_in(TEXT, "two"), []);
    }

    #[test]
    fn drill_that_differs_in_some_steps_has_the_others_of_the_first_one() {
        let page = "\
## Drill: first

1. Begin.

       db1# one

2. Continue.

       db1# two
       shown

3. End.

       db1# three

## Drill: second

All steps are those of [first](#drill-first), but:

2. Instead.

       db2# other
";
        let expected = [
            step("db1", "one", &[]),
            step("db2", "other", &[]),
            step("db1", "three", &[]),
        ];
        assert_eq!(steps_in(page, "second"), expected);
    }

    #[test]
    fn output_shows_the_words_of_a_line_in_their_order() {
        let step = step(
            "db1",
            "synod member list",
            &["db3 ... absent", "db1* leader"],
        );
        let output = "name role state\ndb1* leader synced\ndb3 follower absent -";
        assert_eq!(step.missing_in(output), None);
        let without = "db1* leader synced\ndb3 follower synced\nabsent db3";
        assert_eq!(step.missing_in(without), Some("db3 ... absent"));
    }
}
