//! The certificate as tables, and as one page that needs nothing else.

use super::bench;
use super::figure::number;
use super::table::Table;
use crate::certify::record::{Cell, Certificate, Round};

/// Load per core from which on a machine counts as busy with other things.
const BUSY_FROM: f64 = 0.5;

const LEGEND: &str = "Each cell: acknowledged transactions lost; longest time without a commit \
    (median and worst, if there are several rounds); seconds below 80 % of the rate before; \
    transactions without an answer; coefficient of variation of the rate from the fault on; \
    age of the oldest acknowledged transaction that a read without a wait missed; whether a person was needed.";

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;margin:2em;max-width:110em}\
    table{border-collapse:collapse}td,th{border:1px solid #bbb;padding:.4em .6em;text-align:left;\
    vertical-align:top}th{background:#f2f2f2}.bad{background:#fbdcdc}.none{color:#777}\
    svg{display:block;margin-top:.3em}small{color:#555}";

/// Size of a drawn series, pixels.
const WIDTH: f64 = 180.0;
const HEIGHT: f64 = 36.0;

/// A cell's figures in a line.
pub fn result(cell: &Cell) -> String {
    if let Some(reason) = &cell.not_tried {
        return format!("not tried: {reason}");
    }
    if let Some(failure) = &cell.failure {
        return format!("not judged: {failure}");
    }
    let Some((median, worst)) = cell.outage() else {
        return "not tried".to_owned();
    };
    let mut text = format!("lost {}, out {} s", cell.lost(), number(median));
    if cell.rounds.len() > 1 {
        text += &format!(" (worst {} s)", number(worst));
    }
    let below = cell.most(|round| round.below_s);
    let unanswered = cell.most(|round| round.unanswered);
    text += &format!(", slow {below} s, {unanswered} unanswered");
    let varies = cell
        .rounds
        .iter()
        .filter_map(|round| round.variation)
        .fold(0.0, f64::max);
    text += &format!(", CV {}", number(varies));
    let stalest = cell.rounds.iter().map(|round| round.stalest_ms);
    text += &format!(", stale {} ms", number(stalest.fold(0.0, f64::max)));
    let refused = cell.most(|round| round.wrongly_refused);
    if refused > 0 {
        text += &format!(", {refused} committed ones answered as rolled back");
    }
    if let Some(round) = cell.rounds.iter().find(|round| !round.diverged.is_empty()) {
        text += &format!(", other rows on {}", round.diverged.join(" and "));
    }
    if let Some(round) = cell.rounds.iter().find(|round| !round.behind.is_empty()) {
        text += &format!(", {} behind for 120 s", round.behind.join(" and "));
    }
    if let Some(step) = cell.rounds.iter().find_map(|round| round.by_hand.as_ref()) {
        text += &format!(", BY HAND: {step}");
    }
    if cell.rounds.iter().any(|round| round.back_s.is_none()) {
        text += ", NOT BACK";
    }
    text
}

/// A row for each fault, a column for each system.
pub fn markdown(certificate: &Certificate) -> String {
    let (systems, faults) = (systems(certificate), faults(certificate));
    let mut columns = vec!["fault"];
    columns.extend(systems.iter().map(String::as_str));
    let mut table = Table::new("Faults under load", &columns);
    for fault in &faults {
        let cells = systems.iter().map(|system| {
            let cell = find(certificate, system, fault);
            cell.map_or_else(|| "not tried".to_owned(), result)
        });
        table
            .rows
            .push(std::iter::once(fault.clone()).chain(cells).collect());
    }
    format!("{}\n\n{LEGEND}\n\n{}", about(certificate), table.markdown())
}

/// The page: one file without requests to anywhere.
pub fn page(certificate: &Certificate) -> String {
    let systems = systems(certificate);
    let heads: String = systems
        .iter()
        .map(|name| format!("<th>{}</th>", escape(name)))
        .collect();
    let mut rows = String::new();
    for fault in faults(certificate) {
        rows += &format!("<tr><th>{}</th>", escape(&fault));
        for system in &systems {
            rows += &find(certificate, system, &fault)
                .map_or_else(|| "<td class=none>not tried</td>".to_owned(), data_cell);
        }
        rows += "</tr>\n";
    }
    let breaches: String = certificate
        .breaches()
        .iter()
        .map(|breach| format!("<li>{}</li>", escape(breach)))
        .collect();
    let verdict = match breaches.is_empty() {
        true => "<p>Synod lost nothing that it acknowledged, and needed no person.</p>".to_owned(),
        false => format!("<p><b>Synod fails:</b></p><ul>{breaches}</ul>"),
    };
    let about = escape(&about(certificate));
    format!(
        "<!doctype html>\n<html lang=en><meta charset=utf-8><title>Certificate</title>\
         <style>{STYLE}</style>\n<h1>Faults under load</h1>\n<p>{about}</p>\n{verdict}\n\
         <p><small>{LEGEND} The lines are commits per second; the shaded part is the fault.\
         </small></p>\n<table><tr><th></th>{heads}</tr>\n{rows}</table></html>\n"
    )
}

fn about(certificate: &Certificate) -> String {
    let busy = match certificate.busy_before >= BUSY_FROM {
        true => format!(
            " The machine was busy with other things: a load of {} per core before it began.",
            number(certificate.busy_before)
        ),
        false => String::new(),
    };
    let commit = certificate.commit.get(..12).unwrap_or("unknown");
    format!(
        "{}, by: {}. Commit {commit}, seed {}, network {}, {} clients, which wait {} s for an \
         answer; {} s to come back by itself. {}. {}.{busy}",
        certificate.date,
        certificate.command,
        certificate.seed,
        certificate.topology,
        certificate.clients,
        certificate.client_patience_s,
        certificate.patience_s,
        bench::machine(&certificate.machine),
        bench::versions(&certificate.versions)
    )
}

fn data_cell(cell: &Cell) -> String {
    let is_bad = !cell.breaches().is_empty();
    let class = match (cell.rounds.is_empty(), is_bad) {
        (_, true) => " class=bad",
        (true, false) => " class=none",
        (false, false) => "",
    };
    let drawn: String = cell.rounds.iter().map(drawing).collect();
    format!("<td{class}>{}{drawn}</td>", escape(&result(cell)))
}

#[allow(clippy::cast_precision_loss)] // a trial has some hundred seconds
fn drawing(round: &Round) -> String {
    let greatest = round.series.iter().copied().fold(1.0, f64::max);
    let step = WIDTH / (round.series.len().max(2) - 1) as f64;
    let point = |(at, rate): (usize, &f64)| {
        let height = HEIGHT - HEIGHT * rate / greatest;
        format!("{:.1},{height:.1} ", at as f64 * step)
    };
    let points: String = round.series.iter().enumerate().map(point).collect();
    let (from, width) = (
        round.fault_s * step,
        (round.repair_s - round.fault_s) * step,
    );
    format!(
        "<svg width={WIDTH} height={HEIGHT}><rect x={from:.1} width={width:.1} height={HEIGHT} \
         fill=\"#f6d9a8\"/><polyline points=\"{points}\" fill=none stroke=\"#235\"/></svg>"
    )
}

fn systems(certificate: &Certificate) -> Vec<String> {
    distinct(certificate.cells.iter().map(|cell| cell.system.clone()))
}

fn faults(certificate: &Certificate) -> Vec<String> {
    distinct(certificate.cells.iter().map(name))
}

fn distinct(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    for one in all {
        if !seen.contains(&one) {
            seen.push(one);
        }
    }
    seen
}

fn name(cell: &Cell) -> String {
    format!("{} of {}", cell.fault, cell.target)
}

fn find<'a>(certificate: &'a Certificate, system: &str, fault: &str) -> Option<&'a Cell> {
    let mut cells = certificate.cells.iter();
    cells.find(|cell| cell.system == system && name(cell) == fault)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certify::plan::{Fault, Target};

    fn certificate() -> Certificate {
        let mut cell = Cell::new("synod".into(), Fault::Kill, Target::Leader);
        cell.rounds.push(Round {
            outage_s: 0.25,
            below_s: 2,
            back_s: Some(1.0),
            series: vec![10.0, 0.0, 10.0],
            fault_s: 1.0,
            repair_s: 2.0,
            ..Round::default()
        });
        let mut other = Cell::new("mgr".into(), Fault::HandOver, Target::Leader);
        other.not_tried = Some("it is <busy>".into());
        Certificate {
            cells: vec![cell, other],
            ..Certificate::default()
        }
    }

    #[test]
    fn cell_that_was_not_tried_is_a_reason_and_never_a_number() {
        let text = markdown(&certificate());
        assert!(
            text.contains("| kill of the leader | lost 0, out 0.250 s, slow 2 s"),
            "{text}"
        );
        assert!(text.contains("| not tried: it is <busy> |"), "{text}");
        // Each system has no cell of the other's fault.
        assert_eq!(text.matches("| not tried |").count(), 2, "{text}");
    }

    #[test]
    fn page_asks_for_nothing_and_says_what_is_bad() {
        let mut certificate = certificate();
        let good = page(&certificate);
        assert!(good.contains("needed no person") && good.contains("it is &lt;busy&gt;"));
        assert!(!good.contains("http") && !good.contains("src=") && !good.contains("class=bad"));
        certificate.cells[0].rounds[0].lost = Some(3);
        let bad = page(&certificate);
        assert!(bad.contains("class=bad") && bad.contains("3 acknowledged transactions lost"));
    }

    #[test]
    fn what_a_person_did_stands_in_the_cell() {
        let mut certificate = certificate();
        let round = &mut certificate.cells[0].rounds[0];
        (round.by_hand, round.back_s) = (Some("pc.bootstrap=YES".into()), None);
        let text = result(&certificate.cells[0]);
        assert!(
            text.ends_with("BY HAND: pc.bootstrap=YES, NOT BACK"),
            "{text}"
        );
    }
}
