//! Commands and their answers as bytes.

use synod_consensus::LogIndex;

use crate::codec::{Reader, Writer};
use crate::command::{Command, CommandRefusal, Done, RefusalReason};
use crate::error::{DecodeError, EncodeError};
use crate::member_codec::NAME_MAX;
use crate::message_codec::read_leader_weight;

pub(crate) fn write_command(w: &mut Writer, command: &Command) -> Result<(), EncodeError> {
    match command {
        Command::Remove { member, force } => {
            w.u8(0);
            w.string("member", member, NAME_MAX)?;
            w.bool(*force);
        }
        Command::Promote { member } => {
            w.u8(1);
            w.string("member", member, NAME_MAX)?;
        }
        Command::Demote { member, force } => {
            w.u8(2);
            w.string("member", member, NAME_MAX)?;
            w.bool(*force);
        }
        Command::Replace { old, new, force } => {
            w.u8(3);
            w.string("member", old, NAME_MAX)?;
            w.string("member", new, NAME_MAX)?;
            w.bool(*force);
        }
        Command::TransferLeadership { to } => {
            w.u8(4);
            w.bool(to.is_some());
            if let Some(to) = to {
                w.string("member", to, NAME_MAX)?;
            }
        }
        Command::SetWeight { member, weight } => {
            w.u8(5);
            w.string("member", member, NAME_MAX)?;
            w.u8(weight.get());
        }
        Command::SetProtocol { version, force } => {
            w.u8(6);
            // Versions count from 1.
            w.u16(version.unwrap_or(0));
            w.bool(*force);
        }
        Command::Recover => w.u8(7),
        Command::Unbind { member } => {
            w.u8(8);
            w.string("member", member, NAME_MAX)?;
        }
    }
    Ok(())
}

pub(crate) fn read_command(r: &mut Reader) -> Result<Command, DecodeError> {
    Ok(match r.u8()? {
        0 => Command::Remove {
            member: r.string("member", NAME_MAX)?,
            force: r.bool()?,
        },
        1 => Command::Promote {
            member: r.string("member", NAME_MAX)?,
        },
        2 => Command::Demote {
            member: r.string("member", NAME_MAX)?,
            force: r.bool()?,
        },
        3 => Command::Replace {
            old: r.string("member", NAME_MAX)?,
            new: r.string("member", NAME_MAX)?,
            force: r.bool()?,
        },
        4 => {
            let is_named = r.bool()?;
            let to = is_named.then(|| r.string("member", NAME_MAX)).transpose()?;
            Command::TransferLeadership { to }
        }
        5 => Command::SetWeight {
            member: r.string("member", NAME_MAX)?,
            weight: read_leader_weight(r)?,
        },
        6 => {
            let version = r.u16()?;
            Command::SetProtocol {
                version: (version != 0).then_some(version),
                force: r.bool()?,
            }
        }
        7 => Command::Recover,
        8 => Command::Unbind {
            member: r.string("member", NAME_MAX)?,
        },
        code => {
            return Err(DecodeError::UnknownCode {
                what: "command",
                code,
            });
        }
    })
}

pub(crate) fn write_answer(
    w: &mut Writer,
    answer: &Result<Done, CommandRefusal>,
) -> Result<(), EncodeError> {
    match answer {
        Ok(Done::Committed { index }) => {
            w.u8(0);
            w.u64(index.0);
        }
        Ok(Done::Leads { member }) => {
            w.u8(1);
            w.string("member", member, NAME_MAX)?;
        }
        Ok(Done::WeightSet { member, weight }) => {
            w.u8(2);
            w.string("member", member, NAME_MAX)?;
            w.u8(weight.get());
        }
        Err(CommandRefusal { reason, text }) => {
            w.u8(3);
            w.u8(*reason as u8);
            w.text(text);
        }
        Ok(Done::Continues { member }) => {
            w.u8(4);
            w.string("member", member, NAME_MAX)?;
        }
    }
    Ok(())
}

pub(crate) fn read_answer(r: &mut Reader) -> Result<Result<Done, CommandRefusal>, DecodeError> {
    Ok(match r.u8()? {
        0 => Ok(Done::Committed {
            index: LogIndex(r.u64()?),
        }),
        1 => Ok(Done::Leads {
            member: r.string("member", NAME_MAX)?,
        }),
        2 => Ok(Done::WeightSet {
            member: r.string("member", NAME_MAX)?,
            weight: read_leader_weight(r)?,
        }),
        3 => Err(CommandRefusal {
            reason: read_reason(r)?,
            text: r.text()?,
        }),
        4 => Ok(Done::Continues {
            member: r.string("member", NAME_MAX)?,
        }),
        code => {
            return Err(DecodeError::UnknownCode {
                what: "answer to a command",
                code,
            });
        }
    })
}

fn read_reason(r: &mut Reader) -> Result<RefusalReason, DecodeError> {
    let code = r.u8()?;
    let reason = RefusalReason::ALL.get(usize::from(code)).copied();
    reason.ok_or(DecodeError::UnknownCode {
        what: "reason of a refusal",
        code,
    })
}
