//! The status variables of a statement, and the collations in them, from MySQL to MariaDB.
//!
//! ```text
//! code u8 | value, as long as its code says
//! ```
//! Variables that MariaDB does not know go: no reader could tell their length. Newer ones than
//! those of MySQL 9.7 end the list: their length is not known here either, and they come last.
//!
//! MySQL's default collation is `utf8mb4_0900_ai_ci`. MariaDB 10.11 has collations of a later
//! version of the same algorithm that differ as little: they do not pad with blanks either, and
//! distinguish what those distinguish. They are what newer MariaDB takes the names of MySQL for.
//! For languages that MariaDB has no collation of, it is that of no language.

use crate::stream::raw::set_explicit_defaults;

/// Bits of the session, four bytes. In MariaDB, one of them is
/// `explicit_defaults_for_timestamp`.
const FLAGS: u8 = 0;
/// The same in MySQL: one byte, in statements that say something of a column of this type.
const EXPLICIT_DEFAULTS: u8 = 16;

/// Modes of the statement, eight bytes.
const SQL_MODE: u8 = 1;
/// Three collations: of the client, the connection and the server.
const CHARSET: u8 = 4;
const CHARSET_DATABASE: u8 = 8;
const INVOKER: u8 = 11;
/// Names of schemas that the statement changes; MariaDB has no such variable.
const UPDATED_SCHEMAS: u8 = 12;
/// The first of those that only MySQL has: the number of a change, the default collation, and what
/// else a change of a schema needs there.
const OF_MYSQL_ALONE: u8 = 17;
/// Number of names that stands for too many of them.
const MANY_SCHEMAS: u8 = 254;
/// Parts of a second after the event's timestamp, three bytes; in MariaDB and in MySQL.
const MICROSECONDS: u8 = 128;
const MICROSECONDS_OF_MYSQL: u8 = 13;
/// Bits of the modes that mean the same in both; later ones do not.
const COMMON_MODES: u64 = 0xffff_ffff;

/// The variables for MariaDB; none: they are damaged.
pub(crate) fn in_mariadb(status: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(status.len());
    // MySQL's default; where it is not written, it changes nothing.
    let mut is_explicit = true;
    let mut rest = status;
    while let Some((code, after)) = rest.split_first() {
        // What follows an unknown one cannot be found.
        let Some(length) = length(*code, after) else {
            break;
        };
        let (value, after) = after.split_at_checked(length)?;
        rest = after;
        match *code {
            EXPLICIT_DEFAULTS => is_explicit = value != [0],
            UPDATED_SCHEMAS | OF_MYSQL_ALONE.. => {}
            MICROSECONDS_OF_MYSQL => {
                out.push(MICROSECONDS);
                out.extend_from_slice(value);
            }
            SQL_MODE => {
                let modes = u64::from_le_bytes(*value.first_chunk()?) & COMMON_MODES;
                out.push(SQL_MODE);
                out.extend_from_slice(&modes.to_le_bytes());
            }
            CHARSET | CHARSET_DATABASE => {
                out.push(*code);
                for number in value.chunks_exact(2) {
                    let number = u16::from_le_bytes(*number.first_chunk()?);
                    out.extend_from_slice(&collation_in_mariadb(number).to_le_bytes());
                }
            }
            code => {
                out.push(code);
                out.extend_from_slice(value);
            }
        }
    }
    set_explicit_defaults(&mut out, is_explicit);
    Some(out)
}

/// Length of the value of a variable with these first bytes; none: unknown.
fn length(code: u8, value: &[u8]) -> Option<usize> {
    let text = |from: usize| value.get(from).map(|length| 1 + usize::from(*length));
    match code {
        FLAGS | 3 | 10 => Some(4),
        SQL_MODE | 9 | 17 => Some(8),
        CHARSET => Some(6),
        5 | 6 => text(0),
        7 | CHARSET_DATABASE | 18 => Some(2),
        EXPLICIT_DEFAULTS | 19 | 20 => Some(1),
        INVOKER => {
            let user = text(0)?;
            Some(user + text(user)?)
        }
        UPDATED_SCHEMAS => match value.split_first()? {
            (&MANY_SCHEMAS, _) => Some(1),
            (count, names) => {
                let mut ends = names.iter().enumerate().filter(|(_, byte)| **byte == 0);
                match count.checked_sub(1) {
                    Some(before) => Some(2 + ends.nth(usize::from(before))?.0),
                    None => Some(1),
                }
            }
        },
        MICROSECONDS_OF_MYSQL => Some(3),
        _ => None,
    }
}

/// The first of MySQL's collations that MariaDB lacks: `utf8mb4_0900_ai_ci`.
const FIRST: u16 = 255;
const LAST: u16 = 323;
/// `utf8mb4_uca1400_nopad_ai_ci` of MariaDB; each language has eight numbers.
const ROOT: u16 = 2308;
const OF_LANGUAGE: u16 = 8;
/// From a language's first number to that which distinguishes case, accents, or both.
const ACCENTS: u16 = 2;
const ALL: u16 = 3;
/// `utf8mb4_nopad_bin`.
const BINARY: u16 = 1070;
/// MariaDB's languages in the order of MySQL, in both of its lists of them.
const LANGUAGES: [u16; 22] = [
    20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 24, 19, 23,
];
/// Start of each list: collations that distinguish neither case nor accents, and those that do
/// both.
const LIST: u16 = 256;
const LIST_OF_ALL: u16 = 279;

