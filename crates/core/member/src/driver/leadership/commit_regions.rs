//! Commits in several regions (decision 049), as the leader's operators see them: whether commits
//! wait for a region, or do without.

use std::collections::BTreeSet;
use std::time::Duration;

use synod_consensus::{LogIndex, MemberId, RegionWait, Time};

use super::reported::Regions;
use crate::driver::context::Context;
use crate::host::{Level, Topic};
use crate::setting::Setting;
use crate::shared::lock;

/// A state is told when it has lasted for this long.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// The voters are in fewer regions than commits are to be in.
    TooFew,
    Waits,
    GivenUp,
}

#[derive(Default)]
pub(super) struct RegionWatch {
    told: Option<Trouble>,
    /// When something else than what was told was first seen.
    changes_since: Option<Time>,
}

impl RegionWatch {
    /// News to tell now; within, none: the trouble is over.
    fn news(&mut self, now: Time, found: Option<Trouble>) -> Option<Option<Trouble>> {
        if found == self.told {
            self.changes_since = None;
            return None;
        }
        let since = *self.changes_since.get_or_insert(now);
        // A wait has lasted for as long already.
        if found != Some(Trouble::Waits) && now.since(since) < PATIENCE {
            return None;
        }
        *self = RegionWatch {
            told: found,
            changes_since: None,
        };
        Some(found)
    }

    pub(super) fn look(&mut self, ctx: &Context, regions: &Regions) {
        let found = ctx.core.is_leader().then(|| found(ctx)).flatten();
        let news = self.news(ctx.turns.now, found);
        let text = self.told.map(|told| text_of(told, ctx, regions));
        if let Some(news) = news
            && ctx.core.is_leader()
        {
            let (level, line) = match news {
                Some(_) => (Level::Warning, text.clone().unwrap_or_default()),
                None => (
                    Level::Info,
                    "each commit is in as many regions as the group asks for".to_owned(),
                ),
            };
            ctx.note(Topic::Membership, level, line);
        }
        let mut status = lock(&ctx.links.shared.status);
        status.commit_regions_trouble = text.unwrap_or_default();
        status.commits_wait_for_region = self.told == Some(Trouble::Waits);
    }
}

fn found(ctx: &Context) -> Option<Trouble> {
    let now = ctx.turns.now;
    match ctx.core.region_wait() {
        RegionWait::GivenUp { .. } => Some(Trouble::GivenUp),
        RegionWait::Waiting { since, .. } if now.since(since) >= PATIENCE => Some(Trouble::Waits),
        RegionWait::Waiting { .. } | RegionWait::None => {
            let wanted = ctx.core.config().config.settings.commit_regions.get();
            (ctx.core.regions_needed() < usize::from(wanted)).then_some(Trouble::TooFew)
        }
    }
}

fn text_of(trouble: Trouble, ctx: &Context, regions: &Regions) -> String {
    let name = |setting| ctx.links.host.setting_name(setting);
    let config = &ctx.core.config().config;
    let wanted = config.settings.commit_regions;
    let (setting, timeout) = (
        name(Setting::CommitRegions),
        name(Setting::CommitRegionsTimeout),
    );
    match trouble {
        Trouble::TooFew => format!(
            "{setting}={wanted} asks for commits in {wanted} regions, and the voters are in {}: \
             {}. Until that changes, what is committed may be lost with one region. Name the \
             region of each server ({}), or let a server of another region vote",
            ctx.core.regions_needed(),
            placed(ctx, regions, config.voters().collect()),
            name(Setting::Region)
        ),
        Trouble::Waits => format!(
            "commits wait for a voter's disk in {} regions ({setting}): a majority has what these \
             lack: {}. Start them or connect them again. Or commit without them: give {timeout} a \
             time on this server, which leads",
            ctx.core.regions_needed(),
            placed(ctx, regions, behind(ctx))
        ),
        Trouble::GivenUp => format!(
            "commits do not wait for {} regions any more, as {timeout} says: what is committed now \
             may be lost with one region. Start these or connect them again, after which commits \
             wait for them: {}",
            ctx.core.regions_needed(),
            placed(ctx, regions, behind(ctx))
        ),
    }
}

/// The voters of which the leader does not know that they have all that it has.
fn behind(ctx: &Context) -> BTreeSet<MemberId> {
    let (me, last) = (ctx.identity.me.member, ctx.core.last_id().index);
    let mut behind: BTreeSet<MemberId> = ctx.core.config().config.voters().collect();
    let has = |id, index: LogIndex| (index >= last).then_some(id);
    let own = has(me, ctx.core.durable_index());
    let others = ctx.core.progress();
    for id in others
        .filter_map(|progress| has(progress.member, progress.match_index))
        .chain(own)
    {
        behind.remove(&id);
    }
    behind
}

fn placed(ctx: &Context, regions: &Regions, members: BTreeSet<MemberId>) -> String {
    let place = |id: MemberId| {
        let name = ctx.name_of(id);
        match regions.known(id) {
            Some(Some(region)) => format!("{name} (region {region})"),
            Some(None) => format!("{name} (no region)"),
            None => format!("{name} (region not known yet)"),
        }
    };
    let names: Vec<String> = members.into_iter().map(place).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_is_told_at_once_and_other_states_when_they_have_lasted() {
        let mut watch = RegionWatch::default();
        let at = |ms| Time(9).plus(Duration::from_millis(ms));
        let few = Some(Trouble::TooFew);
        assert_eq!(watch.news(at(0), few), None);
        assert_eq!(watch.news(at(500), None), None);
        assert_eq!(watch.news(at(800), few), None);
        assert_eq!(watch.news(at(1700), few), None, "it began again");
        assert_eq!(watch.news(at(1800), few), Some(few));
        let waits = Some(Trouble::Waits);
        assert_eq!(watch.news(at(1900), waits), Some(waits));
        assert_eq!(watch.news(at(2000), waits), None);
        assert_eq!(watch.news(at(2100), None), None);
        assert_eq!(watch.news(at(3100), None), Some(None));
    }
}
