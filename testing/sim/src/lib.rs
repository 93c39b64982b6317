//! Whole groups in one deterministic process, with injected faults.
//!
//! The simulator runs the production code of `synod-consensus`, `synod-log`, `synod-certify` and
//! `synod-member`. It replaces the network, the disks, the clocks, the scheduling and the database.
//! One seed decides everything: the members, the options, the workload, the faults, and each event.
//!
//! Rules:
//!
//! * One thread, one virtual clock, one seeded generator. Equal seeds give equal runs, and the hash
//!   of a run ([`Passed::trace_hash`]) does not depend on texts or on names of messages.
//! * The code under test acts only through its traits. Each call is recorded as an effect, in
//!   order.
//! * A checker never asks the code under test. It keeps its own account, for example of what each
//!   disk holds (`member/disk_model.rs`).
//! * Faults stay within what a correct group survives (`faults/fault_atlas.rs`). A broken rule is
//!   therefore always a bug, of production or of the simulator.
//!
//! The loop of a run, abbreviated from `world/mod.rs` and `member/member_runner.rs`:
//!
//! ```text
//! loop {
//!     let event = world.queue.pop_first();          // a message, a sync, a client, a fault
//!     let input = input_of(event);                  // an event of synod_member
//!     driver.handle(now, input);                    // production code
//!     driver.turn(now);
//!     for effect in recorded_effects {              // sends, writes, deliveries, answers
//!         check(effect);                            // one file per invariant
//!         perform(effect);                          // schedules further events
//!     }
//!     check_member(id);                             // what holds after every turn
//! }
//! ```
//!
//! A run has three phases. The group forms without faults. In the safety phase faults happen, and
//! no rule may break. In the liveness phase a random majority is healed, and must come to rest
//! within a bound.
//!
//! | folder | holds |
//! |---|---|
//! | `world/` | the event queue, the clocks, the network, the connections |
//! | `member/` | a simulated machine and the process that runs on it |
//! | `clients/` | transactions and causal reads, and what clients are answered |
//! | `faults/` | faults, the atlas that bounds them, scenes, operators |
//! | `invariants/` | what must never happen, one file per rule |
//!
//! `docs/simulation.md` says which lines of the commit path are production's, and how to use this.
//!
//! ```
//! let options = synod_sim::options_of(1);
//! let passed = synod_sim::run(1, options, false).unwrap();
//! assert!(passed.committed > 0);
//! ```
#![forbid(unsafe_code)]

mod clients;
mod expected;
mod faults;
mod invariants;
mod member;
mod options;
pub mod playground;
mod profile;
mod report;
mod run;
mod trace;
mod world;

pub use expected::missing;
pub use faults::scenes::Scene;
pub use options::{Fault, Options, OptionsError, Workload};
pub use report::{Coverage, Failed, Passed};
pub use run::{options_of, run};
pub use trace::{MessageKind, Note, Text, What};
