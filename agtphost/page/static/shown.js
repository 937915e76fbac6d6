/*
 * What a view shows of a record, compared with what was signed: agtphost/page/value_text.py and display_names.py.
 */
import { element } from "./markup.js";

const LONGEST_CELL = 500;
const LONGEST_TEXT = 20000;
const LONGEST_NOTES = 200;
const MOST_MARKS = 4;
const UNSAFE = /^[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0]$/u;
const MARK = /^[\p{Mn}\p{Me}]$/u;

/** Members that every view of a record shows: one that is not there was taken away. */
const REQUIRED = ["issued_at", "called", "caller_id", "agent_id", "status", "reason"];

const UPSTREAMS = [
  ["mcp_server", ["mcp_tool", "mcp_resource", "mcp_prompt"]],
  ["a2a_agent", ["a2a_action"]],
  ["acp_server", ["acp_action"]],
];

const NAMES = {
  issued_at: "Time", called: "Call", caller_id: "Caller", agent_id: "Answered by", status: "Status", reason: "Reason",
};

const escaped = (character) => {
  const code = character.codePointAt(0);
  if (code <= 0xff) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code <= 0xffff ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
};

/** A text as views show it: what is invisible or reorders text is written out. */
const escape = (text) => {
  let marks = 0;
  return Array.from(text, (character) => {
    marks = MARK.test(character) ? marks + 1 : 0;
    const safe = character === "\n" || character === "\t" || (marks <= MOST_MARKS && !UNSAFE.test(character));
    return safe ? character : escaped(character);
  }).join("");
};

/** A value as views show it. */
const show = (value, longest = LONGEST_CELL) => {
  if (value === null || value === undefined || value === "") return "-";
  if (typeof value === "boolean") return value ? "yes" : "no";
  const characters = Array.from(typeof value === "object" ? JSON.stringify(value, null, 2) : String(value));
  const more = characters.length - longest;
  return escape(more > 0 ? `${characters.slice(0, longest).join("")} ... (${more} more characters)` : characters.join(""));
};

const target_of = (named) => {
  for (const [upstream, members] of UPSTREAMS) {
    if (!named[upstream]) continue;
    for (const member of members) if (named[member]) return `${named[upstream]}.${named[member]}`;
  }
  return String(named.tool || named.action || "");
};

/** The name of what a record reports. */
const called_of = (payload) => {
  if (payload.event_type) return String(payload.event_type);
  const named = payload.extra !== null && typeof payload.extra === "object" ? payload.extra : payload;
  const of_upstream = payload.method === "EXECUTE" || UPSTREAMS.some(([upstream]) => named[upstream]);
  const method = String(payload.requested_method || payload.method || "");
  return (of_upstream && target_of(named)) || `${method} ${payload.path ?? ""}`.trim();
};

const operator_of = (payload) =>
  payload.operator !== null && typeof payload.operator === "object" ? String(payload.operator.name ?? "") : "";

/** What views add to the name of a calling agent. */
const notes_of = (payload) => {
  const operator = operator_of(payload);
  const unproven = payload.caller_id && ["header", "none"].includes(payload.identity_assurance) ? " (unproven)" : "";
  const person = payload.acting_principal_id ? ` for ${payload.acting_principal_id}` : "";
  return show(`${unproven}${person}${operator ? ` (operator ${operator})` : ""}`, LONGEST_NOTES).trim();
};

/** Whether a place shows an agent: by a link to its Agent-ID, and by the beginning of that, or a name. */
const is_agent = (place, agent_id) => {
  const link = place.querySelector("a");
  if (!link || link.getAttribute("href") !== `/agents/${agent_id}`) return false;
  const text = link.textContent.trim();
  return !/^[0-9a-f]{12}\.\.\.$/.test(text) || agent_id.startsWith(text.slice(0, 12));
};

const as_json = (text) => {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return "";
  }
};

/** What a place must show of a record; "" where it does. */
const expected = (place, payload, audit_id) => {
  const member = place.dataset.shown;
  const text = place.textContent.trim();
  const differs = (wanted) => (text === wanted.trim() ? "" : wanted);
  switch (member) {
    case "audit_id":
      return differs(audit_id);
    case "called":
      return differs(show(called_of(payload)));
    case "caller_id": {
      const [agent_id, operator] = [payload.caller_id, operator_of(payload)];
      if (!agent_id) return differs(operator ? escape(`${operator} (operator)`) : payload.event_type ? "-" : "unnamed");
      const notes = text.slice(place.querySelector("a")?.textContent.trim().length ?? 0).trim() || "-";
      const wanted = notes_of(payload);
      if (is_agent(place, agent_id) && notes === wanted) return "";
      return wanted === "-" ? agent_id : `${agent_id} ${wanted}`;
    }
    case "agent_id":
      if (!payload.agent_id) return differs("host");
      return is_agent(place, payload.agent_id) ? "" : payload.agent_id;
    case "identity_assurance": {
      const by_key = payload[member] === "none" && payload.operator !== null && typeof payload.operator === "object";
      return differs(by_key ? "the operator's key" : show(payload[member]));
    }
    case "operator":
      return differs(escape(`${operator_of(payload)}, ${payload.operator?.key}`));
    case "previous_audit_id":
      return place.querySelector("a")?.getAttribute("href") === `/calls/${payload[member]}` ? "" : String(payload[member]);
    case "payload":
      if (as_json(text) === JSON.stringify(payload)) return "";
      return text === show(payload, LONGEST_TEXT).trim() ? "" : "another text";
    default:
      return differs(show(payload[member]));
  }
};

/**
 * Compare what is shown of a record with what was signed, and mark what differs.
 *
 * @param root the element within which the record is shown
 * @return {compared, wrong: [text, ...]}
 */
const compare = (root, payload, audit_id) => {
  const places = Array.from(root.querySelectorAll("[data-shown]"));
  const wrong = [];
  for (const place of places) {
    place.querySelector(":scope > .signed")?.remove();
    const signed = expected(place, payload, audit_id);
    place.classList.toggle("differs", signed !== "");
    if (signed === "") continue;
    const name = NAMES[place.dataset.shown] ?? place.dataset.shown.replaceAll("_", " ");
    wrong.push(`${name} shows ${JSON.stringify(place.textContent.trim().slice(0, 100))}; signed was ${signed.slice(0, 200)}`);
    place.append(element("span", { class: "signed" }, ` ✗ signed: ${signed.slice(0, 200)}`));
  }
  for (const member of REQUIRED) {
    if (!places.some((place) => place.dataset.shown === member)) {
      wrong.push(`${NAMES[member]} is missing on this page, so it cannot be compared`);
    }
  }
  return { compared: places.length, wrong };
};

export { compare };
