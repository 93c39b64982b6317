//! Types that threads of a node wait on, and nothing else: they know no protocol.
//!
//! - [`EventCount`]: a thread sleeps until something has moved; used by delivery.
//! - [`ByteBudget`]: a thread sleeps until there is room for its bytes; used between queues.
//! - [`Pending`]: a client's thread sleeps until its action has a proposal result.
//!
//! Each can be ended for good, so that a node that stops leaves no thread asleep.

mod byte_budget;
mod event_count;
mod inbound_budgets;
mod pending;

pub(crate) use byte_budget::{BudgetShare, ByteBudget};
pub(crate) use event_count::EventCount;
pub(crate) use inbound_budgets::InboundBudgets;
pub use pending::{Pending, WaitResult};
