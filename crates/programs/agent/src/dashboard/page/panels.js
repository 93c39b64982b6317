// Cards with figures, tables and texts. Each is { element, update(state) }.

import { sparkline } from "./chart.js";
import { card, html, memberPath, setText } from "./elements.js";
import { answers, bytes, clock, count, micros, millis, orDash, span, stateOf } from "./words.js";

/** One big figure with a note, and its curve. */
export function tile({ id, label, value, note, curve }) {
  const shown = html("div", { class: "value", id });
  const small = html("div", { class: "note" });
  const line = curve ? sparkline(curve) : null;
  const parts = [html("div", { class: "label" }, label), shown, small, line?.element];
  return {
    element: html("section", { class: "card tile" }, ...parts),
    update: (state) => {
      setText(shown, value(state));
      setText(small, note(state));
      line?.update(state.points);
    },
  };
}

/** A table that is written again only when a text in it has changed. */
function table(columns) {
  const head = columns.map(({ title, kind }) => html("th", { class: kind }, title));
  const body = html("tbody");
  let last = "";
  const all = html("table", {}, html("thead", {}, html("tr", {}, ...head)), body);
  const element = html("div", { class: "sideways" }, all);
  const update = (rows) => {
    const texts = rows.map((row) => columns.map(({ text }) => text(row)));
    const now = JSON.stringify(texts);
    if (now === last) return;
    last = now;
    body.replaceChildren(...rows.map((row, i) => html("tr", columns.rowAttributes?.(row) ?? {},
      ...columns.map((column, j) => {
        const text = texts[i][j];
        const inside = column.link ? html("a", { href: column.link(row) }, text) : text;
        const mood = column.mood?.(row) ?? "";
        return html("td", { class: `${column.kind ?? ""} ${mood}`.trim() }, inside);
      }))));
  };
  return { element, update };
}

/** All members, one a line. */
export function members() {
  const columns = [
    { title: "member", kind: "long", text: (m) => m.name, link: (m) => memberPath(m.name) },
    { title: "role", text: (m) => m.role, mood: (m) => (m.role === "leader" ? "accent" : "") },
    { title: "state", text: (m) => stateOf(m).text, mood: (m) => stateOf(m).mood },
    { title: "lag", kind: "number", text: (m) => (answers(m) ? millis(m.lag_ms) : "–") },
    { title: "applied", kind: "number roomy", text: (m) => count(m.applied_seqno) },
    { title: "durable", kind: "number roomy", text: (m) => count(m.durable_index) },
    {
      title: "trip", kind: "number",
      text: (m) => micros(answers(m) ? m.round_trip_us : null),
    },
  ];
  columns.rowAttributes = (m) => ({
    "data-member": m.name, "data-state": stateOf(m).text, "data-role": m.role,
  });
  const rows = table(columns);
  return {
    element: card("half", "Members", "", rows.element),
    update: (state) => rows.update(state.status.members),
  };
}

/** What has happened, newest first; only what names `about`, if that is given. */
export function events(about) {
  const list = html("div", { class: "scroll", id: "events" });
  let last = null;
  return {
    element: card("half", "Events", about ? `that name ${about}` : "as this server saw them", list),
    update: (state) => {
      if (state.happened === last) return;
      last = state.happened;
      const wanted = (last ?? []).filter((event) => !about || event.text.includes(about));
      const rows = wanted.slice(-60).reverse().map(eventRow);
      list.replaceChildren(...(rows.length ? rows : [html("p", { class: "quiet" }, "None.")]));
    },
  };
}

function eventRow(event) {
  const mood = { error: "bad", warning: "warn" }[event.severity] ?? "";
  const at = new Date(event.at_unix_ms).toISOString();
  return html("div", { class: "event", "data-topic": event.topic },
    html("time", { datetime: at, title: at }, clock(event.at_unix_ms)),
    html("span", { class: `topic ${mood}` }, event.topic),
    html("span", { class: "text" }, event.text));
}

