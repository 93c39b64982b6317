// Numbers as people read them. What is not known is a dash.

const DASH = "–";

const known = (value) => value !== null && value !== undefined;

function digits(value) {
  if (value >= 100 || value === 0) return Math.round(value).toLocaleString("en");
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

export function count(value) {
  return known(value) ? value.toLocaleString("en") : DASH;
}

export function seqno(value) {
  return known(value) ? `seqno ${count(value)}` : DASH;
}

export function actions(value) {
  return known(value) ? `${count(value)} actions` : DASH;
}

/** How far a database lags, in time and in actions: both are known, or neither. */
export function lagOf(member) {
  if (!known(member.lag_ms)) return DASH;
  return `${millis(member.lag_ms)}, ${actions(member.lag_actions)}`;
}

export function rate(value) {
  if (!known(value)) return DASH;
  return value < 10 && value > 0 ? value.toFixed(1) : Math.round(value).toLocaleString("en");
}

/** A time given in microseconds. */
export function micros(value) {
  if (!known(value)) return DASH;
  return value >= 1e6 ? `${digits(value / 1e6)} s` : `${digits(value / 1e3)} ms`;
}

/** A time given in milliseconds. */
export function millis(value) {
  if (!known(value)) return DASH;
  if (Number.isInteger(value) && value < 1e4) return `${value.toLocaleString("en")} ms`;
  return value >= 1e4 ? span(value) : `${digits(value)} ms`;
}

/** A long time, given in milliseconds. */
export function span(value) {
  if (!known(value)) return DASH;
  for (const [unit, size] of [["d", 864e5], ["h", 36e5], ["min", 6e4]]) {
    if (value >= size) return `${(value / size).toFixed(1)} ${unit}`;
  }
  return `${Math.max(0, value / 1e3).toFixed(0)} s`;
}

export function bytes(value) {
  if (!known(value)) return DASH;
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  for (; value >= 1024 && at < units.length - 1; at += 1) value /= 1024;
  return `${at === 0 ? value : value.toFixed(1)} ${units[at]}`;
}

/** A time of day, here. */
export function clock(unixMs) {
  return new Date(unixMs).toLocaleTimeString("en-GB");
}

export function orDash(value) {
  return known(value) && value !== "" ? String(value) : DASH;
}

/** Whether a member is there, as far as anybody can know at the moment. */
export const answers = (member) => member.is_present && !member.is_silent;

export const hasDatabase = (member) => member.kind === "database";

/** What a member does, and how well that is. */
export function stateOf(member) {
  if (!member.is_present) return { text: "absent", mood: "bad" };
  if (member.is_silent) return { text: `silent ${span(member.silent_ms)}`, mood: "bad" };
  if (!hasDatabase(member)) return { text: member.kind, mood: "good" };
  const text = member.state ?? "not known";
  return { text, mood: text === "Synced" ? "good" : "warn" };
}
