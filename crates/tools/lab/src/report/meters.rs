//! Tables of what meters found. Runs of the same meter share tables, one line per system.

use super::table::Table;
use super::{Section, bench, figure};
use crate::meters::record::{
    DelayFindings, Findings, GiantFindings, LagFindings, LoadOn, MeterRecord,
};
use crate::statistics::coefficient_of_variation;

/// Load per core from which on a machine counts as busy with other things.
const BUSY_FROM: f64 = 0.5;

pub(super) fn sections(records: &[MeterRecord]) -> Vec<Section> {
    let all = [delay, giant, lag];
    let sections = all.into_iter().filter_map(|section| section(records));
    sections
        .filter(|section| !section.tables.is_empty())
        .collect()
}

/// A section of the records for which `of` finds something: with notes about each run.
fn section<'a, T: 'a>(
    records: &'a [MeterRecord],
    title: &str,
    explanation: &str,
    of: impl Fn(&'a Findings) -> Option<&'a T>,
    tables: impl FnOnce(&[(String, &'a T)]) -> Vec<Table>,
) -> Option<Section> {
    let mut notes = vec![explanation.to_owned()];
    let mut found = Vec::new();
    for record in records {
        if let Some(findings) = of(&record.findings) {
            found.push((format!("{}, {}", record.system, record.topology), findings));
            notes.push(run(record));
        }
    }
    if found.is_empty() {
        return None;
    }
    Some(Section {
        title: title.to_owned(),
        notes,
        tables: tables(&found),
    })
}

fn run(record: &MeterRecord) -> String {
    let busy = if record.busy_before >= BUSY_FROM {
        format!(
            " The machine was busy with other things: a load of {} per core before it began.",
            figure::number(record.busy_before)
        )
    } else {
        String::new()
    };
    format!(
        "{}, {}: {}, by: {}. {}. {}.{busy}",
        record.system,
        record.topology,
        record.date,
        record.command,
        bench::machine(&record.machine),
        bench::versions(&record.versions)
    )
}

fn delay(records: &[MeterRecord]) -> Option<Section> {
    let explanation = "A client writes on one server and reads on another one as soon as it is \
                       told OK. Stale: the first read did not show the write. Delay: from the OK \
                       to the beginning of the first read that showed it; 0 if the first did.";
    section(
        records,
        "Delay: reads on another server right after a write",
        explanation,
        |findings| match findings {
            Findings::Delay(delay) => Some(delay),
            _ => None,
        },
        |found| vec![delays(found)],
    )
}

fn delays(found: &[(String, &DelayFindings)]) -> Table {
    let columns = [
        "system",
        "load on",
        "sync_wait",
        "samples",
        "stale",
        "never",
        "delay, mean",
        "p50",
        "p99",
        "read, p50",
        "p99",
        "write, p50",
        "load, TPS",
    ];
    let mut table = Table::new("Stale reads and delays, ms", &columns);
    for (system, delay) in found {
        for phase in &delay.phases {
            let load_on = match phase.load_on {
                LoadOn::Nothing => "nothing",
                LoadOn::Writer => "the one written to",
                LoadOn::Reader => "the one read from",
            };
            table.rows.push(vec![
                system.clone(),
                load_on.to_owned(),
                if phase.sync_wait { "1" } else { "0" }.to_owned(),
                phase.samples.to_string(),
                figure::percent(phase.stale_share()),
                phase.never.to_string(),
                figure::number(phase.delay.mean_ms),
                figure::number(phase.delay.p50_ms),
                figure::number(phase.delay.p99_ms),
                figure::number(phase.read.p50_ms),
                figure::number(phase.read.p99_ms),
                figure::number(phase.write.p50_ms),
                figure::number(phase.load_tps),
            ]);
        }
    }
    table
}

fn giant(records: &[MeterRecord]) -> Option<Section> {
    let explanation = "One statement changes many rows while clients of all servers make small \
                       transactions at a steady pace, each on a row of its own. Wait: the longest \
                       that a client waited for one answer. Gap: the longest time without a \
                       commit on that server. Late: from the OK of a small transaction on another \
                       server until it was visible here. Peak: resident memory of the server.";
    section(
        records,
        "Giant: one huge transaction beside small ones",
        explanation,
        |findings| match findings {
            Findings::Giant(giants) => Some(giants),
            _ => None,
        },
        |found| vec![giant_statements(found), giant_servers(found)],
    )
}

fn giant_statements(found: &[(String, &Vec<GiantFindings>)]) -> Table {
    let columns = [
        "system",
        "rows",
        "beside",
        "statement",
        "elections",
        "longest wait",
        "latest",
        "result",
    ];
    let mut table = Table::new("The statement, and the worst of all servers", &columns);
    for (system, giants) in found {
        for giant in *giants {
            let worst = |of: fn(&crate::meters::record::GiantServer) -> f64| {
                giant.servers.iter().map(of).fold(0.0, f64::max)
            };
            table.rows.push(vec![
                system.clone(),
                giant.rows.to_string(),
                format!("{}/s", figure::number(giant.rate)),
                figure::time(giant.seconds * 1000.0),
                giant
                    .elections
                    .map_or("-".to_owned(), |count| count.to_string()),
                figure::time(worst(|server| server.longest_wait_ms)),
                figure::time(worst(|server| server.late.max_ms)),
                giant
                    .refused
                    .clone()
                    .unwrap_or_else(|| "succeeded".to_owned()),
            ]);
        }
    }
    table
}

fn giant_servers(found: &[(String, &Vec<GiantFindings>)]) -> Table {
    let columns = [
        "system",
        "beside",
        "server",
        "commits",
        "wait",
        "gap",
        "late, p50",
        "p99",
        "longest",
        "rows visible after",
        "memory before",
        "peak",
        "errors",
    ];
    let mut table = Table::new("Each server", &columns);
    for (system, giants) in found {
        for giant in *giants {
            for server in &giant.servers {
                let memory = |bytes: Option<u64>| bytes.map_or("-".into(), figure::mebibytes);
                let here = if server.server == giant.origin {
                    " (origin)"
                } else {
                    ""
                };
                table.rows.push(vec![
                    system.clone(),
                    format!("{}/s", figure::number(giant.rate)),
                    format!("{}{here}", server.server),
                    server.commits.to_string(),
                    figure::time(server.longest_wait_ms),
                    figure::time(server.longest_gap_ms),
                    figure::time(server.late.p50_ms),
                    figure::time(server.late.p99_ms),
                    figure::time(server.late.max_ms),
                    server.visible_after_ms.map_or("-".to_owned(), figure::time),
                    memory(server.resident_before_bytes),
                    memory(server.peak_bytes),
                    figure::kinds(&server.errors),
                ]);
            }
        }
    }
    table
}

fn lag(records: &[MeterRecord]) -> Option<Section> {
    let explanation = "One server is slow for a while. A group that waits only for its majority \
                       keeps its pace. The slow server falls behind, stays a member, and catches \
                       up when it can.";
    section(
        records,
        "Lag: one slow server",
        explanation,
        |findings| match findings {
            Findings::Lag(lag) => Some(&**lag),
            _ => None,
        },
        |found| vec![lags(found)],
    )
}

fn lags(found: &[(String, &LagFindings)]) -> Table {
    let columns = [
        "system",
        "slow server",
        "slowed by",
        "TPS before",
        "while slow",
        "after",
        "ratio",
        "variation while slow",
        "behind at most",
        "fewest members",
        "caught up",
        "states",
    ];
    let mut table = Table::new(
        "Pace of the group with a slow server; ratio to the mean of before and after",
        &columns,
    );
    for (system, lag) in found {
        let usual = (lag.before.tps + lag.after.tps) / 2.0;
        let caught_up = match (lag.caught_up_under_load_ms, lag.caught_up_without_load_ms) {
            (Some(ms), _) => format!("{} under load", figure::time(ms)),
            (None, Some(ms)) => format!("{} after the load", figure::time(ms)),
            (None, None) => "not in time".to_owned(),
        };
        table.rows.push(vec![
            system.clone(),
            lag.slow_server.clone(),
            lag.slowed_by.clone(),
            figure::number(lag.before.tps),
            figure::number(lag.slowed.tps),
            figure::number(lag.after.tps),
            figure::number(lag.slowed.tps / usual),
            figure::optional(coefficient_of_variation(&lag.slowed.tps_by_second)),
            lag.most_behind.to_string(),
            lag.fewest_members.to_string(),
            caught_up,
            figure::kinds(&lag.states),
        ]);
    }
    table
}
