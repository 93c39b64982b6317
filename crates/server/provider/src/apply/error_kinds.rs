//! An error with which an action failed: what the server says of it, and whether it speaks of this
//! server's means rather than of its data.

/// Comes before each number in the server's text.
const NUMBER_MARK: &str = "Error_code: ";

/// Errors of a server that lacks disk, memory, descriptors, locks or time. Its data are as good as
/// before: the action succeeds once the lack has ended.
const LACKS: [u32; 24] = [
    // The system's, by the names of `perror`: files, disk.
    3, 5, 9, 20, 21, 23, 24, 28, 1004, // cannot create a file
    1021, // disk full
    1026, // error writing a file
    1037, // out of memory
    1038, // out of sort memory
    1041, // out of resources
    1114, // the table is full
    1135, // cannot create a thread
    1205, // lock wait timeout
    1206, // the lock table is full
    1213, // a deadlock, with another applier
    1290, // an option of this server, such as read_only, forbids it
    1317, // the execution was interrupted
    1927, // the connection was killed
    1878, // the temporary file cannot be written
    1969, // max_statement_time exceeded
];
/// Errors of a statement that finds its effect there already.
const DONE: [u32; 22] = [
    1007, // the database exists
    1008, // there is no such database
    1050, // the table exists
    1051, // there is no such table
    1054, // there is no such column
    1060, // the column exists
    1061, // the index exists
    1068, // there is a primary key
    1091, // there is nothing to drop
    1146, // there is no such table
    1176, // there is no such index
    1304, // the routine exists
    1305, // there is no such routine
    1359, // the trigger exists
    1360, // there is no such trigger
    1396, // the account exists, or there is none
    1507, // there is no such partition
    1517, // the partition exists
    1537, // the event exists
    1539, // there is no such event
    1826, // the foreign key exists
    4091, // there is no such sequence
];
/// Errors about a file or of a storage engine: the text names the cause, by a number.
const WITH_CAUSE: [u32; 6] = [
    1005, // cannot create a table
    1006, // cannot create a database
    1016, // cannot open a file
    1017, // cannot find a file
    1025, // cannot rename a file
    1030, // an error of an engine
];
/// Causes that are a lack, by the numbers of the system and of the engines.
const CAUSES: [u32; 7] = [
    12,  // out of memory
    23,  // too many open files, on the machine
    24,  // too many open files, in this process
    28,  // no space left
    128, // out of memory, in the engine
    135, // the record file is full
    147, // the lock table is full
];

/// The number of the error, from the server's text; zero: there is none.
pub(super) fn number(text: &str) -> u32 {
    let after = text.split_once(NUMBER_MARK).map(|(_, after)| after);
    let digits = after.and_then(|after| after.split(|c: char| !c.is_ascii_digit()).next());
    digits
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_default()
}

/// Whether the action failed for want of something, and not because of the data. `text` has the
/// error first; warnings after it do not count.
pub(super) fn is_lack_of_resources(text: &str) -> bool {
    let number = number(text);
    LACKS.contains(&number) || WITH_CAUSE.contains(&number) && has_lack_for_cause(text)
}

/// Whether the text names one of [`CAUSES`]: in all languages of the server, a cause is its number
/// and its name in quotes.
fn has_lack_for_cause(text: &str) -> bool {
    text.match_indices(" \"").any(|(at, _)| {
        let digits = text[..at].rsplit(|c: char| !c.is_ascii_digit()).next();
        let cause = digits.and_then(|digits| digits.parse().ok());
        cause.is_some_and(|cause| CAUSES.contains(&cause))
    })
}

/// Whether a statement failed because its effect is there already.
pub(super) fn says_that_it_is_done(text: &str) -> bool {
    DONE.contains(&number(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disk_is_a_lack_and_a_missing_row_is_not() {
        for text in [
            "The table 'f' is full, Error_code: 1114",
            "Got error 28 \"No space left on device\" from storage engine InnoDB, Error_code: 1030",
            "Can't create table `d`.`t` (errno: 28 \"No space left on device\"), Error_code: 1005",
            "Can't create database 'd' (errno: 28 \"No space left on device\"), Error_code: 1006",
            "Can't open file: './d/t.frm' (errno: 24 \"Too many open files\"), Error_code: 1016",
            "Kann Tabelle `d`.`t` nicht erzeugen (Fehler: 12 \"Cannot allocate memory\"), \
             Error_code: 1005",
            "Deadlock found when trying to get lock; try restarting transaction, Error_code: 1213",
        ] {
            assert!(is_lack_of_resources(text), "{text}");
        }
        for text in [
            "Can't find record in 't', Error_code: 1032",
            "Got error 126 \"Index file is crashed\" from storage engine, Error_code: 1030",
            "Can't create table `d`.`t` (errno: 150 \"Foreign key constraint is incorrectly \
             formed\"), Error_code: 1005",
            "Can't find record in 't', Error_code: 1032; Lock wait timeout exceeded, \
             Error_code: 1205;",
            "Duplicate entry '28 \"' for key 'PRIMARY', Error_code: 1062",
            "something without a number",
            "Error_code: x",
        ] {
            assert!(!is_lack_of_resources(text), "{text}");
        }
        assert!(says_that_it_is_done("Error_code: 1060"));
        assert!(!says_that_it_is_done("Error_code: 1114"));
        assert_eq!(number("is full, Error_code: 1114;"), 1114);
        assert_eq!(number("unknown"), 0);
    }
}
