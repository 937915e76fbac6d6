"""What a person sees at a glance: words that are broken, and what is wider than the window, by the boxes of cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tests.page.browser import Browser

WIDTHS = (390, 768, 1440)

LONGEST_WORD = 24
"""
Characters of a word that has room in every cell, and of a choice in every list; longer ones, as digests and addresses,
may be broken.
"""

BROKEN = """
const [most] = arguments;
const wrong = [];
const root = document.documentElement;
const wider = root.scrollWidth - root.clientWidth;
if (wider > 0) wrong.push(`the view is ${wider} pixels too wide`);
for (const frame of document.querySelectorAll('.wide')) {
  const over = frame.scrollWidth - frame.clientWidth;
  if (over > 0) wrong.push(`${frame.getAttribute('aria-label')}: ${over} pixels too wide`);
}
const kinds = 'th, td, dt, dd, li, p, h1, h2, h3, caption, summary, label, button';
for (const cell of document.querySelectorAll(kinds)) {
  const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (node.parentElement.closest('pre, code, .id:not(.time), .long, .aside, svg')) continue;
    if (node.parentElement.closest(kinds) !== cell) continue;
    for (const match of node.data.matchAll(/\\S+/g)) {
      if (match[0].length > most) continue;
      const range = document.createRange();
      range.setStart(node, match.index);
      range.setEnd(node, match.index + match[0].length);
      const boxes = Array.from(range.getClientRects()).filter((box) => box.width > 0.5);
      const lines = new Set(boxes.map((box) => Math.round(box.top)));
      // A hyphen and a slash are places to break at, but not in a time.
      const whole = node.parentElement.closest('.time') || !/[-\\/]/.test(match[0]);
      if (lines.size > 1 && whole) wrong.push(`broken: ${match[0]} in ${cell.localName}`);
    }
  }
}
const pen = document.createElement('canvas').getContext('2d');
for (const select of document.querySelectorAll('select')) {
  const style = getComputedStyle(select);
  pen.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  const text = select.selectedOptions[0]?.text ?? '';
  const arrow = 20;
  const room = select.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - arrow;
  if (text.length <= most && select.clientWidth && pen.measureText(text).width > room) wrong.push(`cut off: ${text}`);
}
return wrong;
"""


def faults_of_layout(browser: Browser) -> list[str]:
    """Return what is broken or too wide in the view as it is."""
    return [str(each) for each in browser.run(BROKEN, LONGEST_WORD)]


def at_each_width(browser: Browser, show: Callable[[], object], widths: Sequence[int]) -> Iterator[int]:
    """
    Show a view at one width after the other, and yield each while it is as wide.

    A style sheet heeds another width immediately. What a script draws, it draws for the width at which the view is
    shown: a view with a chart is shown again.

    :param show: opens the view, and waits for its script.
    """
    for number, width in enumerate(widths):
        browser.wide(width)
        if number == 0 or browser.all("svg.chart"):
            show()
        yield width
