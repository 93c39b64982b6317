// The page of one member.

import { chart } from "./chart.js";
import { html, setText } from "./elements.js";
import { lagSeries } from "./overview.js";
import { conflicts, events, facts, log, steps } from "./panels.js";
import { actions, count, lagOf, micros, millis, seqno, stateOf } from "./words.js";

/** What a member's clock shows beside that of the server that was asked. */
function clockText(member) {
  const { clock_ahead_us: ahead, clock_error_us: error } = member;
  if (member.is_own) return "that of this server";
  if (ahead === null || ahead === undefined) return null;
  const side = ahead < 0 ? "behind" : "ahead of";
  return `${micros(Math.abs(ahead))} ${side} this server's, ± ${micros(error)}`;
}

const find = (state, name) => state.status.members.find((member) => member.name === name);

function membership(name) {
  return facts("Place in the group", "", (state) => {
    const member = find(state, name);
    if (!member) return [];
    return [
      ["kind", member.kind],
      ["role", member.role],
      ["votes", member.is_voter ? "yes" : "no"],
      ["state", stateOf(member).text],
      ["region", member.region],
      ["leader weight", member.weight],
      ["address", member.address],
      ["clients reach it at", member.client_address],
      ["speaks protocol", `${member.oldest_protocol ?? "?"} to ${member.newest_protocol ?? "?"}`],
      ["identity", member.id],
    ];
  });
}

function progress(name) {
  return facts("Log and database", "what is not known here is a dash", (state) => {
    const member = find(state, name);
    if (!member) return [];
    return [
      ["applied", seqno(member.applied_seqno)],
      ["flushed, by estimate", seqno(member.flushed_seqno)],
      ["lag", lagOf(member)],
      ["given, not applied", actions(member.apply_queue)],
      ["last index in its log", count(member.log_index)],
      ["durable index", count(member.durable_index)],
      ["term", member.term],
      ["round trip from here", micros(member.round_trip_us)],
      ["its clock", clockText(member)],
    ];
  });
}

/** What stands on the page of a member. More is known of the server that was asked. */
export function memberPage(name, isOwn) {
  const state = html("span", { class: "pill", id: "member-state" });
  const unknown = html("p", { class: "quiet", hidden: "hidden" },
    "The group has no member of this name.");
  const back = html("a", { href: "/" }, "← the group");
  const title = html("div", { class: "title" }, html("h1", {}, name), state, back);
  const lag = chart({
    size: "half",
    title: "Lag",
    text: millis,
    lowestTop: 10,
    series: (points) => lagSeries(points).filter((one) => one.name === name)
      .map((one) => ({ ...one, style: "s1", filled: true })),
  });
  const parts = [membership(name), progress(name), lag, events(name)];
  if (isOwn) parts.push(steps(), log(), conflicts());
  const grid = html("div", { class: "grid" }, ...parts.map((part) => part.element));
  return {
    elements: [title, unknown, grid],
    update: (now) => {
      const member = find(now, name);
      unknown.hidden = member !== undefined;
      grid.hidden = state.hidden = member === undefined;
      if (!member) return;
      const { text, mood } = stateOf(member);
      const words = member.role === "leader" ? `leader · ${text}` : text;
      setText(state, words);
      state.className = `pill ${mood}`;
      parts.forEach((part) => part.update(now));
    },
  };
}