fn collation_in_mariadb(number: u16) -> u16 {
    let language = |list: u16| {
        let at = usize::from(number.checked_sub(list)?);
        LANGUAGES
            .get(at)
            .map(|language| ROOT + language * OF_LANGUAGE)
    };
    match number {
        ..FIRST => number,
        FIRST => ROOT,
        305 => ROOT + ACCENTS,
        309 => BINARY,
        // Of languages that MariaDB lacks: Japanese, Russian and Chinese, then pairs.
        303 | 304 | 307 | 308 => ROOT + ALL,
        310..=LAST if number % 2 == 1 => ROOT + ALL,
        LIST..=LAST => match (language(LIST_OF_ALL), language(LIST)) {
            (Some(found), _) => found + ALL,
            (None, Some(found)) => found,
            (None, None) if number == LIST_OF_ALL - 1 => ROOT + ALL,
            (None, None) => ROOT,
        },
        _ => number,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Status variables of `CREATE TABLE` in MySQL 8.0.46: flags, modes, catalog, collations,
    /// schemas, the number of the change, the default collation, and one more.
    const OF_MYSQL: &[u8] = b"\x00\x00\x00\x00\x00\x01\x20\x00\xa0\x45\x00\x00\x00\x00\x06\x03std\
        \x04\x21\x00\x21\x00\xff\x00\x0c\x01shop\x00\x11\x0e\x00\x00\x00\x00\x00\x00\x00\x12\xff\
        \x00\x13\x00";

    #[test]
    fn variables_that_mariadb_knows_stay() {
        let expected = b"\x00\x00\x00\x00\x01\x01\x20\x00\xa0\x45\x00\x00\x00\x00\x06\x03std\
            \x04\x21\x00\x21\x00\x04\x09";
        assert_eq!(in_mariadb(OF_MYSQL).as_deref(), Some(&expected[..]));
    }

    #[test]
    fn time_account_and_modes_are_those_of_mariadb() {
        let of_mysql = b"\x01\x20\x00\xa0\x45\x01\x00\x00\x00\x0b\x01u\x01h\x0c\xfe\x05\x03UTC\
            \x08\xff\x00\x0d\x11\x22\x33\x14\x01";
        let expected = b"\x01\x20\x00\xa0\x45\x00\x00\x00\x00\x0b\x01u\x01h\x05\x03UTC\
            \x08\x04\x09\x80\x11\x22\x33";
        assert_eq!(in_mariadb(of_mysql).as_deref(), Some(&expected[..]));
        assert_eq!(
            in_mariadb(b"\x0c\x00\x07\x01\x02"),
            Some(b"\x07\x01\x02".to_vec())
        );
    }

    /// Status variables of `CREATE TABLE` with such a column in MySQL 9.7.4, which appends others.
    #[test]
    fn defaults_of_timestamps_are_those_of_the_session() {
        for (of_mysql, in_flags) in [
            (
                &b"\x00\x00\x40\x00\x04\x10\x01\x11\x0c\0\0\0\0\0\0\0\x12\xff\x00"[..],
                5,
            ),
            (
                &b"\x00\x00\x40\x00\x04\x10\x00\x11\x0c\0\0\0\0\0\0\0\x12\xff\x00"[..],
                4,
            ),
            (&b"\x00\x00\x40\x00\x04\x12\xff\x00"[..], 5),
        ] {
            let expected = [0, 0, 0x40, 0, in_flags];
            assert_eq!(in_mariadb(of_mysql), Some(expected.to_vec()));
        }
    }

    #[test]
    fn variable_behind_those_of_mysql_alone_is_read() {
        let of_mysql =
            b"\x13\x01\x14\x00\x11\x0c\0\0\0\0\0\0\0\x05\x03UTC\x15what it says is not known";
        assert_eq!(in_mariadb(of_mysql), Some(b"\x05\x03UTC".to_vec()));
    }

    #[test]
    fn cut_variables_are_damaged() {
        for cut in [&b"\x01\x20"[..], b"\x04\x21\x00", b"\x0d\x01"] {
            assert_eq!(in_mariadb(cut), None);
        }
    }

    proptest! {
        #[test]
        fn made_up_variables_become_no_larger(
            status in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            if let Some(out) = in_mariadb(&status) {
                prop_assert!(out.len() <= status.len());
            }
        }
    }

    /// Numbers as MySQL 8.0.46 and MariaDB 10.11.19 show them in `information_schema`.
    #[test]
    fn collations_become_those_that_distinguish_the_same() {
        for (mysql, mariadb, names) in [
            (45, 45, "utf8mb4_general_ci"),
            (255, 2308, "0900_ai_ci, uca1400_nopad_ai_ci"),
            (256, 2468, "de_pb_0900_ai_ci, german2_nopad_ai_ci"),
            (257, 2316, "is_0900_ai_ci, icelandic_nopad_ai_ci"),
            (265, 2380, "tr_0900_ai_ci, turkish_nopad_ai_ci"),
            (271, 2428, "la_0900_ai_ci, roman_nopad_ai_ci"),
            (275, 2500, "hr_0900_ai_ci, croatian_nopad_ai_ci"),
            (277, 2492, "vi_0900_ai_ci, vietnamese_nopad_ai_ci"),
            (278, 2311, "0900_as_cs, uca1400_nopad_as_cs"),
            (279, 2471, "de_pb_0900_as_cs, german2_nopad_as_cs"),
            (300, 2495, "vi_0900_as_cs, vietnamese_nopad_as_cs"),
            (303, 2311, "ja_0900_as_cs"),
            (305, 2310, "0900_as_ci, uca1400_nopad_as_ci"),
            (306, 2308, "ru_0900_ai_ci"),
            (309, 1070, "0900_bin, nopad_bin"),
            (318, 2308, "bg_0900_ai_ci"),
            (323, 2311, "mn_cyrl_0900_as_cs"),
        ] {
            assert_eq!(collation_in_mariadb(mysql), mariadb, "{names}");
        }
        assert_eq!(collation_in_mariadb(u16::MAX), u16::MAX);
    }
}
