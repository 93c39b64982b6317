//! A program of its own, since it counts the threads of its process.

mod support;

use support::{Group, eventually};

fn node_threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| name.starts_with("synod-"))
        .collect()
}

#[test]
fn stopping_joins_every_thread() {
    let mut group = Group::of(3, "threads");
    let names = node_threads();
    for vital in [
        "synod-core",
        "synod-log",
        "synod-deliver",
        "synod-catchup",
        "synod-accept",
    ] {
        assert_eq!(
            names.iter().filter(|name| *name == vital).count(),
            3,
            "{names:?}"
        );
    }
    for member in &mut group.members {
        member.stop();
    }
    // The kernel may show a joined thread for a moment.
    eventually("the end of all threads", || node_threads().is_empty());
}
