//! Protocol versions: which one a group speaks, and which members it may have.

mod harness;

use harness::{Options, SECOND, Sim, id, member};
use synod_consensus::{
    Config, ConfigChange, ConfigError, GroupSetting, Member, MemberId, VersionRange, Writers,
};

fn speaking(n: u64, min: u16, max: u16) -> Member {
    Member {
        versions: VersionRange { min, max },
        ..member(n)
    }
}

fn try_change(sim: &mut Sim, change: ConfigChange) -> Result<(), ConfigError> {
    let leader = sim
        .ready_leader()
        .expect("a leader, as there are no faults");
    sim.with(leader, |core, now| core.change_config(now, change))
        .map(|_| ())
}

/// Member `n` runs another program, at the same place.
fn upgrade(sim: &mut Sim, n: u64, min: u16, max: u16) -> Result<(), ConfigError> {
    let Member { name, address, .. } = member(n);
    let changed = try_change(
        sim,
        ConfigChange::Update {
            id: id(n),
            name,
            address,
            versions: VersionRange { min, max },
            certificate: None,
        },
    );
    sim.expect("level logs", 10 * SECOND, Sim::is_level);
    changed
}

fn config(sim: &Sim, node: MemberId) -> &Config {
    &sim.core(node).config().config
}

#[test]
fn group_rises_when_its_last_member_speaks_the_newer_version() {
    let mut sim = Sim::group(7, 3, Options::default());
    assert_eq!(config(&sim, id(1)).protocol, 1);
    for n in 1..=3 {
        assert_eq!(config(&sim, id(1)).newer_protocol(), None);
        upgrade(&mut sim, n, 1, 2).expect("speaks version 1, too");
    }
    assert_eq!(config(&sim, id(1)).newer_protocol(), Some(2));
    try_change(&mut sim, ConfigChange::RaiseProtocol(2)).expect("all speak it");
    sim.expect("level logs", 10 * SECOND, Sim::is_level);
    for n in 1..=3 {
        assert_eq!(config(&sim, id(n)).protocol, 2);
    }
    assert_eq!(config(&sim, id(1)).newer_protocol(), None);
}

#[test]
fn group_does_not_rise_above_what_a_member_speaks_nor_go_down() {
    let mut sim = Sim::group(7, 3, Options::default());
    upgrade(&mut sim, 1, 1, 2).expect("speaks version 1, too");
    upgrade(&mut sim, 2, 1, 2).expect("speaks version 1, too");
    let refused = try_change(&mut sim, ConfigChange::RaiseProtocol(2));
    assert!(
        matches!(refused, Err(ConfigError::Protocol { protocol: 2, .. })),
        "{refused:?}"
    );
    for older in [0, 1] {
        let refused = try_change(&mut sim, ConfigChange::RaiseProtocol(older));
        assert_eq!(refused, Err(ConfigError::ProtocolNotNewer { protocol: 1 }));
    }
}

#[test]
fn held_version_rises_by_order_only() {
    let mut sim = Sim::group(7, 3, Options::default());
    let (protocol, newer) = (1, 2);
    let change = |sim: &mut Sim, change| {
        let changed = try_change(sim, change);
        sim.expect("level logs", 10 * SECOND, Sim::is_level);
        changed
    };
    let hold = |version| ConfigChange::HoldProtocol(version);
    assert_eq!(change(&mut sim, hold(protocol)), Ok(()));
    for n in 1..=3 {
        upgrade(&mut sim, n, 1, newer).expect("speaks the group's version, too");
    }
    let held = config(&sim, id(1));
    assert_eq!(
        (held.newer_protocol(), held.due_protocol()),
        (Some(newer), None)
    );
    let by_itself = change(&mut sim, ConfigChange::RaiseProtocol(newer));
    assert_eq!(by_itself, Err(ConfigError::ProtocolHeld { protocol }));
    assert_eq!(
        change(&mut sim, hold(protocol)),
        Err(ConfigError::ProtocolHeld { protocol })
    );
    // Back to the old program, and forward again.
    upgrade(&mut sim, 2, 1, protocol).expect("speaks the group's version, too");
    let refused = change(&mut sim, hold(newer));
    assert!(
        matches!(refused, Err(ConfigError::Protocol { .. })),
        "{refused:?}"
    );
    upgrade(&mut sim, 2, 1, newer).expect("speaks the group's version, too");
    assert_eq!(change(&mut sim, hold(newer)), Ok(()));
    let older = change(&mut sim, hold(protocol));
    assert_eq!(
        older,
        Err(ConfigError::ProtocolNotNewer { protocol: newer })
    );
    assert_eq!(change(&mut sim, ConfigChange::ReleaseProtocol), Ok(()));
    let released = change(&mut sim, ConfigChange::ReleaseProtocol);
    assert_eq!(released, Err(ConfigError::ProtocolNotHeld));
    assert!((1..=3).all(|n| config(&sim, id(n)).protocol == newer));
}

#[test]
fn released_version_rises_by_itself() {
    let mut sim = Sim::group(7, 3, Options::default());
    for n in 1..=3 {
        upgrade(&mut sim, n, 1, 2).expect("speaks version 1, too");
    }
    try_change(&mut sim, ConfigChange::HoldProtocol(1)).expect("all speak it");
    sim.expect("level logs", 10 * SECOND, Sim::is_level);
    assert_eq!(config(&sim, id(1)).due_protocol(), None);
    try_change(&mut sim, ConfigChange::ReleaseProtocol).expect("it is held");
    sim.expect("level logs", 10 * SECOND, Sim::is_level);
    assert_eq!(config(&sim, id(1)).due_protocol(), Some(2));
}

#[test]
fn writers_are_set() {
    let mut sim = Sim::group(7, 3, Options::default());
    let set = |sim: &mut Sim, setting| {
        let changed = try_change(sim, ConfigChange::Set(setting));
        sim.expect("level logs", 10 * SECOND, Sim::is_level);
        changed
    };
    for setting in [Writers::Leader, Writers::Any].map(GroupSetting::Writers) {
        assert_eq!(set(&mut sim, setting), Ok(()));
        assert!((1..=3).all(|n| config(&sim, id(n)).settings.has(setting)));
        let already = ConfigError::SettingAlreadySo { setting };
        assert_eq!(set(&mut sim, setting), Err(already));
    }
}

#[test]
fn member_that_does_not_speak_the_groups_version_is_refused() {
    let mut sim = Sim::group(7, 1, Options::default());
    for (min, max) in [(2, 2), (2, 9)] {
        let newcomer = speaking(2, min, max);
        let added = ConfigChange::AddLearner {
            id: id(2),
            member: newcomer.clone(),
        };
        let refused = try_change(&mut sim, added);
        let expected = ConfigError::Protocol {
            protocol: 1,
            name: newcomer.name,
            spoken: newcomer.versions,
        };
        assert_eq!(refused, Err(expected));
    }
    let no_range = ConfigChange::AddLearner {
        id: id(2),
        member: speaking(2, 2, 1),
    };
    let refused = try_change(&mut sim, no_range);
    assert!(
        matches!(refused, Err(ConfigError::Invalid { .. })),
        "{refused:?}"
    );
    assert!(
        matches!(
            upgrade(&mut sim, 1, 2, 3),
            Err(ConfigError::Protocol { protocol: 1, .. })
        ),
        "the group speaks version 1, which that program does not"
    );
}
