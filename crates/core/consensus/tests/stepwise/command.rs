//! Commands of a script.

use synod_consensus::{LeaderWeight, MemberId, Term};

use super::show::KINDS;

pub enum Command {
    /// Members n1 to n9, all voters, with empty logs.
    Group {
        members: u64,
        down: bool,
    },
    /// Bytes in one message; with 1, every entry travels alone. Before the first start.
    AppendBytes(u64),
    /// Disk contents of a member that is down.
    Disk(MemberId, Stored),
    /// Syncs return at once, or when the script says so.
    DiskSpeed(MemberId, DiskSpeed),
    /// A member without a configuration, with an empty disk.
    New(MemberId),
    Start(MemberId),
    /// Everything not synced is lost.
    Crash(MemberId),
    Submit(MemberId, String),
    /// Certification refuses everything from now on, or nothing.
    Refuse(bool),
    Read(MemberId, String),
    /// Lets time pass until the member's election timeout.
    Campaign(MemberId),
    /// Makes the member a candidate until it leads, with no message on its way. For the way to a
    /// situation.
    Lead(MemberId),
    Tick(MemberId, u64),
    /// Time passes, in microseconds; no timer fires.
    Wait(u64),
    /// Everything happens by itself for a while, in microseconds.
    Run(u64),
    /// Everything arrives, and what it leads to, until nothing is on its way.
    DeliverAll,
    /// Like `DeliverAll`, shown without the messages.
    Settle,
    Network,
    Messages(Handling, Selector),
    /// Messages of this link wait until released, or delivered by name.
    Hold(Link),
    Release(Link),
    Partition(Vec<Vec<MemberId>>),
    Cut(Link),
    Heal,
    /// The first member's connection to the second broke, or was restored.
    Connection(MemberId, MemberId, bool),
    Transfer(MemberId, MemberId),
    /// The order to continue without a majority.
    Force(MemberId),
    Change(MemberId, Change),
    /// The leader may promote the second by itself.
    Eligible(MemberId, MemberId),
    /// All members know all weights from the first of these on.
    Weight(MemberId, LeaderWeight),
    /// Whether it hands over to members of higher weight.
    HandsOver(MemberId, bool),
    Purge(MemberId, u64),
    /// The second starts its log here, if the first has to send it a base.
    Base(MemberId, MemberId, u64),
    Status,
    Log(Option<MemberId>),
    AssertMember(MemberId, String, String),
    AssertResult(String, String),
}

pub struct Stored {
    pub log: Vec<Term>,
    pub term: Term,
    pub vote: Option<MemberId>,
}

pub enum DiskSpeed {
    Held,
    /// Syncs what was written so far; the disk stays held.
    Sync,
    Released,
}

pub enum Change {
    Add(MemberId),
    Promote(MemberId),
    Demote(MemberId),
    Remove(MemberId),
    Replace(MemberId, MemberId),
}

impl Change {
    /// The members that the change names.
    pub fn members(&self) -> impl Iterator<Item = MemberId> + use<> {
        let (one, other) = match self {
            Change::Add(id) | Change::Promote(id) | Change::Demote(id) | Change::Remove(id) => {
                (*id, None)
            }
            Change::Replace(old, new) => (*old, Some(*new)),
        };
        std::iter::once(one).chain(other)
    }
}

#[derive(Clone, Copy)]
pub enum Handling {
    Deliver,
    Drop,
    Duplicate,
    Reverse,
}

/// `None` at an end: any member.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Link {
    pub from: Option<MemberId>,
    pub to: Option<MemberId>,
}

pub struct Selector {
    pub link: Link,
    pub kind: Option<String>,
}

/// How each command is written.
const USAGE: &[(&str, &str)] = &[
    ("append-bytes", "<most in one message>"),
    ("group", "<members> [down]"),
    (
        "disk",
        "<member> hold|sync|release, or: log <term>... [term <term>] [vote <member>]",
    ),
    ("new", "<member>"),
    ("start", "<member>"),
    ("restart", "<member>"),
    ("crash", "<member>"),
    ("submit", "<member> <name>"),
    ("certify", "refuse|pass"),
    ("read", "<member> <name>"),
    ("campaign", "<member>"),
    ("lead", "<member>"),
    ("tick", "<member> [<time>]"),
    ("wait", "<time>"),
    ("run", "<time>"),
    ("deliver", "[<link> [<kind>]]"),
    ("settle", ""),
    ("network", ""),
    ("drop", "<link> [<kind>]"),
    ("duplicate", "<link> [<kind>]"),
    ("reverse", "<link> [<kind>]"),
    ("hold", "<link>"),
    ("release", "<link>"),
    ("partition", "<member>... | <member>..."),
    ("cut", "<link>"),
    ("heal", ""),
    ("disconnect", "<member> <from member>"),
    ("connect", "<member> <to member>"),
    ("transfer", "<leader> <member>"),
    ("force", "<member>"),
    ("add", "<leader> <member>"),
    ("promote", "<leader> <member>"),
    ("demote", "<leader> <member>"),
    ("remove", "<leader> <member>"),
    ("replace", "<leader> <old member> <new member>"),
    ("eligible", "<leader> <member>"),
    ("weight", "<member> <0 to 100>"),
    ("handover", "<member> optimistic|forced"),
    ("purge", "<member> <index>"),
    ("base", "<leader> <member> <index>"),
    ("status", ""),
    ("log", "[<member>]"),
    (
        "assert",
        "<member> <what> <value>, or: <name of a transaction or read> <result>",
    ),
];

