//! `synod why`: what has happened lately.

use clap::{Args, ValueEnum};
use synod_admin::event::{Event, Severity, Topic};
use synod_admin::protocol::{Answer, Request};
use synod_admin::status::Status;

use super::orders::ask_status;
use super::utc;
use super::{EXIT_CODES, OperateError, ServerArgs, ask, print, unexpected};
use crate::number::number;
use crate::table::lay_out;

/// Arguments of `synod why`.
#[derive(Debug, Args)]
#[command(after_help = help())]
pub struct WhyArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Only events about this; may be repeated
    #[arg(long, value_enum, value_name = "TOPIC")]
    topic: Vec<TopicArg>,
    /// Only the last so many events
    #[arg(long, value_name = "COUNT", default_value_t = 30)]
    #[arg(value_parser = number::<usize, 0, 1_000_000>)]
    last: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TopicArg {
    /// Elections, handovers, a lost or regained majority
    Leadership,
    /// Views, joins, leaves, refusals
    Membership,
    /// Writes that were slowed down, servers that commits did not wait for
    Pace,
    /// Actions that failed, servers whose data differ
    Consistency,
    /// The log and its disk
    Log,
    /// Clocks that differ
    Clock,
}

impl TopicArg {
    fn topic(self) -> Topic {
        match self {
            TopicArg::Leadership => Topic::Leadership,
            TopicArg::Membership => Topic::Membership,
            TopicArg::Pace => Topic::Pace,
            TopicArg::Consistency => Topic::Consistency,
            TopicArg::Log => Topic::Log,
            TopicArg::Clock => Topic::Clock,
        }
    }
}

fn help() -> String {
    format!(
        "\
Example: why did another server become the leader?

  synod why --topic leadership --last 5

A server keeps its last 256 events, until it ends. Older ones are in its error log.

{EXIT_CODES}"
    )
}

pub fn run(arguments: &WhyArgs) -> Result<u8, OperateError> {
    let server = &arguments.server;
    let Answer::Events(events) = ask(server, Request::Events)? else {
        return Err(unexpected(server));
    };
    let events = selected(&events, &arguments.topic, arguments.last);
    let status = if server.json {
        None
    } else {
        ask_status(server).ok()
    };
    print(server.json, &events, || text(&events, status.as_ref()))?;
    Ok(0)
}

fn selected<'a>(events: &'a [Event], topics: &[TopicArg], last: usize) -> Vec<&'a Event> {
    let is_wanted = |event: &&Event| {
        let is_of = |topic: &TopicArg| topic.topic() == event.topic;
        topics.is_empty() || topics.iter().any(is_of)
    };
    let wanted: Vec<&Event> = events.iter().filter(is_wanted).collect();
    let first = wanted.len().saturating_sub(last);
    wanted[first..].to_vec()
}

/// The events, and below them the outlook that they have led to.
fn text(events: &[&Event], status: Option<&Status>) -> String {
    let group = status.and_then(|status| status.group.as_ref());
    let now = group.map(|group| format!("now: {}", group.outlook));
    let parts: Vec<String> = [table(events)].into_iter().chain(now).collect();
    parts.join("\n\n")
}

fn table(events: &[&Event]) -> String {
    if events.is_empty() {
        return "nothing of that has happened since the server's start".to_owned();
    }
    let rows: Vec<[String; 4]> = events
        .iter()
        .map(|event| {
            [
                utc::text(event.at_unix_ms),
                event.topic.name().to_owned(),
                severity(event.severity).to_owned(),
                event.text.clone(),
            ]
        })
        .collect();
    lay_out(&rows)
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "",
        Severity::Warning => "warning",
        Severity::Error => "ERROR",
    }
}

#[cfg(test)]
mod tests {
    use synod_admin::status::Group;

    use super::*;

    fn event(topic: Topic, text: &str) -> Event {
        Event {
            topic,
            text: text.into(),
            ..Event::default()
        }
    }

    #[test]
    fn last_events_of_the_topics_are_shown() {
        let events = [
            event(Topic::Leadership, "one"),
            event(Topic::Log, "two"),
            event(Topic::Pace, "three"),
            event(Topic::Leadership, "four"),
        ];
        let texts = |topics: &[TopicArg], last| -> Vec<String> {
            let selected = selected(&events, topics, last);
            selected.iter().map(|event| event.text.clone()).collect()
        };
        assert_eq!(texts(&[], 2), ["three", "four"]);
        let topics = [TopicArg::Leadership, TopicArg::Log];
        assert_eq!(texts(&topics, 9), ["one", "two", "four"]);
        assert_eq!(texts(&topics, 0).len(), 0);
        let shown = text(&selected(&events, &topics, 1), None);
        assert_eq!(shown, "1970-01-01 00:00:00Z  leadership    four");
    }

    #[test]
    fn what_the_events_have_led_to_stands_below_them() {
        let group = Group {
            outlook: "3 voters, 2 answer (witness absent): no further one may fail".into(),
            ..Group::default()
        };
        let status = Status {
            group: Some(group),
            ..Status::default()
        };
        let lost = event(Topic::Membership, "witness has sent nothing for 5s");
        let shown = text(&[&lost], Some(&status));
        let (_, now) = shown.split_once("\n\n").unwrap();
        assert_eq!(
            now,
            "now: 3 voters, 2 answer (witness absent): no further one may fail"
        );
    }
}