/** Which tables, rows and servers take part in conflicts. */
export function conflicts() {
  const sum = html("p", { id: "conflicts" });
  const tables = table([
    { title: "table", kind: "long", text: (t) => t.table },
    { title: "recent", kind: "number", text: (t) => count(t.recent) },
    { title: "in all", kind: "number", text: (t) => count(t.total) },
    { title: "latest", kind: "number roomy", text: (t) => clock(t.last_unix_ms) },
  ]);
  const keys = table([
    { title: "row or table", kind: "long", text: (k) => `${k.table} ${k.key}` },
    { title: "recent", kind: "number", text: (k) => count(k.recent) },
    { title: "latest", kind: "number roomy", text: (k) => clock(k.last_unix_ms) },
  ]);
  return {
    element: card("half", "Conflicts", "transactions of this server's clients that lost", sum,
      tables.element, keys.element),
    update: ({ status }) => {
      const lost = status.conflicts;
      const all = lost.refused + lost.too_old + lost.given_up + lost.aborted;
      const winners = lost.winners.map(({ name, total }) => `${name} (${count(total)})`);
      const against = winners.length ? ` They lost to ${winners.join(", ")}.` : "";
      const kinds = `${count(all - lost.aborted)} at COMMIT, ${count(lost.aborted)} while they ran`;
      const text = `${count(all)} got error 1213 since its start: ${kinds}.${against}`;
      setText(sum, all === 0 ? "None since its start." : text);
      tables.element.hidden = lost.tables.length === 0;
      tables.update(lost.tables.slice(0, 8));
      keys.element.hidden = lost.keys.length === 0;
      keys.update(lost.keys.slice(0, 8));
    },
  };
}

const STEPS = {
  queue: "handing over", order: "order and majority", certify: "certification",
  append: "write to own log", fsync: "sync of own disk", quorum: "majority's disks",
  wake: "waking the client", turn: "turn in the order", engine: "commit in InnoDB",
  release: "release", applied: "applied everywhere", apply: "apply rows", apply_turn: "apply turn",
};

/** How long each step of a commit takes. */
export function steps() {
  const rows = html("div");
  return {
    element: card("half", "Where a commit's time goes", "half of them, and 99 of 100", rows),
    update: ({ status }) => {
      const measured = status.commit_steps.filter((step) => step.samples > 0);
      const longest = Math.max(...measured.map((step) => step.p99_us), 1);
      const none = html("p", { class: "quiet" }, "No commit was measured lately.");
      rows.replaceChildren(...(measured.length
        ? measured.map((step) => stepRow(step, longest)) : [none]));
    },
  };
}

function stepRow(step, longest) {
  const part = (kind, value) => {
    const bar = html("i", { class: kind });
    bar.style.width = `${(100 * value) / longest}%`;
    return bar;
  };
  return html("div", { class: "step", title: STEPS[step.step] },
    html("span", {}, step.step),
    html("span", { class: "bar" }, part("tail", step.p99_us), part("half-of-them", step.p50_us)),
    html("span", { class: "times" }, `${micros(step.p50_us)} / ${micros(step.p99_us)}`));
}

/** Names with their values. */
export function facts(title, remark, rows) {
  const list = html("dl");
  const element = card("half", title, remark, list);
  const cells = new Map();
  return {
    element,
    update: (state) => {
      for (const [name, value] of rows(state)) {
        if (!cells.has(name)) {
          cells.set(name, html("dd"));
          list.append(html("dt", {}, name), cells.get(name));
        }
        setText(cells.get(name), orDash(value));
      }
    },
  };
}

/** What the log of the asked server holds, and the pace at which writes are taken. */
export function log() {
  return facts("Log and pace", "of the server that was asked", ({ status }) => {
    const { log, flow_control: flow, queues, commit_wait: wait } = status;
    const age = log.begins_unix_ms ? status.at_unix_ms - log.begins_unix_ms : null;
    const slow = `slowed down for ${flow.slowest ?? "a member"}`;
    return [
      ["size", `${bytes(log.bytes)} in ${log.dir}`],
      ["reaches back", `to seqno ${count(log.first_seqno)}, begun ${span(age)} ago`],
      ["last, durable index", `${count(log.last_index)}, ${count(log.durable_index)}`],
      ["writes", flow.is_active ? slow : "taken as they come"],
      ["slowed down so far", `${span(flow.paused_ms)} in ${count(flow.pauses)} times`],
      ["commits wait until", wait.in_force],
      ["waiting", `${count(queues.pending_actions)} actions for the group, ` +
        `${count(queues.apply_actions)} to be applied`],
    ];
  });
}
