// Joins what the agent sends and what is drawn. The address says what is drawn: the group, or the
// member of /member/NAME.

import { html, setText } from "./elements.js";
import { History } from "./history.js";
import { memberPage } from "./member.js";
import { overview } from "./overview.js";
import { listen } from "./source.js";
import { offerThemes } from "./theme.js";
import { clock, hasDatabase } from "./words.js";

const byId = (id) => document.getElementById(id);
const history = new History();

/** What is known. `status` stays when the server stops answering: it is shown as old. */
const known = { status: null, happened: null, trouble: null, lost: null, lookedAt: null };
let shown = null;

function memberOfAddress() {
  const prefix = "/member/";
  if (!location.pathname.startsWith(prefix)) return null;
  try {
    return decodeURIComponent(location.pathname.slice(prefix.length));
  } catch {
    return location.pathname.slice(prefix.length);
  }
}

/** The part of the page that the address names; made again when it names another one. */
function part() {
  const name = memberOfAddress();
  const isOwn = name === known.status.server.name;
  const key = JSON.stringify([name, isOwn]);
  if (shown?.key !== key) {
    shown = { key, ...(name === null ? overview() : memberPage(name, isOwn)) };
    byId("main").replaceChildren(...shown.elements);
  }
  return shown;
}

function drawHead(status) {
  const { group, server } = status;
  const name = group?.name || "Synod";
  setText(byId("group"), name);
  document.title = `${memberOfAddress() ?? name} – Synod`;
  setText(byId("asked"), `as ${server.name} sees it`);
  const state = byId("state");
  const [text, mood] = outlook(group);
  setText(state, text);
  state.className = `pill ${mood}`;
}

/** Whether the group commits, and how many voters it can lose now, in the server's words. */
function outlook(group) {
  if (!group) return ["no group", "bad"];
  const words = `${group.is_primary ? "primary" : "not primary"} – ${group.outlook}`;
  if (!group.can_commit) return [words, "bad"];
  return [words, group.tolerates === 0 ? "warn" : "good"];
}

/** What a person should know first, and what to do; none: all is well. */
function alarm() {
  const { status, trouble, lost } = known;
  const old = known.lookedAt === null ? "" : ` What is below is of ${clock(known.lookedAt)}.`;
  if (lost !== null) return ["The agent does not answer.", lost + old];
  if (trouble !== null) return ["The server does not answer.", sentence(trouble) + old];
  if (status !== null && !status.group) {
    const words = "Its error log says why.";
    return [`${status.server.name} is not connected to a group.`, words];
  }
  if (status !== null && !status.group.is_primary) {
    const own = status.members.find((member) => member.is_own);
    const refuses = own && hasDatabase(own) ? "It refuses statements (error 1047). " : "";
    const words = `${refuses}${sentence(status.group.outlook)} ` +
      "Start the members that are absent; 'synod why' says what happened.";
    return [`${status.server.name} hears no leader with a majority.`, words];
  }
  // A leader that is lost is noticed before the group is.
  if (status !== null && !status.group.can_commit) {
    return ["Nothing commits at the moment.", sentence(status.group.outlook)];
  }
  return null;
}

function sentence(text) {
  const begin = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.?!]$/.test(begin) ? begin : `${begin}.`;
}

function drawAlarm() {
  const box = byId("trouble");
  const found = alarm();
  const text = JSON.stringify(found);
  if (box.dataset.text === text) return;
  box.dataset.text = text;
  box.hidden = found === null;
  const [what, why] = found ?? ["", ""];
  box.replaceChildren(html("strong", {}, what), why);
  const isOld = known.lost !== null || known.trouble !== null;
  document.documentElement.classList.toggle("old", isOld);
}

function draw() {
  drawAlarm();
  if (known.status === null) return;
  drawHead(known.status);
  part().update({ ...known, points: history.points });
}

/** Links within the page change the address only: what was gathered stays. */
function followLinks() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a");
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey;
    if (!link || !isPlain) return;
    event.preventDefault();
    window.history.pushState(null, "", link.getAttribute("href"));
    window.scrollTo(0, 0);
    draw();
  });
  window.addEventListener("popstate", draw);
}

offerThemes(byId("theme"));
followLinks();
listen({
  past: (points) => history.add(points),
  look: ({ point, status, trouble }) => {
    history.add([point]);
    known.trouble = trouble;
    if (status !== null) {
      known.status = status;
      known.lookedAt = point.at_unix_ms;
    }
    draw();
  },
  happened: (events) => {
    known.happened = events;
    draw();
  },
  lost: (why) => {
    known.lost = why;
    drawAlarm();
  },
});
