// Joins what the agent sends and what is drawn. The address says what is drawn: the group, or the
// member of /member/NAME.

import { html, setText } from "./elements.js";
import { History } from "./history.js";
import { memberPage } from "./member.js";
import { overview } from "./overview.js";
import { listen } from "./source.js";
import { offerThemes } from "./theme.js";
import { clock } from "./words.js";

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
  const [text, mood] = !group ? ["no group", "bad"]
    : !group.is_primary ? ["not primary", "bad"] : tolerance(status);
  setText(state, text);
  state.className = `pill ${mood}`;
}

/** How many voters the group can lose now: those that are absent are lost already. */
function tolerance({ group, members }) {
  const absent = members.filter((member) => member.is_voter && !member.is_present).length;
  const left = Math.max(0, group.tolerates - absent);
  const lost = absent === 0 ? "" : ` ${absent} of ${group.voters} voters absent,`;
  const more = absent === 0 ? ` of ${group.voters}` : " more";
  const may = left === 0 ? `none${absent === 0 ? "" : " more"}` : `${left}${more}`;
  return [`primary,${lost} ${may} may fail`, left === 0 ? "warn" : "good"];
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
    const words = "It refuses statements (error 1047) until a majority of the voters is there. " +
      "Start the members that are absent; 'synod why' says what happened.";
    return [`${status.server.name} hears no leader with a majority.`, words];
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
