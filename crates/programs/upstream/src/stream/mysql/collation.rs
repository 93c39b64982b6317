//! Collations of MySQL 8 that MariaDB does not have, by their numbers.
//!
//! MySQL's default is `utf8mb4_0900_ai_ci`. MariaDB 10.11 has collations of a later version of the
//! same algorithm that differ as little: they do not pad with blanks either, and distinguish what
//! those distinguish. They are what newer MariaDB takes the names of MySQL for. For languages that
//! MariaDB has no collation of, it is that of no language.

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

/// The number in MariaDB of a collation of MySQL.
pub(super) fn in_mariadb(number: u16) -> u16 {
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
    use super::*;

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
            assert_eq!(in_mariadb(mysql), mariadb, "{names}");
        }
        assert_eq!(in_mariadb(u16::MAX), u16::MAX);
    }
}
