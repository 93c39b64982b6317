// The group as a picture: a card for each member, in a place of its own; a link from the leader to
// each other member, by which the log goes; and a link from the server that was asked to each other
// member, with the round trip that it measures.

import { card, drawnToWidth, html, memberPath, setText, svg } from "./elements.js";
import { answers, hasDatabase, micros, millis, span, stateOf } from "./words.js";

const NODE = { width: 156, height: 66 };
const SMALL = { width: 116, height: 66 };

/** Places on a ring, the first one at the top; they depend on the number alone. */
function places(number, width, height, node) {
  const begin = number === 2 ? -Math.PI : -Math.PI / 2;
  const ring = Array.from({ length: number }, (_, at) => begin - (2 * Math.PI * at) / number);
  const xs = stretched(ring.map(Math.cos), node.width / 2 + 2, width - node.width / 2 - 2);
  const ys = stretched(ring.map(Math.sin), node.height / 2 + 2, height - node.height / 2 - 2);
  return xs.map((x, at) => ({ x, y: ys[at] }));
}

/** Values moved and stretched so that they reach from `low` to `high`. */
function stretched(values, low, high) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  if (most - least < 0.01) return values.map(() => (low + high) / 2);
  return values.map((value) => low + ((value - least) / (most - least)) * (high - low));
}

function shortened(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function lagText(member) {
  if (!answers(member)) {
    return member.silent_ms === null ? "never heard" : `heard ${span(member.silent_ms)} ago`;
  }
  if (!hasDatabase(member)) return "no database";
  return `lag ${millis(member.lag_ms)}`;
}

function drawNode(member, place, node) {
  const { text, mood } = stateOf(member);
  const [x, y] = [place.x - node.width / 2, place.y - node.height / 2];
  const most = node === SMALL ? 11 : 17;
  const role = member.role === "leader" ? "leader" : member.is_voter ? "" : member.role;
  const words = role && role !== text ? [role, text] : [text];
  const left = x + 14;
  const body = [
    svg("title", {}, `${member.name}: ${words.join(", ")}`),
    svg("rect", { x, y, width: node.width, height: node.height, rx: 10 }),
    svg("rect", { class: `mark ${mood}`, x: x + 5, y: y + 9, width: 4, height: 48, rx: 2 }),
    svg("text", { class: "name", x: left, y: y + 22 }, shortened(member.name, most)),
    svg("text", { class: role === "leader" ? "accent" : mood, x: left, y: y + 40 },
      shortened(words.join(" · "), most + 4)),
    svg("text", { class: "quiet", x: left, y: y + 56 }, lagText(member)),
  ];
  const kinds = ["node", member.role, answers(member) ? "" : "absent"];
  const group = { class: kinds.join(" "), "data-node": member.name, "data-state": text };
  return svg("g", group, svg("a", { href: memberPath(member.name) }, ...body));
}

/** A link to a member: it carries the log, or shows the round trip from the server asked. */
function drawLink(member, from, to, { flow, trip }) {
  const ends = { x1: from.x, y1: from.y, x2: to.x, y2: to.y };
  const parts = [svg("line", ends)];
  if (flow) parts.push(svg("line", { ...ends, class: "flow" }));
  if (trip !== null && trip !== undefined) {
    const [x, y] = [(from.x + to.x) / 2, (from.y + to.y) / 2];
    const text = micros(trip);
    const width = 14 + text.length * 7;
    parts.push(svg("title", {}, `from the server asked to ${member.name} and back: ${text}`));
    parts.push(svg("rect", { x: x - width / 2, y: y - 11, width, height: 22, rx: 11 }));
    parts.push(svg("text", { x, y: y + 4, "text-anchor": "middle" }, text));
  }
  const kinds = ["link", flow ? "" : "measured", answers(member) ? "" : "absent"];
  return svg("g", { class: kinds.join(" "), "data-link": member.name }, ...parts);
}

/** The links of the leader, and those of the server that was asked. */
function drawLinks(members, at) {
  const leader = members.findIndex((member) => member.role === "leader");
  const own = members.findIndex((member) => member.is_own);
  return members.flatMap((member, i) => {
    const trip = member.round_trip_us;
    // One link is both: that between the leader and the server that was asked.
    const measures = own >= 0 && i !== own && i !== leader && own !== leader
      ? [drawLink(member, at[own], at[i], { flow: false, trip })] : [];
    if (leader < 0 || i === leader) return measures;
    const far = i === own ? members[leader] : member;
    const isMeasured = i === own || own === leader;
    const ofBoth = { flow: true, trip: isMeasured ? far.round_trip_us : null };
    return [drawLink(isMeasured ? far : member, at[leader], at[i], ofBoth), ...measures];
  });
}

/** What the picture cannot show, in words. */
function remark(status) {
  const { leader, term } = status.group ?? {};
  return leader ? `${leader} leads (term ${term}).` : "No leader is known.";
}

/** The card with the picture. */
export function picture() {
  const drawing = svg("svg", { role: "img", "aria-label": "The members and their links" });
  const words = html("p", { class: "quiet", id: "leadership" });
  const element = card("half", "The group", "", drawing, words);
  let status = null;
  let flows = false;
  const draw = (width) => {
    if (status === null || width === 0) return;
    const node = width < 520 ? SMALL : NODE;
    const height = status.members.length < 3 ? 120 : 230;
    drawing.setAttribute("height", height);
    drawing.setAttribute("class", flows ? "" : "still");
    const at = places(status.members.length, width, height, node);
    const links = drawLinks(status.members, at);
    const nodes = status.members.map((member, i) => drawNode(member, at[i], node));
    drawing.replaceChildren(...links, ...nodes);
  };
  drawnToWidth(drawing, draw);
  return {
    element,
    update: (state) => {
      status = state.status;
      flows = (state.points.at(-1)?.commits_per_second ?? 0) > 0;
      setText(words, remark(status));
      draw(drawing.clientWidth);
    },
  };
}
