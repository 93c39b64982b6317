//! `synod watch`: the status, live, with the rate and latency of commits.
//!
//! On a terminal the screen is redrawn until `q` is pressed. Elsewhere, and with `--json`, each
//! look is printed below the last.

use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::Args;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, RenderDirection, Sparkline};
use synod_admin::Client;
use synod_admin::protocol::{Answer, Request};
use synod_admin::status::Status;

use super::{ANSWER_LIMIT, EXIT_CODES, OperateError, ServerArgs, print_line, server, status};
use crate::number::number;

/// Looks of which the rate is drawn.
const RATES_MAX: usize = 600;

/// Arguments of `synod watch`.
#[derive(Debug, Args)]
#[command(after_help = help())]
pub struct WatchArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1)]
    #[arg(value_parser = number::<u64, 1, 30>)]
    interval: u64,
    /// End after so many looks [default: at 'q', or Ctrl-C]
    #[arg(long, value_name = "COUNT", value_parser = number::<u64, 0, 1_000_000_000>)]
    count: Option<u64>,
}

fn help() -> String {
    format!(
        "\
Example: watch the group while another server is restarted; 'q' ends it.

  synod watch

With --json, one document a line: the status, with the commits per second since the last look.

{EXIT_CODES}"
    )
}

pub fn run(arguments: &WatchArgs) -> Result<u8, OperateError> {
    let mut watched = Watched::begin(arguments)?;
    if arguments.server.json || !io::stdout().is_terminal() {
        watched.print_looks(arguments)?;
    } else {
        let mut terminal = ratatui::try_init()?;
        let ended = watched.draw_looks(arguments, &mut terminal);
        ratatui::restore();
        ended?;
    }
    Ok(0)
}

/// The server, and what was seen of it so far.
struct Watched {
    client: Client,
    last: Option<Status>,
    rates: VecDeque<u64>,
}

/// One look.
#[derive(serde::Serialize)]
struct Look {
    /// Commits of the group per second since the last look; none at the first one.
    commits_per_second: Option<f64>,
    #[serde(flatten)]
    status: Status,
}

impl Watched {
    fn begin(arguments: &WatchArgs) -> Result<Watched, OperateError> {
        Ok(Watched {
            client: server::connect(&arguments.server.place)?,
            last: None,
            rates: VecDeque::new(),
        })
    }

    fn look(&mut self) -> Result<Look, OperateError> {
        let Answer::Status(status) = self.client.ask(Request::Status, ANSWER_LIMIT)? else {
            return Err(self.client.unexpected().into());
        };
        let rate = self.last.as_ref().and_then(|last| rate(last, &status));
        if let Some(rate) = rate {
            if self.rates.len() == RATES_MAX {
                self.rates.pop_back();
            }
            self.rates.push_front(rate as u64); // whole commits are enough for a picture
        }
        let status = *status;
        self.last = Some(status.clone());
        Ok(Look {
            commits_per_second: rate,
            status,
        })
    }

    fn print_looks(&mut self, arguments: &WatchArgs) -> Result<(), OperateError> {
        let pause = Duration::from_secs(arguments.interval);
        let mut looks = 0;
        loop {
            let look = self.look()?;
            let text = match arguments.server.json {
                true => serde_json::to_string(&look).map_err(io::Error::from)?,
                false => format!("{}\n{}\n", status::text(&look.status), speed(&look)),
            };
            print_line(&text)?;
            looks += 1;
            if arguments.count.is_some_and(|count| looks >= count) {
                return Ok(());
            }
            std::thread::sleep(pause);
        }
    }

    fn draw_looks(
        &mut self,
        arguments: &WatchArgs,
        terminal: &mut ratatui::DefaultTerminal,
    ) -> Result<(), OperateError> {
        let pause = Duration::from_secs(arguments.interval);
        let mut looks = 0;
        loop {
            let look = self.look()?;
            terminal.draw(|frame| draw(frame, &look, &self.rates))?;
            looks += 1;
            let is_over = arguments.count.is_some_and(|count| looks >= count);
            if is_over || asked_to_end(pause)? {
                return Ok(());
            }
        }
    }
}

