//! Checks the model within given bounds, and reports the outcome.
//!
//! Exit code 0: every state was visited, nothing was violated, everything wanted was seen. 1: a
//! rule was violated. 2: the options make no sense. 3: neither a violation nor a proof.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use synod_model::{Bounds, Group, Limits, Mistake, Order, Outcome, check};

/// Checks a model of the protocol in every state it can reach within small bounds.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// Members.
    #[arg(long, default_value_t = 3)]
    servers: usize,
    /// Members that vote in the beginning; the others are learners. Default: all.
    #[arg(long)]
    voters: Option<usize>,
    /// Highest term.
    #[arg(long, default_value_t = 2)]
    terms: u8,
    /// Actions that clients propose.
    #[arg(long, default_value_t = 1)]
    entries: u8,
    /// Configurations that leaders append.
    #[arg(long, default_value_t = 0)]
    changes: u8,
    /// Crashes, each followed by a restart from the disk.
    #[arg(long, default_value_t = 0)]
    crashes: u8,
    /// Only leaders count acknowledgements, as in the running code.
    #[arg(long)]
    no_origin_counts: bool,
    /// Every write waits for a sync of its own, not only what leaders append.
    #[arg(long)]
    every_sync: bool,
    /// Break a rule.
    #[arg(long)]
    mistake: Option<Mistake>,
    /// In which order states are visited.
    #[arg(long, default_value = "depth")]
    order: Order,
    /// Threads of the checker.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Give up after about so many steps.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    max_steps: Option<u64>,
    /// Take states that differ only in the numbers of members for different ones: the way to a
    /// violation then reads more easily.
    #[arg(long)]
    no_symmetry: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let bounds = Bounds {
        servers: options.servers,
        voters: options.voters.unwrap_or(options.servers),
        terms: options.terms,
        entries: options.entries,
        changes: options.changes,
        crashes: options.crashes,
        origin_counts: !options.no_origin_counts,
        every_sync: options.every_sync,
    };
    let group = match Group::new(bounds, options.mistake) {
        Ok(group) => group,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    let symmetry = !options.no_symmetry;
    let group = if symmetry {
        group.with_symmetry()
    } else {
        group
    };
    let limits = Limits {
        threads: usize::from(options.threads),
        // More than memory can hold is no limit.
        steps_max: options.max_steps.and_then(|max| usize::try_from(max).ok()),
        ..Limits::default()
    };
    let outcome = check(group, options.order, &limits);
    print(&bounds, symmetry, options.order, &outcome);
    if !outcome.violated.is_empty() {
        ExitCode::from(1)
    } else if outcome.is_proof() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(3)
    }
}

fn print(bounds: &Bounds, symmetry: bool, order: Order, outcome: &Outcome) {
    println!("{bounds:?}");
    let states = if symmetry {
        "states (up to the members' numbers)"
    } else {
        "states"
    };
    println!(
        "{} {states}, {} steps, depth {} ({order:?} first), {:.1} s",
        outcome.states,
        outcome.steps,
        outcome.depth,
        outcome.time.as_secs_f64()
    );
    for name in &outcome.seen {
        println!("  seen      {name}");
    }
    for name in &outcome.unseen {
        println!("  NOT SEEN  {name}");
    }
    for (name, way) in &outcome.violated {
        println!("  VIOLATED  {name}:");
        for (_, step) in way {
            if let Some(step) = step {
                println!("    {step:?}");
            }
        }
        if let Some((state, _)) = way.last() {
            println!("    {state:#?}");
        }
    }
    match (outcome.violated.is_empty(), outcome.exhausted) {
        (true, true) => println!("every state was visited; no rule is violated"),
        (true, false) => println!("NOT every state was visited; no rule is violated so far"),
        (false, _) => println!("violated; the other states were not visited"),
    }
}
