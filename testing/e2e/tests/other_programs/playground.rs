//! The group in a page (`make playground`) in a browser: a person kills its leader, cuts the power,
//! and replays that by the address. `SYNOD_WRITE_DOCS=1` writes the picture for the documentation.

use serde_json::{Value, json};
use synod_e2e::browser::Browser;
use synod_e2e::{Outcome, Why, ensure, place};

/// A run with something to see: the leader was killed, and another disk is slow.
const PICTURED: &str = "#members=5&seed=3&orders=1500-d-3,2000-k-1&until=2770";
/// Larger files do not belong into a repository.
const PICTURE_BYTES_MAX: usize = 150 << 10;

/// Opens the page with a group of this address, in place of another one.
fn open(browser: &mut Browser, fragment: &str) -> Outcome {
    let page = place::workspace().join("target/playground/index.html");
    ensure(page.exists(), || "run 'make playground' first".to_owned())?;
    browser.open("about:blank")?;
    browser.open(&format!("file://{}{fragment}", page.display()))?;
    browser.wait_until("look.us > 0")
}

fn click(browser: &mut Browser, order: &str, member: &Value) -> Outcome {
    let button = format!("[data-order={order}][data-member='{member}']");
    let click = format!("document.querySelector(\"{button}\").click()");
    browser.value(&click).map(drop)
}

/// Waits until writes are acknowledged under a leader other than this one; gives its number.
fn await_leader_besides(browser: &mut Browser, old: &Value) -> Outcome<Value> {
    browser.value("window.enough = look.acknowledged + 25")?;
    browser.wait_until(&format!(
        "look.leader !== 0 && look.leader !== {old} && look.acknowledged > enough"
    ))?;
    check_nothing_lost(browser)?;
    browser.value("look.leader")
}

fn check_nothing_lost(browser: &mut Browser) -> Outcome {
    let shown = "[look.broken, look.lost, $('lost').textContent]";
    let shown = browser.value(shown)?;
    ensure(shown == json!([null, 0, "0"]), || format!("lost: {shown}"))
}

/// Replays an address to its end; gives the time, and the hash over all events.
fn replay(browser: &mut Browser, fragment: &str) -> Outcome<Value> {
    open(browser, fragment)?;
    browser.value("$('speed').value = 20")?;
    browser.wait_until("!playing")?;
    check_nothing_lost(browser)?;
    browser.value("[ms, $('hash').textContent]")
}

fn write_picture(browser: &mut Browser) -> Outcome {
    open(browser, PICTURED)?;
    browser.wait_until("!playing")?;
    let picture = browser.picture()?;
    let bytes = picture.len();
    ensure(bytes <= PICTURE_BYTES_MAX, || format!("{bytes} bytes"))?;
    let path = place::workspace().join("docs/images/playground.png");
    std::fs::write(&path, picture).why(path.display())
}

#[test]
fn killed_leader_is_replaced_and_the_address_replays_the_run() -> Outcome {
    let mut browser = Browser::start(&place::cluster_dir("playground")?.join("browser"))?;
    browser.set_colours("light")?;
    browser.resize(1180, 735, false)?;
    open(&mut browser, "#members=3&seed=7")?;
    browser.wait_until("look.acknowledged > 50")?;
    let old = browser.value("look.leader")?;
    click(&mut browser, "k", &old)?;
    let new = await_leader_besides(&mut browser, &old)?;
    let roles = format!("[look.members[{old} - 1].role, look.members[{new} - 1].role]");
    let roles = browser.value(&roles)?;
    ensure(roles == json!(["down", "leader"]), || roles.to_string())?;
    let all = json!(0);
    click(&mut browser, "s", &old)?;
    click(&mut browser, "d", &new)?;
    click(&mut browser, "p", &all)?;
    browser.wait_until("look.members.every((member) => member.role === 'down')")?;
    click(&mut browser, "s", &all)?;
    await_leader_besides(&mut browser, &all)?;

    browser.value("play(false)")?;
    let hash = browser.value("[ms, $('hash').textContent]")?;
    let address = browser.value("location.hash")?;
    let address = address.as_str().unwrap_or_default();
    for _ in 0..2 {
        let again = replay(&mut browser, address)?;
        ensure(again == hash, || format!("{address}: {hash}, then {again}"))?;
    }
    let other = replay(&mut browser, &address.replace("seed=7", "seed=8"))?;
    ensure(other[1] != hash[1], || format!("of another seed: {other}"))?;

    if std::env::var_os("SYNOD_WRITE_DOCS").is_some() {
        write_picture(&mut browser)?;
    }
    browser.resize(360, 800, true)?;
    let root = "document.documentElement";
    browser.wait_until(&format!(
        "innerWidth === 360 && {root}.scrollWidth <= innerWidth"
    ))?;
    let is_own = |url: &&String| url.starts_with("file:") || *url == "about:blank";
    let outside: Vec<_> = browser
        .requested()
        .iter()
        .filter(|url| !is_own(url))
        .collect();
    ensure(outside.is_empty(), || format!("asked for {outside:?}"))?;
    let complaints = browser.complaints();
    ensure(complaints.is_empty(), || format!("{complaints:?}"))
}