impl Command {
    pub fn parse(text: &str) -> Result<Command, String> {
        let mut words = text.split_whitespace();
        let verb = words.next().unwrap_or_default();
        let words: Vec<&str> = words.collect();
        let usage = USAGE.iter().find(|(known, _)| *known == verb);
        let (_, usage) = usage.ok_or_else(|| format!("unknown command '{verb}'"))?;
        let command = parse_members(verb, &words)
            .or_else(|| parse_world(verb, &words))
            .unwrap_or_else(|| Err(format!("'{verb}' needs: {verb} {usage}")))?;
        Ok(command)
    }
}

type Parsed = Option<Result<Command, String>>;

/// Commands to single members. `None`: not one of them, or not with these words.
fn parse_members(verb: &str, words: &[&str]) -> Parsed {
    let one = |make: fn(MemberId) -> Command, a| Some(member(a).map(make));
    let two = |make: fn(MemberId, MemberId) -> Command, a, b| {
        Some(member(a).and_then(|a| Ok(make(a, member(b)?))))
    };
    match (verb, words) {
        ("new", [a]) => one(Command::New, a),
        ("start" | "restart", [a]) => one(Command::Start, a),
        ("crash", [a]) => one(Command::Crash, a),
        ("campaign", [a]) => one(Command::Campaign, a),
        ("lead", [a]) => one(Command::Lead, a),
        ("tick", [a]) => one(|a| Command::Tick(a, 0), a),
        ("tick", [a, t]) => Some(member(a).and_then(|a| Ok(Command::Tick(a, time(t)?)))),
        ("submit", [a, name]) => Some(member(a).map(|a| Command::Submit(a, name.to_string()))),
        ("read", [a, name]) => Some(member(a).map(|a| Command::Read(a, name.to_string()))),
        ("log", []) => Some(Ok(Command::Log(None))),
        ("log", [a]) => one(|a| Command::Log(Some(a)), a),
        ("disconnect", [a, b]) => two(|a, b| Command::Connection(a, b, false), a, b),
        ("connect", [a, b]) => two(|a, b| Command::Connection(a, b, true), a, b),
        ("transfer", [a, b]) => two(Command::Transfer, a, b),
        ("force", [a]) => one(Command::Force, a),
        ("eligible", [a, b]) => two(Command::Eligible, a, b),
        ("add", [a, b]) => two(|a, b| Command::Change(a, Change::Add(b)), a, b),
        ("promote", [a, b]) => two(|a, b| Command::Change(a, Change::Promote(b)), a, b),
        ("demote", [a, b]) => two(|a, b| Command::Change(a, Change::Demote(b)), a, b),
        ("remove", [a, b]) => two(|a, b| Command::Change(a, Change::Remove(b)), a, b),
        ("replace", [a, b, c]) => Some(member(a).and_then(|a| {
            let change = Change::Replace(member(b)?, member(c)?);
            Ok(Command::Change(a, change))
        })),
        ("weight", [a, w]) => Some(member(a).and_then(|a| Ok(Command::Weight(a, weight(w)?)))),
        ("handover", [a, "optimistic"]) => one(|a| Command::HandsOver(a, false), a),
        ("handover", [a, "forced"]) => one(|a| Command::HandsOver(a, true), a),
        ("purge", [a, i]) => Some(member(a).and_then(|a| Ok(Command::Purge(a, number(i)?)))),
        ("base", [a, b, i]) => {
            Some(member(a).and_then(|a| Ok(Command::Base(a, member(b)?, number(i)?))))
        }
        ("disk", [a, "hold"]) => one(|a| Command::DiskSpeed(a, DiskSpeed::Held), a),
        ("disk", [a, "sync"]) => one(|a| Command::DiskSpeed(a, DiskSpeed::Sync), a),
        ("disk", [a, "release"]) => one(|a| Command::DiskSpeed(a, DiskSpeed::Released), a),
        ("disk", [a, "log", rest @ ..]) => {
            Some(member(a).and_then(|a| Ok(Command::Disk(a, stored(rest)?))))
        }
        _ => None,
    }
}

