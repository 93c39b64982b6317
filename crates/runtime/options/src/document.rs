//! The table of options for `docs/options.md`; a test fails when document and program differ.

use super::table::{DefaultValue, Meaning, OptionSpec, SPECS, Settable};

/// The options as Markdown tables: ours, then Galera's that work or have no effect, those that are
/// refused, and ours that no installation is expected to need.
pub fn markdown_tables() -> String {
    let (own, galera): (Vec<&OptionSpec>, Vec<&OptionSpec>) = SPECS
        .iter()
        .partition(|spec| spec.name.starts_with("synod."));
    let works = |spec: &&OptionSpec| spec.meaning == Meaning::Works;
    let ignored = |spec: &&OptionSpec| matches!(spec.meaning, Meaning::None(_));
    let refused = |spec: &&OptionSpec| matches!(spec.meaning, Meaning::Refused(_));
    let of_galera = || galera.iter().copied();
    let (experts, own): (Vec<_>, Vec<_>) = own.into_iter().partition(|spec| spec.for_experts);
    [
        section("Synod's own options", own.into_iter().filter(works)),
        section("Galera's options that work", of_galera().filter(works)),
        without_effect(of_galera().filter(ignored)),
        section("Refused options", SPECS.iter().filter(refused)),
        section("Synod's options for experts", experts.into_iter()),
    ]
    .join("\n")
}

fn section(title: &str, specs: impl Iterator<Item = &'static OptionSpec>) -> String {
    let rows: String = specs.map(row).collect();
    format!(
        "## {title}\n\n| Option | Default | Unit | Dynamic | Meaning |\n|---|---|---|---|---|\n{rows}"
    )
}

/// One row for each reason, with all options that share it.
fn without_effect(specs: impl Iterator<Item = &'static OptionSpec>) -> String {
    let mut rows: Vec<(&str, Vec<String>)> = Vec::new();
    for spec in specs {
        let Meaning::None(why) = spec.meaning else {
            continue;
        };
        let name = format!("`{}`", spec.name);
        match rows.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, names)) => names.push(name),
            None => rows.push((why, vec![name])),
        }
    }
    let mut out = "## Galera's options that are accepted without effect\n\n\
                   | Reason | Options |\n|---|---|\n"
        .to_owned();
    for (why, names) in rows {
        out.push_str(&format!("| {why} | {} |\n", names.join(", ")));
    }
    out
}

fn row(spec: &OptionSpec) -> String {
    let settable = match spec.settable {
        Settable::AtStart => "no",
        Settable::Dynamic => "yes",
        Settable::Trigger => "yes, not kept",
    };
    let about = match spec.meaning {
        Meaning::Works | Meaning::None(_) => spec.about.to_owned(),
        Meaning::Refused(why) => format!("{} Refused: {why}.", spec.about),
    };
    let (name, unit) = (spec.name, spec.unit);
    format!(
        "| `{name}` | {} | {unit} | {settable} | {about} |\n",
        default_text(spec.default)
    )
}

fn default_text(default: DefaultValue) -> String {
    match default {
        DefaultValue::Is("") => "empty".to_owned(),
        DefaultValue::Is(text) => format!("`{text}`"),
        DefaultValue::DataDir => "data directory".to_owned(),
        DefaultValue::NodeHost => "host of `wsrep_node_address`".to_owned(),
        DefaultValue::NodePort => "port of `wsrep_node_address`, or 4567".to_owned(),
        DefaultValue::AnyAtBasePort => {
            "`tcp://0.0.0.0:` and `base_port`; at `base_host` if that is a loopback address"
                .to_owned()
        }
        DefaultValue::NodeHostNextPort => "`base_host` and `base_port` + 1".to_owned(),
        DefaultValue::Timing(period) => format!("`{}`", period.default_text()),
    }
}
