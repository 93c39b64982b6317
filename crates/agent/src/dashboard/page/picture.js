// The group as a picture: a card for each member, in a place of its own, and a link from the leader
// to each other member with the round trip that the leader measures.

import { card, drawnToWidth, html, memberPath, setText, svg } from "./elements.js";
import { micros, millis, stateOf } from "./words.js";

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
  if (!member.is_present) return "not in the view";
  if (member.role === "logger") return "no database";
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
  const kinds = ["node", member.role, member.is_present ? "" : "absent"];
  const group = { class: kinds.join(" "), "data-node": member.name, "data-state": text };
  return svg("g", group, svg("a", { href: memberPath(member.name) }, ...body));
}

function drawLink(member, from, to) {
  const ends = { x1: from.x, y1: from.y, x2: to.x, y2: to.y };
  const parts = [svg("line", ends), svg("line", { ...ends, class: "flow" })];
  const trip = member.round_trip_us;
  if (trip !== null && trip !== undefined) {
    const [x, y] = [(from.x + to.x) / 2, (from.y + to.y) / 2];
    const text = micros(trip);
    const width = 14 + text.length * 7;
    parts.push(svg("title", {}, `from the leader to ${member.name} and back: ${text}`));
    parts.push(svg("rect", { x: x - width / 2, y: y - 11, width, height: 22, rx: 11 }));
    parts.push(svg("text", { x, y: y + 4, "text-anchor": "middle" }, text));
  }
  const kinds = ["link", member.is_present ? "" : "absent"];
  return svg("g", { class: kinds.join(" "), "data-link": member.name }, ...parts);
}

/** What the picture cannot show, in words. */
function remark(status) {
  const group = status.group;
  const leader = group?.leader;
  if (!leader) return "No leader is known.";
  const term = `${leader} leads (term ${group.term}).`;
  const hasTrips = status.members.some((member) => member.round_trip_us !== null);
  const away = "Round trips are measured by the leader: its agent shows them.";
  return hasTrips || status.members.length < 2 ? term : `${term} ${away}`;
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
    const leader = status.members.findIndex((member) => member.role === "leader");
    const links = status.members.flatMap((member, i) =>
      leader < 0 || i === leader ? [] : [drawLink(member, at[leader], at[i])]);
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