/// Commands to the network, the clock, the group, and about what is known.
fn parse_world(verb: &str, words: &[&str]) -> Parsed {
    let messages = |handling, link_text: &str, kind_text: Option<&&str>| {
        let selector = selector(link_text, kind_text.copied());
        Some(selector.map(|selector| Command::Messages(handling, selector)))
    };
    let handling = match verb {
        "deliver" => Some(Handling::Deliver),
        "drop" => Some(Handling::Drop),
        "duplicate" => Some(Handling::Duplicate),
        "reverse" => Some(Handling::Reverse),
        _ => None,
    };
    match (verb, words) {
        ("group", [n]) => Some(number(n).map(|members| Command::Group {
            members,
            down: false,
        })),
        ("group", [n, "down"]) => Some(number(n).map(|members| Command::Group {
            members,
            down: true,
        })),
        ("append-bytes", [n]) => Some(number(n).map(Command::AppendBytes)),
        ("certify", ["refuse"]) => Some(Ok(Command::Refuse(true))),
        ("certify", ["pass"]) => Some(Ok(Command::Refuse(false))),
        ("wait", [t]) => Some(time(t).map(Command::Wait)),
        ("run", [t]) => Some(time(t).map(Command::Run)),
        ("deliver", []) => Some(Ok(Command::DeliverAll)),
        ("settle", []) => Some(Ok(Command::Settle)),
        ("network", []) => Some(Ok(Command::Network)),
        ("hold", [l]) => Some(link(l).map(Command::Hold)),
        ("release", [l]) => Some(link(l).map(Command::Release)),
        ("cut", [l]) => Some(link(l).map(Command::Cut)),
        ("partition", [_, ..]) => Some(sides(words).map(Command::Partition)),
        ("heal", []) => Some(Ok(Command::Heal)),
        ("status", []) => Some(Ok(Command::Status)),
        ("assert", [name, result]) => Some(Ok(Command::AssertResult(
            name.to_string(),
            result.to_string(),
        ))),
        ("assert", [a, what, value @ ..]) => {
            let value = value.join(" ");
            Some(member(a).map(|a| Command::AssertMember(a, what.to_string(), value)))
        }
        (_, [link] | [link, _]) => messages(handling?, link, words.get(1)),
        _ => None,
    }
}

fn member(text: &str) -> Result<MemberId, String> {
    let number = text.strip_prefix('n').and_then(|n| n.parse::<u64>().ok());
    number
        .filter(|n| (1..=9).contains(n))
        .map(MemberId)
        .ok_or_else(|| format!("'{text}' is no member: n1, n2..."))
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{text}' is no number"))
}

fn weight(text: &str) -> Result<LeaderWeight, String> {
    let weight = text.parse().ok().and_then(LeaderWeight::new);
    weight.ok_or_else(|| format!("'{text}' is no weight: 0 to 100"))
}

/// In microseconds.
fn time(text: &str) -> Result<u64, String> {
    let bad = || format!("'{text}' is no time: 300ms, 5s");
    let (digits, unit_us) = match text.strip_suffix("ms") {
        Some(digits) => (digits, 1_000),
        None => (text.strip_suffix('s').ok_or_else(bad)?, 1_000_000),
    };
    let count: u64 = digits.parse().map_err(|_| bad())?;
    count.checked_mul(unit_us).ok_or_else(bad)
}

fn link(text: &str) -> Result<Link, String> {
    let (from, to) = if text == "*" {
        ("*", "*")
    } else {
        text.split_once("->")
            .ok_or_else(|| format!("'{text}' is no link: n1->n2, *->n2, n1->*, *"))?
    };
    let end = |text| {
        if text == "*" {
            Ok(None)
        } else {
            member(text).map(Some)
        }
    };
    Ok(Link {
        from: end(from)?,
        to: end(to)?,
    })
}

fn selector(link_text: &str, kind: Option<&str>) -> Result<Selector, String> {
    if let Some(unknown) = kind.filter(|kind| !KINDS.contains(kind)) {
        let kinds = KINDS.join(", ");
        return Err(format!("'{unknown}' is no kind of message: {kinds}"));
    }
    Ok(Selector {
        link: link(link_text)?,
        kind: kind.map(str::to_owned),
    })
}

fn sides(words: &[&str]) -> Result<Vec<Vec<MemberId>>, String> {
    let sides = words.split(|word| *word == "|");
    sides
        .map(|side| side.iter().map(|word| member(word)).collect())
        .collect()
}

fn stored(words: &[&str]) -> Result<Stored, String> {
    let count = words
        .iter()
        .take_while(|w| w.parse::<u64>().is_ok())
        .count();
    let (terms, mut rest) = words.split_at(count);
    let log = terms.iter().map(|w| number(w).map(Term));
    let log: Vec<Term> = log.collect::<Result<_, _>>()?;
    if log.windows(2).any(|pair| pair[0] > pair[1]) {
        return Err("terms go back".to_owned());
    }
    let newest = log.last().copied().unwrap_or_default();
    let (mut term, mut vote) = (newest, None);
    loop {
        rest = match rest {
            [] => break,
            ["term", t, rest @ ..] => {
                term = Term(number(t)?);
                rest
            }
            ["vote", m, rest @ ..] => {
                vote = Some(member(m)?);
                rest
            }
            [other, ..] => return Err(format!("'{other}' is neither a term nor 'term', 'vote'")),
        };
    }
    if term < newest {
        return Err("entries of a term above the vote's".to_owned());
    }
    Ok(Stored { log, term, vote })
}
