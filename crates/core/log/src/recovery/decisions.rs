//! Recovery's decisions: pure functions from facts about the files to what to do.
//!
//! Each decision is a table. A test runs every combination of facts and requires exactly one
//! matching row. The reasons:
//!
//! *Torn or damaged.* A batch header states the position known durable at that moment, its *floor*.
//! A sync has returned for everything below it. Floors are also stated by the control file and by
//! the successor segment ("predecessor ends here"). A bad place below any floor was good once. So
//! it is damaged, and cutting it would break promises. Above all floors nothing was promised. A bad
//! place there is torn, and is cut. A valid record *after* the bad place proves nothing, since the
//! pages of one unsynced batch reach the disk in any order.
//!
//! *Blank.* Segments are filled with zeros before use, so zeros up to the end are simply the end.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlFact {
    Absent,
    /// Valid, and no segment was ever made.
    NotStarted,
    /// Valid, and names a first segment.
    Started,
    OtherVersion,
    Damaged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryFacts {
    pub(crate) control: ControlFact,
    /// Whether there is a segment that is not a leftover of a purge.
    pub(crate) segments: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirectoryDecision {
    Create,
    CreateFirstSegment,
    Replay,
    /// Segments without a control file: its identity and base are lost.
    RefuseControlMissing,
    /// The control file is never torn (it is replaced by renaming), so it is damaged.
    RefuseControlDamaged,
    RefuseSegmentsMissing,
    /// Written by another program version.
    RefuseVersion,
}

type DirectoryRow = (fn(ControlFact) -> bool, Option<bool>, DirectoryDecision);

const DIRECTORY_TABLE: [DirectoryRow; 8] = {
    use ControlFact as C;
    use DirectoryDecision as D;
    [
        (|c| matches!(c, C::Absent), Some(false), D::Create),
        (
            |c| matches!(c, C::Absent),
            Some(true),
            D::RefuseControlMissing,
        ),
        (
            |c| matches!(c, C::NotStarted),
            Some(false),
            D::CreateFirstSegment,
        ),
        // The crash came after the first segment got its name and before the control file said so.
        (|c| matches!(c, C::NotStarted), Some(true), D::Replay),
        (|c| matches!(c, C::Started), Some(true), D::Replay),
        (
            |c| matches!(c, C::Started),
            Some(false),
            D::RefuseSegmentsMissing,
        ),
        (|c| matches!(c, C::OtherVersion), None, D::RefuseVersion),
        (|c| matches!(c, C::Damaged), None, D::RefuseControlDamaged),
    ]
};

/// Decides about a directory. If no row matched, the answer is the safe one: refuse.
pub(crate) fn decide_directory(facts: DirectoryFacts) -> DirectoryDecision {
    directory_matches(facts)
        .next()
        .unwrap_or(DirectoryDecision::RefuseControlDamaged)
}

fn directory_matches(facts: DirectoryFacts) -> impl Iterator<Item = DirectoryDecision> {
    DIRECTORY_TABLE
        .iter()
        .filter_map(move |(control, segments, decision)| {
            let matches = control(facts.control) && segments.is_none_or(|s| s == facts.segments);
            matches.then_some(*decision)
        })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Successor {
    Missing,
    /// The stream continues in it exactly from here.
    FromHere,
    /// The stream continues in it from another place.
    FromElsewhere,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StopFacts {
    pub(crate) successor: Successor,
    /// Some floor lies above this place.
    pub(crate) below_floor: bool,
    /// Only zeros follow in this segment.
    pub(crate) blank: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopDecision {
    End,
    NextSegment,
    /// A torn tail: overwrite it with zeros, so that it can never come back, and end here.
    Cut,
    /// Something durable is missing. Refuse, and change no file.
    Damaged,
}

type StopRow = (
    &'static [Successor],
    Option<bool>,
    Option<bool>,
    StopDecision,
);

const STOP_TABLE: [StopRow; 6] = {
    use StopDecision as D;
    use Successor as S;
    [
        // successor, below_floor, blank
        (&[S::Missing], Some(false), Some(true), D::End),
        (&[S::Missing], Some(false), Some(false), D::Cut),
        // Blank or not: what a sync covered is not there.
        (&[S::Missing], Some(true), None, D::Damaged),
        // The reader does not look beyond the successor's "ends here": what follows is no fact.
        (&[S::FromHere], Some(false), None, D::NextSegment),
        // Two durable statements contradict each other.
        (&[S::FromHere], Some(true), None, D::Damaged),
        (&[S::FromElsewhere], None, None, D::Damaged),
    ]
};

pub(crate) fn decide_stop(facts: StopFacts) -> StopDecision {
    let facts = StopFacts {
        below_floor: synod_planted::planted!(CutDamage, facts.below_floor, else false),
        ..facts
    };
    stop_matches(facts).next().unwrap_or(StopDecision::Damaged)
}

fn stop_matches(facts: StopFacts) -> impl Iterator<Item = StopDecision> {
    STOP_TABLE
        .iter()
        .filter_map(move |(successors, below, blank, decision)| {
            let matches = successors.contains(&facts.successor)
                && below.is_none_or(|b| b == facts.below_floor)
                && blank.is_none_or(|b| b == facts.blank);
            matches.then_some(*decision)
        })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndFacts {
    /// The last segment that exists, or ought to, has a valid header.
    pub(crate) newest_segment_readable: bool,
    /// Some header after the damage states what was promised.
    pub(crate) statement_found: bool,
    /// Some floor lies above the place that the statement covers.
    pub(crate) floor_beyond: bool,
    /// Only zeros follow that place. Otherwise newer headers may have been there.
    pub(crate) blank_beyond: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndDecision {
    /// The newest header states all promises.
    Exact,
    /// There may have been more promises.
    Unknown,
}

/// Decides whether the promises are known. As everywhere, nothing was promised above all floors.
pub(crate) fn decide_end(facts: EndFacts) -> EndDecision {
    match facts {
        EndFacts {
            newest_segment_readable: true,
            statement_found: true,
            floor_beyond: false,
            blank_beyond: true,
        } => EndDecision::Exact,
        EndFacts { .. } => EndDecision::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directory_matches_exactly_one_row() {
        use ControlFact::*;
        for control in [Absent, NotStarted, Started, OtherVersion, Damaged] {
            for segments in [false, true] {
                let facts = DirectoryFacts { control, segments };
                assert_eq!(directory_matches(facts).count(), 1, "{facts:?}");
            }
        }
    }

    #[test]
    fn every_stop_matches_exactly_one_row() {
        use Successor::*;
        for successor in [Missing, FromHere, FromElsewhere] {
            for below_floor in [false, true] {
                for blank in [false, true] {
                    let facts = StopFacts {
                        successor,
                        below_floor,
                        blank,
                    };
                    assert_eq!(stop_matches(facts).count(), 1, "{facts:?}");
                }
            }
        }
    }

    #[test]
    fn nothing_below_a_floor_is_ever_cut_or_taken_for_the_end() {
        use Successor::*;
        for successor in [Missing, FromHere, FromElsewhere] {
            for blank in [false, true] {
                let facts = StopFacts {
                    successor,
                    below_floor: true,
                    blank,
                };
                assert_eq!(decide_stop(facts), StopDecision::Damaged);
            }
        }
    }

    #[test]
    fn promises_are_known_only_if_the_newest_statement_covers_everything_durable() {
        for bits in 0..16 {
            let facts = EndFacts {
                newest_segment_readable: bits & 1 != 0,
                statement_found: bits & 2 != 0,
                floor_beyond: bits & 4 != 0,
                blank_beyond: bits & 8 != 0,
            };
            let exact = decide_end(facts) == EndDecision::Exact;
            assert_eq!(exact, bits == 3 + 8, "{facts:?}");
        }
    }
}
