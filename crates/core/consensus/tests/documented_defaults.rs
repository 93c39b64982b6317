//! `docs/protocol.md` states the default times; `Timing::default()` is their source.

use std::path::Path;

use synod_consensus::Timing;

/// With a comma after every three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[test]
fn documented_times_are_the_defaults() {
    let Timing {
        heartbeat_us,
        promise_us,
        election_timeout_min_us,
        election_timeout_max_us,
        retry_us,
    } = Timing::default();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/protocol.md");
    let document = std::fs::read_to_string(path).expect("the protocol's document");
    for (name, value) in [
        ("silence_us()", Timing::default().silence_us()),
        ("heartbeat_us", heartbeat_us),
        ("promise_us", promise_us),
        ("election_timeout_min_us", election_timeout_min_us),
        ("election_timeout_max_us", election_timeout_max_us),
        ("retry_us", retry_us),
    ] {
        let row = format!("| `{name}` | {} |", grouped(value));
        assert!(document.contains(&row), "docs/protocol.md lacks '{row}'");
    }
}
