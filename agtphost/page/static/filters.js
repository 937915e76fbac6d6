/*
 * The filter of calls: words that complete it, and filters that this browser keeps.
 */
import { element } from "./markup.js";

const SAVED = "agtphost-filters";
const MOST_SAVED = 50;
const MOST_OPTIONS = 12;
const TIMES = ["-15m", "-1h", "-24h", "-7d", "now"];

/** The values that complete a field, of what the host knows. */
const values_of = (field, known) => {
  switch (field) {
    case "agent":
      return known.agents;
    case "caller":
      return [...known.agents, "none"];
    case "chain":
      return [...known.agents, "host"];
    case "tool":
      return known.tools;
    case "status":
      return ["2xx", "4xx", "5xx"];
    case "from":
    case "until":
      return TIMES;
    case "reads":
      return ["all", "none"];
    default:
      return [];
  }
};

const quoted = (value) => (/[\s"\\]/.test(value) ? `"${value.replace(/["\\]/g, "\\$&")}"` : value);

/** What can stand in the place of the term that ends at the caret: {text, hint}, where the text replaces the term. */
const options_for = (term, known) => {
  const colon = term.indexOf(":");
  if (colon < 0) {
    const fields = known.fields.filter((field) => field.name.startsWith(term.toLowerCase()));
    return fields.map((field) => ({ text: `${field.name}:`, hint: field.meaning }));
  }
  const [field, begun] = [term.slice(0, colon).toLowerCase(), term.slice(colon + 1).replace(/^"/, "").toLowerCase()];
  const found = values_of(field, known).filter((value) => value.toLowerCase().includes(begun));
  found.sort((one, other) => Number(other.toLowerCase().startsWith(begun)) - Number(one.toLowerCase().startsWith(begun)));
  return found.map((value) => ({ text: `${field}:${quoted(value)}`, hint: "" }));
};

/** Complete the terms of a filter while they are typed. */
const complete = (input) => {
  const list = element("ul", { role: "listbox", id: `${input.id}-options`, class: "options", hidden: "", "aria-label": "Completions" });
  input.after(list);
  for (const [name, value] of Object.entries({
    role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": list.id,
  })) input.setAttribute(name, value);
  let [known, loading, options, active] = [null, null, [], -1];

  const term = () => /(?:^|\s)((?:[^\s":]*:"[^"]*|\S*))$/.exec(input.value.slice(0, input.selectionStart))?.[1] ?? "";

  const hide = () => {
    [options, active] = [[], -1];
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };

  const mark = (next) => {
    active = next;
    for (const [at, option] of Array.from(list.children).entries()) option.setAttribute("aria-selected", String(at === active));
    if (active < 0) input.removeAttribute("aria-activedescendant");
    else input.setAttribute("aria-activedescendant", list.children[active].id);
  };

  const take = (option) => {
    const at = input.selectionStart;
    const before = input.value.slice(0, at - term().length) + option.text;
    const rest = input.value.slice(at);
    const space = option.text.endsWith(":") || rest.startsWith(" ") ? "" : " ";
    input.value = before + space + rest;
    input.setSelectionRange(before.length + space.length, before.length + space.length);
    hide();
    input.focus();
    if (option.text.endsWith(":")) offer();
  };

  const offer = () => {
    if (known === null) return;
    options = options_for(term(), known).slice(0, MOST_OPTIONS);
    if (!options.length) {
      hide();
      return;
    }
    list.replaceChildren(...options.map((option, at) => {
      const hint = option.hint ? [element("span", { class: "hint" }, ` ${option.hint}`)] : [];
      const made = element("li", { role: "option", id: `${list.id}-${at}`, "aria-selected": "false" }, element("bdi", {}, option.text), ...hint);
      made.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        take(option);
      });
      return made;
    }));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    mark(-1);
  };

  const fetched = async () => {
    try {
      const answer = await fetch(input.dataset.complete, { credentials: "same-origin", redirect: "error" });
      if (answer.ok) return await answer.json();
    } catch {
      // Without the host's words the filter is typed in full.
    }
    return { fields: [], agents: [], tools: [] };
  };

  /** Ask the host once, however often keys are pressed before it has answered. */
  const load = async () => {
    loading ??= fetched();
    known = await loading;
  };

  input.addEventListener("focus", () => load());
  input.addEventListener("input", async () => {
    await load();
    offer();
  });
  input.addEventListener("blur", hide);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" && list.hidden) {
      load().then(offer);
    } else if (!list.hidden && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      const step = event.key === "ArrowDown" ? 1 : -1;
      mark((active + step + options.length + (active < 0 && step < 0 ? 1 : 0)) % options.length);
    } else if (!list.hidden && active >= 0 && (event.key === "Enter" || event.key === "Tab")) {
      take(options[active]);
    } else if (!list.hidden && event.key === "Escape") {
      hide();
    } else return;
    event.preventDefault();
  });
};

const read_saved = () => {
  try {
    const found = JSON.parse(localStorage.getItem(SAVED) ?? "[]");
    return Array.isArray(found) ? found.filter((each) => typeof each?.name === "string" && typeof each?.query === "string") : [];
  } catch {
    return [];
  }
};

/** Keep filters by name in this browser; each is a link. */
const save = (place) => {
  const path = place.dataset.saved;
  const write = (kept) => {
    try {
      localStorage.setItem(SAVED, JSON.stringify(kept));
    } catch {
      // The list is what was kept before.
    }
    draw();
  };

  const draw = () => {
    const kept = read_saved();
    const items = kept.map((each) => {
      const forget = element("button", { type: "button", "aria-label": `Remove ${each.name}` }, "Remove");
      forget.addEventListener("click", () => write(kept.filter((other) => other.name !== each.name)));
      return element("li", {}, element("a", { href: `${path}?${new URLSearchParams(each.query)}` }, element("bdi", {}, each.name)), " ", forget);
    });
    const name = element("input", { type: "text", id: "saved-name", maxlength: "64", autocomplete: "off", dir: "auto" });
    const form = element("form", { action: path, "aria-label": "Save this filter" },
      element("p", {}, element("label", { for: "saved-name" }, "Name for this filter"), name),
      element("p", { class: "buttons" }, element("button", { type: "submit" }, "Save")));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const query = new URLSearchParams(location.search);
      query.delete("before");
      const named = name.value.trim();
      if (named) write([{ name: named, query: String(query) }, ...kept.filter((other) => other.name !== named)].slice(0, MOST_SAVED));
    });
    place.replaceChildren(items.length ? element("ul", {}, ...items) : element("p", { class: "empty" }, "No filter is saved in this browser."), form);
  };
  draw();
};

export { complete, save };
