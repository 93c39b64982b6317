// Elements of the page. Texts come from the group, and members choose their names: a text is only
// ever set as text, so it stays one whatever it holds.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== undefined && value !== null && value !== "") element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** An HTML element. Children are elements and texts. */
export function html(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** An SVG element. */
export function svg(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

/** Sets a text if it differs, so that what a person has marked stays marked. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A card with a title, a quiet remark beside it, and what is in it. */
export function card(size, title, remark, ...children) {
  const quiet = remark ? html("span", { class: "quiet" }, ` ${remark}`) : null;
  const heading = html("h2", {}, title, quiet);
  return html("section", { class: `card ${size}` }, heading, ...children);
}

/** A link to the page of a member. */
export function memberPath(name) {
  return `/member/${encodeURIComponent(name)}`;
}

/** Calls `draw` with the element's width, now and whenever it changes. */
export function drawnToWidth(element, draw) {
  new ResizeObserver(() => draw(element.clientWidth)).observe(element);
}
