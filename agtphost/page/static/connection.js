/*
 * Says when the host does not answer or the session has ended, and goes on once both are back.
 *
 * A view stays readable while the host restarts; what was typed stays, too. When the host answers again and the session
 * is open, the view is loaded anew; with typed text only the token of its forms is, if it is the same person's. A session
 * ends with the host's process, which may be replaced between two looks: then the page waits until the person has entered
 * again, in any window of this browser. It asks after longer and longer times, and not at all while it is hidden; it asks
 * immediately when it is shown, and when a view of a new session says that it is there.
 */
import { fetched, person_of } from "./refresh.js";

const EVERY = 10_000;
const AGAIN = 1_500;

/** The longest time between two questions where no session is open. */
const SELDOM = 60_000;
const LONGEST = 5_000;

/** A file, so that the question is no request of the host's own protocol and has no record. */
const ALIVE = "/static/icon.svg";

/** The field of its answer where the browser has no session. */
const SESSION = "page-session";

/** Views of one browser say here that they have a session. */
const CHANNEL = "agtphost-session";

/** Watch the connection of a view. */
const watch_connection = () => {
  const loaded = new Date();
  const banner = document.createElement("p");
  banner.setAttribute("role", "status");
  banner.className = "connection";
  banner.hidden = true;
  document.querySelector("main").prepend(banner);

  const say = (state, text, link) => {
    if (document.documentElement.dataset.connection === state) return;
    document.documentElement.dataset.connection = state;
    banner.hidden = !text;
    banner.replaceChildren(text ?? "");
    if (link) {
      const anchor = document.createElement("a");
      anchor.href = link.href;
      anchor.textContent = link.text;
      banner.append(" ", anchor);
    }
  };

  const ask = (path, method) =>
    fetch(path, { method, cache: "no-store", credentials: "same-origin", signal: AbortSignal.timeout(LONGEST) });

  const is_typed = (field) => {
    if (field.type === "hidden" || field.type === "submit") return false;
    if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
    if (field instanceof HTMLSelectElement) {
      const chosen = Array.from(field.options).some((option) => option.defaultSelected);
      return Array.from(field.options).some((option) => chosen && option.selected !== option.defaultSelected) || (!chosen && field.selectedIndex > 0);
    }
    return field.value !== field.defaultValue;
  };

  const has_typed = () => Array.from(document.querySelectorAll("input, textarea, select")).some(is_typed);

  /** Go on with the host; false if the host has not shown the view again. */
  const go_on = async () => {
    if (!has_typed()) {
      location.reload();
      return true;
    }
    const view = (await fetched()).response;
    const token = view?.querySelector('input[name="csrf"]')?.value;
    if (!token) return false;
    const again = { href: location.href, text: "Reload the view" };
    const [before, now] = [person_of(document), person_of(view)];
    if (before !== now) {
      // With the new token a decision that is shown under one name would be on record as another person's.
      say("other", `The host answers again, and this browser is signed in as ${now} now. What you typed as ${before} is still here to be copied; its forms do nothing.`, again);
      return true;
    }
    for (const field of document.querySelectorAll('input[name="csrf"]')) field.value = token;
    say("back", "The host answers again. What you typed is still here; the rest of this view may be out of date.", again);
    return true;
  };

  let [lost, away, pause] = [false, false, 0];

  /** The time until the next question: twice the last one. */
  const later = (most) => {
    pause = Math.min(Math.max(2 * pause, AGAIN), most);
    return pause;
  };

  const look = async () => {
    let [alive, ended] = [false, false];
    try {
      const answer = await ask(ALIVE, "HEAD");
      [alive, ended] = [answer.ok, answer.headers.get(SESSION) === "none"];
    } catch {
      alive = false;
    }
    if (!alive) {
      lost = away = true;
      say("lost", `The host does not answer. Retrying; this view was loaded at ${loaded.toISOString().slice(11, 19)} UTC.`);
      return later(EVERY);
    }
    if (ended) {
      away = true;
      const why = lost ? "The host was restarted, which ended your session." : "Your session has ended.";
      say("ended", `${why} Sign in again to use this page; what you typed is kept.`, { href: "/enter", text: "Sign in again" });
      return later(SELDOM);
    }
    if (away) {
      if (!(await go_on())) return later(EVERY);
      lost = away = false;
    }
    pause = 0;
    return EVERY;
  };

  let [timer, busy, soon] = [0, false, false];

  const plan = (wait) => {
    clearTimeout(timer);
    // A page that nobody looks at asks nothing; it begins again when it is shown.
    if (document.visibilityState === "visible") timer = setTimeout(watch, wait);
  };

  const watch = async () => {
    busy = true;
    let wait = EVERY;
    try {
      wait = await look();
    } catch {
      wait = later(EVERY);
    }
    busy = false;
    plan(soon ? 0 : wait);
    soon = false;
  };

  /** Ask immediately, and soon again if that is not enough. */
  const look_now = () => {
    pause = 0;
    if (busy) soon = true;
    else plan(0);
  };

  plan(EVERY);
  for (const name of ["offline", "online"]) addEventListener(name, look_now);
  document.addEventListener("visibilitychange", look_now);
  const others = new BroadcastChannel(CHANNEL);
  others.addEventListener("message", () => { if (away) look_now(); });
  others.postMessage("open");
};

export { watch_connection };
