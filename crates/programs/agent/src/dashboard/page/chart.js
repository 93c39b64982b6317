// Curves over the last minutes.

import { card, drawnToWidth, html, setText, svg } from "./elements.js";

const SPAN_MIN_MS = 60e3;
const LEFT = 54;
const TOP = 8;
const BOTTOM = 20;

/** The next number of 1, 2, 5, 10, ... that is no smaller. */
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((step) => step * power >= value * 0.999) * power;
}

/** The times of an axis: at least a minute, so that a young history does not race. */
function timesOf(points) {
  const to = points.at(-1)?.at_unix_ms ?? 0;
  const from = Math.min(points[0]?.at_unix_ms ?? to, to - SPAN_MIN_MS);
  return { from, to };
}

/** Pieces of a curve without gaps. */
function pieces(points, value) {
  const found = [[]];
  for (const point of points) {
    const y = value(point);
    if (y === null || y === undefined) found.push([]);
    else found.at(-1).push([point.at_unix_ms, y]);
  }
  return found.filter((piece) => piece.length > 0);
}

function path(piece, x, y) {
  return piece.map(([at, value], i) => `${i ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`)
    .join("");
}

function curve(piece, style, filled, x, y) {
  const line = path(piece, x, y);
  const ends = `L${x(piece.at(-1)[0])} ${y(0)}L${x(piece[0][0])} ${y(0)}Z`;
  return [
    filled ? svg("path", { class: `area ${style}`, d: line + ends }) : null,
    svg("path", { class: `curve ${style}`, d: line }),
  ];
}

/** A small curve without axes. */
export function sparkline(value) {
  const height = 34;
  const picture = svg("svg", { height, "aria-hidden": "true" });
  let points = [];
  const draw = (width) => {
    const { from, to } = timesOf(points);
    const all = pieces(points, value);
    const highest = Math.max(...all.flat().map(([, y]) => y), 0) || 1;
    const x = (at) => ((at - from) / (to - from || 1)) * width;
    const y = (v) => height - 2 - (v / highest) * (height - 5);
    picture.replaceChildren(...all.flatMap((piece) => curve(piece, "s1", true, x, y))
      .filter((part) => part !== null));
  };
  drawnToWidth(picture, draw);
  return {
    element: picture,
    update: (now) => {
      points = now;
      draw(picture.clientWidth);
    },
  };
}

/** Lines across, at nice values, with their texts. */
function scale(highest, width, y, text) {
  return [0, 0.5, 1].flatMap((share) => {
    const at = y(highest * share);
    const label = { x: LEFT - 8, y: at + 4, class: "quiet", "text-anchor": "end" };
    return [
      svg("line", { class: "axis", x1: LEFT, x2: width, y1: at, y2: at }),
      svg("text", label, text(highest * share)),
    ];
  });
}

function times(from, to, width, height) {
  const minutes = (to - from) / 60e3;
  const past = minutes < 1.5 ? "a minute ago" : `${Math.round(minutes)} min ago`;
  return [
    svg("text", { x: LEFT, y: height - 4, class: "quiet" }, past),
    svg("text", { x: width, y: height - 4, class: "quiet", "text-anchor": "end" }, "now"),
  ];
}

function legend(series, points, text) {
  return series.map(({ name, style, value }) => {
    const dot = svg("svg", { viewBox: "0 0 10 10" },
      svg("circle", { cx: 5, cy: 5, r: 4, class: style }));
    return html("span", {}, dot, `${name} `, html("b", {}, text(value(points.at(-1) ?? {}))));
  });
}

/**
 * A card with curves. `series(points)` names them: `{ name, style, value(point), filled }`; `text`
 * writes a value; `lowestTop` is the least height of the scale.
 */
export function chart({ size, title, remark, series, text, lowestTop }) {
  const height = 168;
  const picture = svg("svg", { height, role: "img", "aria-label": title });
  const names = html("div", { class: "legend" });
  const quiet = html("span", { class: "quiet" });
  const element = card(size, title, "", picture, names);
  element.querySelector("h2").append(" ", quiet);
  let points = [];
  const draw = (width) => {
    const all = series(points);
    const { from, to } = timesOf(points);
    const curves = all.map((one) => ({ ...one, pieces: pieces(points, one.value) }));
    const values = curves.flatMap((one) => one.pieces.flat().map(([, y]) => y));
    const highest = nice(Math.max(...values, lowestTop));
    const x = (at) => LEFT + ((at - from) / (to - from || 1)) * (width - LEFT);
    const y = (v) => height - BOTTOM - (v / highest) * (height - BOTTOM - TOP);
    const drawn = curves.flatMap((one) =>
      one.pieces.flatMap((piece) => curve(piece, one.style, one.filled, x, y)));
    picture.replaceChildren(...scale(highest, width, y, text), ...times(from, to, width, height),
      ...drawn.filter((part) => part !== null));
    names.replaceChildren(...legend(all, points, text));
  };
  drawnToWidth(picture, draw);
  return {
    element,
    update: (state) => {
      points = state.points;
      setText(quiet, remark ? remark(state) : "");
      draw(picture.clientWidth);
    },
  };
}
