//! Dispatches requests to their answers.

use synod_admin::protocol::{Answer, Reply, Request};
use synod_commands::carry_out;
use synod_commands::status::name_of;

use super::{recovery, status};
use crate::provider::Provider;

pub(crate) fn answer(provider: &Provider, request: Request) -> Reply {
    match request {
        Request::Status => Reply::Answer(Answer::Status(Box::new(status::gather(provider)))),
        Request::Events => Reply::Answer(Answer::Events(provider.events())),
        Request::Conflicts => {
            let members = provider.running_node().map(|node| node.status().members);
            let name = |member| name_of(members.as_deref().unwrap_or_default(), member);
            let conflicts = provider.counters().conflicts.shown(name);
            Reply::Answer(Answer::Conflicts(conflicts))
        }
        Request::RecoveryPlan => recovery::plan(provider),
        order => carry_out(provider.running_node().as_deref(), order),
    }
}
