/*
 * The live feed of calls.
 */
import { element } from "./markup.js";

const MOST_ROWS = 200;

/**
 * Follow committed calls. Each event has JSON `{cells: [text, ...], href, state}`, where `href` is of the first cell;
 * events named `skipped` say how many there were that are not shown, and `gap` that it is not known how many.
 */
const follow = (table) => {
  const body = table.tBodies[0] ?? table.appendChild(element("tbody"));
  const heads = Array.from(table.tHead?.rows[0]?.cells ?? [], (cell) => cell.textContent);
  const columns = heads.length || 1;
  const state = element("p", { class: "feed", role: "status" }, "Connecting ...");
  const pause = element("button", { type: "button", "aria-pressed": "false" }, "Pause");
  let waiting = [];
  let frame = 0;
  let missed = 0;
  table.before(pause, state);

  const row_of = ({ cells, href, kind, state: status }) => {
    const row = element("tr", kind ? { class: kind } : {});
    cells.slice(0, columns).forEach((text, at) => {
      // Only paths of this page: never what a foreign text would lead to.
      const link = at === 0 && typeof href === "string" && /^\/(?![/\\])/.test(href);
      const attributes = heads[at] ? { "data-label": heads[at] } : {};
      if (text === "-") attributes.class = "blank";
      row.append(element("td", attributes, link ? element("a", { href }, String(text)) : String(text)));
    });
    if (status) row.dataset.state = String(status);
    return row;
  };

  const skipped = (number) =>
    element("tr", { class: "skipped" }, element("td", { colspan: String(columns) }, `skipped ${number.toLocaleString("en")}`));

  const gap = () =>
    element("tr", { class: "skipped" }, element("td", { colspan: String(columns) }, "Calls may be missing here; the view Calls has all."));

  /** Once a frame, however many came: newest first, and no more than can be read. */
  const show = () => {
    frame = 0;
    const rows = waiting.splice(0).slice(-MOST_ROWS).reverse();
    if (missed) rows.push(skipped(missed));
    missed = 0;
    const first = !body.rows.length && rows.length;
    body.prepend(...rows);
    if (first && table.dataset.feed === "open") say_open();
    while (body.rows.length > MOST_ROWS) body.rows[body.rows.length - 1].remove();
  };

  const put = (row) => {
    waiting.push(row);
    if (waiting.length > 2 * MOST_ROWS) missed += waiting.splice(0, waiting.length - MOST_ROWS).length;
    if (!frame && pause.getAttribute("aria-pressed") === "false") frame = requestAnimationFrame(show);
  };

  pause.addEventListener("click", () => {
    const paused = pause.getAttribute("aria-pressed") === "false";
    pause.setAttribute("aria-pressed", String(paused));
    if (!paused && !frame) show();
  });

  /** An empty table does not tell whether nothing happened or nothing works. */
  const say_open = () => said(body.rows.length ? "Live" : "Live. No call was recorded since this view was loaded.", "open");

  const source = new EventSource(table.dataset.live);
  const said = (text, name) => {
    state.textContent = text;
    table.dataset.feed = name;
  };
  source.addEventListener("open", say_open);

  /** Why the host opens no feed any more; an EventSource does not say. Empty where it would open one, or not answer. */
  const refusal = async () => {
    const end = new AbortController();
    try {
      const answer = await fetch(table.dataset.live, { cache: "no-store", credentials: "same-origin", signal: end.signal });
      return answer.ok ? "" : String((await answer.json()).explanation ?? "");
    } catch {
      return "";
    } finally {
      end.abort();
    }
  };

  source.addEventListener("error", async () => {
    if (source.readyState !== EventSource.CLOSED) {
      said("Reconnecting ...", "again");
      return;
    }
    said("The feed has ended. Reload the page to continue.", "ended");
    const why = await refusal();
    if (why) said(`The feed has ended: ${why} Reload the page to continue.`, "ended");
  });
  source.addEventListener("message", (event) => put(row_of(JSON.parse(event.data))));
  source.addEventListener("skipped", (event) => put(skipped(Number(event.data))));
  source.addEventListener("gap", () => put(gap()));
  addEventListener("pagehide", () => source.close());
};

export { follow };
