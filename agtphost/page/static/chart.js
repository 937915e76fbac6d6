/*
 * A chart of a table of times, on which a range can be selected.
 */
import { drawn, element } from "./markup.js";

/** Numbers of a table's columns after the first, which names the minute. */
const numbers = (table) => Array.from(table.tBodies[0]?.rows ?? [], (row) => ({
  label: row.cells[0].textContent.trim(),
  values: Array.from(row.cells).slice(1).map((cell) => Number(cell.dataset.value ?? cell.textContent.replace(/[^0-9.-]/g, "")) || 0),
}));

/** The address of the view with the range from one slot to another. */
const range_address = (table, first, last) => {
  const rows = table.tBodies[0].rows;
  const address = new URL(table.dataset.base, location.href);
  address.searchParams.set("from", rows[first].dataset.from);
  address.searchParams.set("until", rows[last].dataset.until);
  return address;
};

/**
 * Let a range of slots be selected: with the pointer by drawing over them, with the keyboard by the arrow keys, with
 * Shift for more than one, and Enter.
 *
 * @return what says which slots are selected
 */
const selection = (svg, table, place) => {
  const rows = Array.from(table.tBodies[0].rows);
  const status = element("p", { class: "hint", "aria-live": "polite" }, "To choose a time range, drag over the bars, or press Shift with an arrow key and then Enter.");
  const shade = drawn("rect", { class: "selected", y: place.top, height: place.high, width: 0, x: 0 });
  svg.prepend(shade);
  let [anchor, at, drawing] = [rows.length - 1, rows.length - 1, false];
  const said = () => {
    const [first, last] = [Math.min(anchor, at), Math.max(anchor, at)];
    const sum = (column) => rows.slice(first, last + 1).reduce((total, row) => total + Number(row.cells[column].textContent), 0);
    const time = (text) => text.slice(0, 19).replace("T", " ").replace("Z", "");
    return `${time(rows[first].dataset.from)} to ${time(rows[last].dataset.until)} UTC: ${sum(1)} calls, ${sum(2)} refused`;
  };
  const show = () => {
    const [first, last] = [Math.min(anchor, at), Math.max(anchor, at)];
    shade.setAttribute("x", place.begin + first * place.step);
    shade.setAttribute("width", (last - first + 1) * place.step);
    status.textContent = said();
    svg.setAttribute("aria-valuenow", String(at + 1));
    svg.setAttribute("aria-valuetext", said());
  };
  const choose = () => location.assign(range_address(table, Math.min(anchor, at), Math.max(anchor, at)));
  const slot_at = (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * place.width;
    return Math.max(0, Math.min(rows.length - 1, Math.floor((x - place.begin) / place.step)));
  };
  for (const [name, value] of Object.entries({
    role: "slider", tabindex: "0", "aria-valuemin": "1", "aria-valuemax": String(rows.length), "aria-valuenow": String(at + 1),
    "aria-valuetext": said(), "aria-label": "Time range: arrow keys move, Shift extends, Enter applies it",
  })) svg.setAttribute(name, value);
  svg.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    [anchor, at, drawing] = [slot_at(event), slot_at(event), true];
    svg.setPointerCapture(event.pointerId);
    show();
  });
  svg.addEventListener("pointermove", (event) => {
    if (!drawing) return;
    at = slot_at(event);
    show();
  });
  svg.addEventListener("pointerup", () => {
    if (drawing) choose();
    drawing = false;
  });
  svg.addEventListener("pointercancel", () => {
    drawing = false;
  });
  svg.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1, Home: 0, End: rows.length - 1 };
    if (event.key === "Enter") choose();
    else if (event.key in moves) {
      at = Math.max(0, Math.min(rows.length - 1, moves[event.key]));
      if (!event.shiftKey) anchor = at;
      show();
    } else return;
    event.preventDefault();
  });
  return status;
};

/** The next of 1, 2, 4, 6, 8, 10, 20 ...: half of it is a number to be read as well. */
const round = (value) => {
  const unit = 10 ** Math.floor(Math.log10(value));
  return unit * [1, 2, 4, 6, 8, 10].find((step) => step * unit >= value);
};

/** A drawing of a table of minutes: bars of calls with those refused in them, and a line of the slowest. */
const chart = (table) => {
  const rows = numbers(table);
  if (!rows.length) return;
  const names = Array.from(table.tHead?.rows[0]?.cells ?? [], (cell) => cell.textContent.trim());
  // As wide as it is shown, so that its letters are as large as others.
  const width = Math.max(280, Math.min(900, (table.parentElement?.clientWidth ?? 720) - 26));
  const [height, left, foot, top] = [200, 44, 22, 12];
  const [wide, high] = [width - 2 * left, height - foot - top];
  const most = round(Math.max(1, ...rows.map((row) => row.values[0] ?? 0)));
  const slowest = round(Math.max(1, ...rows.map((row) => row.values[2] ?? 0)));
  // An hour is as wide as there is room for; of less, the newest minute is still at the right.
  const selects = table.dataset.chart === "range";
  const step = wide / (selects ? rows.length : Math.max(rows.length, 60));
  const begin = left + wide - step * rows.length;
  const title = `${names.slice(1).join(", ")} by ${names[0] ?? "minute"}; the table below has the same numbers`;
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title, class: "chart" });
  const place = { width, left, top, high, begin, step };
  const text = (x, y, anchor, words) => svg.append(drawn("text", { x, y, "text-anchor": anchor }, words));
  for (const part of [0, 0.5, 1]) {
    const y = top + high * (1 - part);
    svg.append(drawn("line", { class: "grid", x1: left, x2: width - left, y1: y, y2: y }));
    text(left - 6, y + 4, "end", (most * part).toLocaleString("en", { maximumFractionDigits: 1 }));
    if (names.length > 3) text(width - left + 6, y + 4, "start", (slowest * part).toLocaleString("en", { maximumFractionDigits: 1 }));
  }
  const points = [];
  rows.forEach((row, at) => {
    const [calls = 0, refused = 0, time = 0] = row.values;
    const bar = (name, value) => {
      const tall = (value / most) * high;
      svg.append(drawn("rect", { class: name, x: begin + at * step, y: top + high - tall, width: Math.max(step - 1, 0.5), height: tall },
        drawn("title", {}, `${row.label}: ${names.slice(1).map((name_, place) => `${name_} ${row.values[place]}`).join(", ")}`)));
    };
    bar("calls", calls);
    bar("refused", Math.min(refused, calls));
    points.push(`${begin + (at + 0.5) * step},${top + high * (1 - time / slowest)}`);
  });
  if (names.length > 3) svg.append(drawn("polyline", { class: "slow", points: points.join(" ") }));
  const named = rows.length < 12 ? [rows.length - 1] : [0, Math.floor((rows.length - 1) / 2), rows.length - 1];
  for (const at of named) text(begin + (at + 0.5) * step, height - 6, "middle", rows[at].label);
  const legend = element("figcaption", {}, ...["calls", "refused", "slow"].slice(0, names.length - 1).map((name, at) =>
    element("span", { class: `key ${name}` }, names[at + 1])));
  const heading = element("p", { class: "caption" }, table.caption?.textContent ?? "");
  const figure = element("figure", {}, heading, svg, legend);
  if (selects) figure.append(selection(svg, table, place));
  const details = element("details", {}, element("summary", {}, "Show as a table"));
  table.replaceWith(figure, details);
  details.append(table);
};

export { chart };
