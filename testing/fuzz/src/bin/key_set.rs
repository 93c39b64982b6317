//! Keys of write sets: each has one encoding, and certification accepts any keys.
#![no_main]

use libfuzzer_sys::fuzz_target;
use synod_certify::{CertLimits, Certifier, Class, KeySet, KeyType, Request, Source, Verdict};
use synod_fuzz::{split_byte, split_part};

fuzz_target!(|input: &[u8]| {
    let (mode, rest) = split_byte(input);
    match mode & 1 {
        0 => check_decoding(rest),
        _ => check_certification(rest),
    }
});

fn check_decoding(bytes: &[u8]) {
    let Ok(mut keys) = KeySet::decode(bytes) else {
        return;
    };
    assert_eq!(keys.encode(), bytes);
    assert_eq!(keys.encoded_len(), bytes.len());
    // A decoded set can be added to.
    let before = keys.len();
    keys.append(&[b"a", b"b"], KeyType::Shared);
    assert!(keys.len() >= before && keys.len() <= before + 3);
    let again = KeySet::decode(&keys.encode()).expect("our own encoding");
    assert_eq!(again.len(), keys.len());
}

/// Actions of two members: a byte with member, type and age of the snapshot, then the keys.
fn check_certification(mut rest: &[u8]) {
    let mut certifier = Certifier::new(0, CertLimits::default());
    let mut last = 0;
    while !rest.is_empty() {
        let (how, after) = split_byte(rest);
        let (bytes, after) = split_part(after);
        rest = after;
        let keys = few_keys(bytes);
        let request = request(how, last, &keys);
        let verdict = certifier.certify(last + 1, &request);
        if let Verdict::Pass { depends_on } = verdict {
            last += 1;
            assert!(depends_on < last);
            certifier.ingest(last, &request);
            certifier.rollback(last);
            assert_eq!(
                certifier.certify(last, &request),
                verdict,
                "as if it had never been"
            );
            certifier.ingest(last, &request);
        }
    }
}

fn few_keys(bytes: &[u8]) -> KeySet {
    let mut keys = KeySet::new();
    for key in bytes.chunks(2) {
        let kind = KeyType::from_code(key[0] & 3).expect("four types");
        keys.append(&[b"t", &key[1..]], kind);
    }
    keys
}

fn request(how: u8, last: i64, keys: &KeySet) -> Request<'_> {
    let class = match how & 3 {
        0 | 1 => Class::WriteSet { pa_unsafe: false },
        2 => Class::WriteSet { pa_unsafe: true },
        _ => Class::TotalOrder,
    };
    let last_seen = match how >> 4 {
        15 => i64::MIN,
        14 => i64::MAX,
        behind => last - i64::from(behind),
    };
    let source = Source {
        member: u64::from(how >> 2 & 1),
        epoch: u64::from(how >> 3 & 1),
    };
    Request {
        source,
        last_seen,
        keys,
        class,
    }
}
