//! Sizes for people. For all checks, and for what the program shows of a running member.

pub fn bytes_text(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] = [
        ("TiB", 1 << 40),
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
    ];
    let unit = UNITS.iter().find(|(_, size)| bytes >= *size);
    match unit {
        Some((name, size)) => format!("{:.1} {name}", bytes as f64 / *size as f64),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_in_their_unit() {
        let sizes = [17, 1023, 1024, 1536, 3 << 29, 3 << 40, u64::MAX].map(bytes_text);
        assert_eq!(
            sizes,
            [
                "17 bytes",
                "1023 bytes",
                "1.0 KiB",
                "1.5 KiB",
                "1.5 GiB",
                "3.0 TiB",
                "16777216.0 TiB"
            ]
        );
    }
}
