/*
 * A view that asks for itself again: after calls were recorded, and every few minutes in any case; not while it is hidden.
 */
import { element } from "./markup.js";

const LONGEST = 300;
const RETRY = 5;
const ENDED = [401, 403, 410];

/** The same view, as it is now, as a document of its own, in which no script runs. */
const fetched = () => new Promise((resolve, reject) => {
  const address = new URL(location.href);
  address.searchParams.set("refresh", "1");
  const request = new XMLHttpRequest();
  request.open("GET", address);
  request.responseType = "document";
  request.timeout = 30000;
  request.addEventListener("load", () => resolve(request));
  for (const name of ["error", "timeout", "abort"]) request.addEventListener(name, () => reject(new Error(name)));
  request.send();
});

/** The person that a view names in its header. */
const person_of = (view) => view.querySelector("header .person")?.textContent;

/**
 * @param region what is replaced, with the seconds that it stays in any case
 * @param enhance called with what was put in
 */
const refresh = (region, enhance) => {
  const least = Number(region.dataset.refresh);
  const note = element("p", { class: "refresh", role: "status" });
  region.before(note);
  let [changed, since, over, busy, wait] = [false, Date.now(), false, false, 0];

  const source = new EventSource("/live");
  source.addEventListener("message", () => { changed = true; });
  source.addEventListener("skipped", () => { changed = true; });
  // Without a feed nothing says whether there is something new.
  source.addEventListener("error", () => { changed = true; });
  addEventListener("pagehide", () => source.close());

  /** Whether someone is at work in what would be replaced. */
  const used = () => {
    const focus = document.activeElement;
    return region.contains(focus) && focus.matches("input, select, textarea, [role=slider]");
  };

  const replace = (made) => {
    const open = new Set(Array.from(region.querySelectorAll("details[open] > summary"), (summary) => summary.textContent));
    const focus = region.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    region.replaceChildren(...Array.from(made.childNodes, (node) => document.importNode(node, true)));
    enhance(region);
    for (const summary of region.querySelectorAll("details > summary")) {
      if (open.has(summary.textContent)) summary.parentElement.open = true;
    }
    if (focus !== null) Array.from(region.querySelectorAll("a")).find((link) => link.getAttribute("href") === focus)?.focus();
  };

  /** Try again, after longer times. */
  const later = (text) => {
    wait = Math.min(Math.max(wait * 2, RETRY), 60);
    since = Date.now() - (LONGEST - wait) * 1000;
    note.textContent = text && `${text} Retrying in ${wait} s.`;
  };

  const end = (text) => {
    over = true;
    source.close();
    note.textContent = text;
    note.classList.add("bad");
  };

  const again = async () => {
    busy = true;
    try {
      const answer = await fetched();
      const made = answer.response?.querySelector("[data-refresh]");
      const [before, now] = [person_of(document), answer.response && person_of(answer.response)];
      if (answer.status === 200 && made && before !== now) {
        end(`This browser is signed in as ${now} now, so this view of ${before} is no longer refreshed. Reload the page.`);
      } else if (answer.status === 200 && made) {
        replace(made);
        [changed, since, wait] = [false, Date.now(), 0];
        note.textContent = "";
        region.dataset.refreshed = String(Number(region.dataset.refreshed ?? 0) + 1);
      } else if (ENDED.includes(answer.status)) {
        end("Your session has ended, so this view is no longer refreshed. Reload the page to sign in.");
      } else {
        later(`The host answered ${answer.status}; this view has not been refreshed since the time that it shows.`);
      }
    } catch {
      // That the host does not answer is said by connection.js.
      later("");
    } finally {
      busy = false;
    }
  };

  setInterval(() => {
    const passed = (Date.now() - since) / 1000;
    if (over || busy || document.hidden || used()) return;
    if (passed >= LONGEST || (changed && !wait && passed >= least)) again();
  }, 1000);
};

export { fetched, person_of, refresh };
