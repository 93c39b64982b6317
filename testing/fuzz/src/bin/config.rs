//! Configurations as they are in the log: one encoding each.
#![no_main]

use libfuzzer_sys::fuzz_target;
use synod_consensus::Config;

fuzz_target!(|input: &[u8]| {
    let Ok(config) = Config::decode(input) else {
        return;
    };
    assert_eq!(config.encode(), input);
    let voters = config.voters().count();
    assert!(config.voters().all(|id| config.is_voter(id)));
    assert!(
        config
            .voters()
            .all(|id| config.is_sole_voter(id) == (voters == 1))
    );
});
