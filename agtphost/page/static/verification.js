/*
 * Buttons that verify records in this browser, and compare what the view shows of them with what was signed.
 */
import * as evidence from "./evidence.js";
import { pinned } from "./entry.js";
import { element } from "./markup.js";
import { compare } from "./shown.js";

const WAIT = 750;
const TRIES = 8;

const asked = async (path, parameters) => {
  const address = Object.keys(parameters).length ? `${path}?${new URLSearchParams(parameters)}` : path;
  const answer = await fetch(address, { credentials: "same-origin", redirect: "error", headers: { Accept: "application/json" } });
  let said;
  try {
    said = await answer.json();
  } catch {
    throw new Error(`the host answered ${answer.status} without evidence`);
  }
  if (!answer.ok) throw new Error(said.explanation || `the host answered ${answer.status}`);
  return said;
};

/** Evidence of a record; a record of just now is in a checkpoint a moment later. */
const evidence_of = async (path, parameters) => {
  for (let tries = 1; ; tries++) {
    const bundle = await asked(path, parameters);
    if (!bundle.pending || tries === TRIES) return bundle;
    await new Promise((resolve) => setTimeout(resolve, WAIT));
  }
};

const MARKS = { ok: ["✓", "holds: "], note: ["•", "note: "], bad: ["✗", "does not hold: "] };

const line_of = ({ state, what, text }) => {
  const [mark, word] = MARKS[state];
  return element("li", { class: state, "data-what": what }, element("span", { "aria-hidden": "true", class: "mark" }, mark),
    element("span", { class: "aside" }, word), text);
};

const tell = (place, result, subject) => {
  const head = result.ok ? `Verified in this browser: ${subject}` : `NOT verified: ${subject}`;
  const parts = [element("p", { class: result.ok ? "ok verdict" : "bad verdict" }, head),
    element("ul", { class: "checks" }, ...result.lines.map(line_of))];
  if (result.payload) {
    parts.push(element("details", {}, element("summary", {}, "What was signed"),
      element("pre", { tabindex: "0" }, JSON.stringify(result.payload, null, 2).replace(/[\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
        (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`))));
  }
  place.replaceChildren(...parts);
  place.dataset.result = result.ok ? "ok" : "bad";
};

/** A button that verifies and a place for what came of it. */
const verifying = (host, label, subject, run) => {
  const place = element("div", { class: "result", role: "status" });
  const button = element("button", { type: "button", class: "verify" }, label);
  button.addEventListener("click", async () => {
    button.disabled = true;
    place.replaceChildren(element("p", {}, "Computing ..."));
    delete place.dataset.result;
    try {
      await run(place);
    } catch (error) {
      tell(place, { ok: false, lines: [{ state: "bad", what: "form", text: error.message }] }, subject);
    } finally {
      button.disabled = false;
      button.focus();
    }
  });
  host.append(button, place);
};

const add_comparison = (result, found) => {
  if (found === null) return;
  for (const text of found.wrong) result.lines.push({ state: "bad", what: "shown", text });
  if (found.wrong.length) result.ok = false;
  else result.lines.push({ state: "ok", what: "shown", text: `${found.compared} cells match what was signed` });
  result.lines.push({ state: "note", what: "shown", text: "names of agents are the host's word; their Agent-IDs were compared" });
};

const verify_record = (host) => {
  const audit_id = host.dataset.verify;
  verifying(host, "Verify here", `record ${audit_id}`, async (place) => {
    const bundle = await evidence_of("/evidence/record", { audit_id });
    const result = await evidence.record(bundle, pinned());
    if (bundle.record?.audit_id !== audit_id) {
      result.ok = false;
      result.lines.push({ state: "bad", what: "form", text: `the host sent a different record than ${audit_id}` });
    }
    add_comparison(result, result.payload ? compare(document.querySelector("main"), result.payload, audit_id) : null);
    tell(place, result, `record ${audit_id}`);
  });
};

const verify_range = (host) => {
  const chain = host.dataset.verifyRange;
  const whose = chain === "host" ? "the host's own chain" : chain;
  verifying(host, "Verify a range here", `records of ${whose}`, async (place) => {
    const bundle = await asked("/evidence/chain", { chain, limit: host.dataset.limit ?? "500" });
    if (bundle.pending) {
      // Of that very record: reading the chain again would find newer ones, this reading among them.
      const { inclusion, pending } = await evidence_of("/evidence/record", { audit_id: bundle.records[0].audit_id });
      Object.assign(bundle, { inclusion, pending });
    }
    const shown = element("p", {}, "Computing ...");
    place.replaceChildren(shown);
    const result = await evidence.range(bundle, pinned(), (done) => {
      if (done % 50 === 0) shown.textContent = `${done} of ${bundle.records.length} records ...`;
    });
    tell(place, result, `${bundle.records.length} records of ${whose}`);
  });
};

/** Verify each record of a list by itself, and compare its row. */
const verify_list = (host) => {
  verifying(host, "Verify what is listed here", "the records listed", async (place) => {
    const bundle = await asked(host.dataset.verifyList, {});
    const rows = Array.from(document.querySelectorAll("tr[data-record]"));
    const ring = await evidence.ring_of(bundle.keys, bundle.links, pinned());
    const state = ring.pinned ? "ok" : "note";
    const lines = [{ state, what: "key", text: `key ${ring.anchor.kid}${ring.pinned ? "" : ", which only the host vouches for"}` }];
    const entries = new Map(bundle.records.map((entry) => [entry.audit_id, entry]));
    let compared = 0;
    for (const row of rows) {
      const audit_id = row.dataset.record;
      const entry = entries.get(audit_id);
      const faults = entry ? await new evidence.Walk(ring, entry.chain).add(entry) : [{ kind: "form", text: "the host does not show it" }];
      const link = row.querySelector("a");
      if (link?.getAttribute("href") !== `/calls/${audit_id}`) faults.push({ kind: "shown", text: "the link leads to a different record" });
      if (entry && !faults.some((fault) => fault.kind === "signature" || fault.kind === "form")) {
        const found = compare(row, evidence.opened(entry, evidence.signed_octets(entry)).payload, audit_id);
        compared += found.compared;
        faults.push(...found.wrong.map((text) => ({ kind: "shown", text })));
      }
      row.classList.toggle("differs", faults.length > 0);
      for (const fault of faults) lines.push({ state: "bad", what: fault.kind, text: `record ${audit_id.slice(0, 12)}...: ${fault.text}` });
    }
    const ok = !lines.some((line) => line.state === "bad");
    if (ok) {
      lines.push({ state: "ok", what: "signature", text: `${rows.length} records: hash and signature of each` });
      lines.push({ state: "ok", what: "shown", text: `${compared} cells match what was signed` });
    }
    lines.push({ state: "note", what: "link", text: "whether records are missing between them is verified by range, in Evidence" });
    tell(place, { ok, lines: lines.slice(0, 40) }, `${rows.length} records listed`);
  });
};

export { verify_list, verify_range, verify_record };
