//! `wsrep_cluster_address`: an address that is accepted can be written so that it reads the same
//! again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use synod::options::{ClusterUrl, DEFAULT_PORT, Defaults, Options};

fuzz_target!(|input: &[u8]| {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    // As the address of this node, too.
    let defaults = Defaults {
        data_dir: "/data/".to_owned(),
        node_address: text.to_owned(),
    };
    let (mut options, _) = Options::new(defaults, "").expect("defaults, whatever the address");
    let before = options.to_text();

    let Ok(url) = ClusterUrl::parse(text, DEFAULT_PORT) else {
        return;
    };
    assert_eq!(ClusterUrl::parse(&write(&url), 1).as_ref(), Ok(&url));
    if options.set_from_url(&url.options).is_err() {
        assert_eq!(options.to_text(), before);
    }
});

fn write(url: &ClusterUrl) -> String {
    let peers: Vec<String> = url.peers.iter().map(|peer| peer.to_string()).collect();
    let pairs = url.options.iter();
    let options: Vec<String> = pairs
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    format!("synod://{}?{}", peers.join(","), options.join("&"))
}
