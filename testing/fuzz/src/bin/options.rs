//! `wsrep_provider_options`: a list that is accepted is shown so that it can be given again. A list
//! that is refused changes no option.
#![no_main]

use libfuzzer_sys::fuzz_target;
use synod::options::{Defaults, Options};
use synod_fuzz::split_part;

fuzz_target!(|input: &[u8]| {
    let (first, second) = split_part(input);
    let (Ok(first), Ok(second)) = (str::from_utf8(first), str::from_utf8(second)) else {
        return;
    };
    let defaults = Defaults {
        data_dir: "/data/".to_owned(),
        node_address: "10.0.0.1".to_owned(),
    };
    let Ok((mut options, _)) = Options::new(defaults.clone(), first) else {
        return;
    };
    let shown = options.to_text();
    let (again, _) = Options::new(defaults, &shown).expect("our own listing");
    assert_eq!(again.to_text(), shown);
    let _ = options.listen_address();

    if options.set(second).is_err() {
        assert_eq!(options.to_text(), shown);
    }
});
