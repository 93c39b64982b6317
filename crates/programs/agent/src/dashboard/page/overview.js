// The page of the group.

import { chart } from "./chart.js";
import { html } from "./elements.js";
import { conflicts, events, log, members, steps, tile } from "./panels.js";
import { picture } from "./picture.js";
import { answers, bytes, micros, millis, rate, span } from "./words.js";

/** Curves of the lags, one for each member; styles stay with names. */
export function lagSeries(points) {
  const names = new Set(points.flatMap((point) => Object.keys(point.lags_ms)));
  return [...names].sort().map((name, i) => ({
    name,
    style: `s${(i % 6) + 1}`,
    value: (point) => point.lags_ms?.[name],
  }));
}

function slowest({ status }) {
  const present = status.members.filter((member) => answers(member) && member.lag_ms !== null);
  return present.sort((a, b) => b.lag_ms - a.lag_ms)[0];
}

/** How far databases lag is known while something commits. */
function lagNote(state) {
  if (!state.status.group?.can_commit) return "not known: nothing commits";
  return slowest(state)?.lag_ms ? slowest(state).name : "all databases keep up";
}

function tiles() {
  const newest = (state) => state.points.at(-1) ?? {};
  return [
    tile({
      id: "commits",
      label: "commits per second",
      value: (state) => rate(newest(state).commits_per_second),
      note: ({ status }) => `of the group, at seqno ${(status.group?.commit_seqno ?? 0)
        .toLocaleString("en")}`,
      curve: (point) => point.commits_per_second,
    }),
    tile({
      id: "latency",
      label: "commit latency",
      value: (state) =>
        micros(state.status.group?.can_commit ? newest(state).commit_p50_us : null),
      note: (state) => state.status.group?.can_commit
        ? `99 of 100 within ${micros(newest(state).commit_p99_us)}` : "nothing commits",
      curve: (point) => point.commit_p50_us,
    }),
    tile({
      id: "lag",
      label: "largest lag",
      value: (state) => millis(state.status.group?.can_commit ? slowest(state)?.lag_ms : null),
      note: lagNote,
      curve: (point) => Math.max(...Object.values(point.lags_ms), 0),
    }),
    tile({
      id: "log",
      label: "log of this server",
      value: ({ status }) => bytes(status.log.bytes),
      note: ({ status }) => status.log.begins_unix_ms
        ? `reaches back ${span(status.at_unix_ms - status.log.begins_unix_ms)}` : "",
    }),
  ];
}

/** What stands on the page of the group. */
export function overview() {
  const charts = [
    chart({
      size: "half",
      title: "Commits per second",
      text: rate,
      lowestTop: 1,
      series: () => [
        { name: "group", style: "s1", filled: true, value: (p) => p.commits_per_second },
        { name: "conflicts here", style: "s6", value: (p) => p.conflicts_per_second },
      ],
    }),
    chart({
      size: "half",
      title: "Commit latency",
      remark: ({ status }) => `clients of ${status.server.name}, until a majority has it on disk`,
      text: micros,
      lowestTop: 500,
      series: () => [
        { name: "half within", style: "s1", filled: true, value: (p) => p.commit_p50_us },
        { name: "99 of 100 within", style: "s2", value: (p) => p.commit_p99_us },
      ],
    }),
    chart({
      size: "half", title: "Lag of each database", text: millis, lowestTop: 10, series: lagSeries,
    }),
  ];
  const parts = [
    ...tiles(), picture(), members(), ...charts, steps(), events(), conflicts(), log(),
  ];
  return {
    elements: [html("div", { class: "grid" }, ...parts.map((part) => part.element))],
    update: (state) => parts.forEach((part) => part.update(state)),
  };
}
