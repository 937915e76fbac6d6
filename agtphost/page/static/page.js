/*
 * The operators' page in the browser: verifies evidence, follows the feed, draws the chart, enters by a link.
 *
 * Every view is whole without it. It asks the host for octets and believes nothing that comes with them: what it shows
 * in green it has computed here. docs/page.rst names what it cannot know: this text comes from the host as well.
 * Each part looks for its mark in the document and does nothing where it is not there.
 */
import * as evidence from "./evidence.js";
import { chart } from "./chart.js";
import { watch_connection } from "./connection.js";
import { enter } from "./entry.js";
import { follow } from "./feed.js";
import { complete, save } from "./filters.js";
import { refresh } from "./refresh.js";
import { verify_list, verify_range, verify_record } from "./verification.js";

const PARTS = [
  ["form[data-enter]", enter],
  ["[data-verify]", verify_record],
  ["[data-verify-range]", verify_range],
  ["[data-verify-list]", verify_list],
  ["table[data-live]", follow],
  ["table[data-chart]", chart],
  ["input[data-complete]", complete],
  ["[data-saved]", save],
];

const enhance = (root) => {
  for (const [mark, act] of PARTS) root.querySelectorAll(mark).forEach((found) => act(found));
};

globalThis.agtphost = Object.freeze({ evidence });
enhance(document);
document.querySelectorAll("[data-refresh]").forEach((region) => refresh(region, enhance));
// Only a view of a session has the form to sign out.
if (document.querySelector('form[action="/leave"]')) watch_connection();
document.documentElement.dataset.ready = "";
