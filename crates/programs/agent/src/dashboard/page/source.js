// What the agent sends: looks at its server, by server-sent events.

/** After this time without a look, the agent counts as lost. It sends one each second. */
const LOST_AFTER_MS = 6e3;
const RETRY_MS = 2e3;

const REFUSALS = {
  401: "The agent wants its token. Open /?token=TOKEN once, by typing or pasting the address.",
  421: "The agent has no token, so it answers to 127.0.0.1 and localhost only.",
  503: "As many pages of this agent are open as it serves. Close some; this one tries again.",
};
const LOST =
  "This page tries again by itself. If that lasts, look at the agent on the server's machine: " +
  "systemctl status synod-agent.";

/**
 * Calls `on.past`, `on.look` and `on.happened` with what the agent sends, and `on.lost` with a
 * sentence, or null, when the agent is lost or found.
 */
export function listen(on) {
  let heardAt = Date.now();
  let refusal = null;
  const begin = () => {
    const source = new EventSource("/events");
    for (const name of ["past", "look", "happened"]) {
      source.addEventListener(name, (message) => {
        heardAt = Date.now();
        refusal = null;
        on[name](JSON.parse(message.data));
      });
    }
    source.addEventListener("error", async () => {
      if (source.readyState !== EventSource.CLOSED) return; // the browser tries again
      refusal = await refused();
      setTimeout(begin, RETRY_MS);
    });
  };
  begin();
  setInterval(() => {
    const isLost = refusal !== null || Date.now() - heardAt > LOST_AFTER_MS;
    on.lost(isLost ? (refusal ?? LOST) : null);
  }, 1e3);
}

/** Why the agent does not send: an event source does not tell. */
async function refused() {
  try {
    const answer = await fetch("/events", { method: "HEAD" });
    return REFUSALS[answer.status] ?? null;
  } catch {
    return null;
  }
}