/// Commits of the group per second between two looks; none if a server cannot say.
fn rate(before: &Status, now: &Status) -> Option<f64> {
    let commits = |status: &Status| status.group.as_ref().map(|group| group.commit_seqno);
    let passed_ms = now.at_unix_ms.checked_sub(before.at_unix_ms)?;
    let committed = u32::try_from(commits(now)?.checked_sub(commits(before)?)?).ok()?;
    (passed_ms > 0).then(|| f64::from(committed) * 1000.0 / passed_ms as f64)
}

/// The rate, and how long clients of this server wait for the group.
fn speed(look: &Look) -> String {
    let rate = look.commits_per_second;
    let rate = rate.map_or("-".to_owned(), |rate| format!("{rate:.0}"));
    let order = look.status.commit_steps.iter();
    let order = order.clone().find(|step| step.step == "order");
    let latency = match order.filter(|step| step.samples > 0) {
        Some(step) => format!(
            "{:.2} ms (p50), {:.2} ms (p99)",
            step.p50_us as f64 / 1000.0,
            step.p99_us as f64 / 1000.0
        ),
        None => "-".to_owned(),
    };
    format!("{rate} commits/s in the group; commits of this server are ordered in {latency}")
}

fn draw(frame: &mut Frame<'_>, look: &Look, rates: &VecDeque<u64>) {
    let text = status::text(&look.status);
    let height = u16::try_from(text.lines().count()).unwrap_or(u16::MAX);
    let parts = [
        Constraint::Length(height.saturating_add(1)),
        Constraint::Length(1),
        Constraint::Length(6),
        Constraint::Fill(1),
    ];
    let [top, middle, picture, _] = Layout::vertical(parts).areas(frame.area());
    let style = match &look.status.group {
        Some(group) if group.can_commit && group.voters_present == group.voters => Style::new(),
        Some(group) if group.can_commit => Style::new().yellow(),
        _ => Style::new().red(),
    };
    frame.render_widget(Paragraph::new(text).style(style), top);
    frame.render_widget(Line::from(speed(look)).bold(), middle);
    let rates: Vec<u64> = rates.iter().copied().collect();
    let block = Block::bordered().title("commits per second, latest on the right; 'q' ends");
    let line = Sparkline::default().direction(RenderDirection::RightToLeft);
    frame.render_widget(line.data(&rates).block(block), picture);
}

/// Waits for the next look; whether the operator has ended the watch meanwhile.
fn asked_to_end(pause: Duration) -> io::Result<bool> {
    if !event::poll(pause)? {
        return Ok(false);
    }
    let Event::Key(key) = event::read()? else {
        return Ok(false);
    };
    let is_interrupt =
        key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
    Ok(is_interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc))
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use synod_admin::status::{CommitStep, Group};

    use super::*;

    fn status(at_unix_ms: u64, commit_seqno: i64) -> Status {
        Status {
            at_unix_ms,
            group: Some(Group {
                commit_seqno,
                ..Group::default()
            }),
            commit_steps: vec![CommitStep {
                step: "order".into(),
                p50_us: 1500,
                p99_us: 2500,
                samples: 9,
                ..CommitStep::default()
            }],
            ..Status::default()
        }
    }

    #[test]
    fn rate_is_commits_by_time() {
        assert_eq!(rate(&status(1000, 10), &status(3000, 110)), Some(50.0));
        assert_eq!(rate(&status(1000, 10), &status(1000, 20)), None);
        assert_eq!(rate(&status(1000, 10), &status(500, 20)), None, "the clock");
        assert_eq!(rate(&Status::default(), &status(3000, 110)), None);
    }

    #[test]
    fn screen_shows_group_speed_and_picture() {
        let mut terminal = Terminal::new(TestBackend::new(120, 40)).unwrap();
        let look = Look {
            commits_per_second: Some(50.0),
            status: status(0, 0),
        };
        terminal
            .draw(|frame| draw(frame, &look, &VecDeque::from([50, 10])))
            .unwrap();
        let screen = terminal.backend().to_string();
        for words in [
            "NOT PRIMARY",
            "50 commits/s",
            "1.50 ms (p50)",
            "latest on the right",
        ] {
            assert!(screen.contains(words), "{words}: {screen}");
        }
    }
}
