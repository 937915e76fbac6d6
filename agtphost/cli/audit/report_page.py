"""The page of ``agtp audit report``: one HTML file without scripts and without external resources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from html import escape

from agtphost.audit.summaries import EVENT
from agtphost.audit.verify import Report
from agtphost.cli.audit.entries import HOST
from agtphost.cli.audit.record_table import Row
from agtphost.cli.output import visible

FAULTS = 200
"""Most faults in the page; ``agtp audit verify --file EXPORT --json`` has all."""

STYLE = """
:root { color-scheme: light dark; --good: #0a6b2d; --bad: #b00020; --line: #8884; }
@media (prefers-color-scheme: dark) { :root { --good: #5fd38a; --bad: #ff8a8a; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; font-size: 0.85rem; }
th, td { text-align: left; vertical-align: top; padding: 0.25rem 0.75rem 0.25rem 0; }
tr { border-bottom: 1px solid var(--line); }
code, pre { font: 0.8rem/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
pre { white-space: pre-wrap; }
.verdict { border: 2px solid; border-radius: 0.5rem; padding: 0.75rem 1rem; }
.good { color: var(--good); } .bad { color: var(--bad); }
@media print { body { margin: 0; max-width: none; font-size: 11px; } }
"""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The export that a page reports on."""

    server_id: str
    file: str
    digest: str
    """SHA-256 of the export, in hexadecimal digits."""

    keys_known: bool
    """Whether the keys come from a source other than the export."""

    keys: Mapping[str, str]
    """The trusted keys, base64url by key identifier."""


def page(subject: Subject, report: Report, rows: Callable[[], Iterable[Row]], most: int) -> Iterator[str]:
    """
    Yield the page in pieces.

    :param rows: returns an iterator over all rows, in the order of the export, at each call.
    :param most: most rows to show; the newest are chosen.
    """
    title = f"Audit report of {_text(subject.server_id)}"
    yield (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<style>{STYLE}</style></head>\n<body><main>\n<h1>{title}</h1>\n"
    )
    yield from _verdict(subject, report)
    counted = _RowCounts(rows(), most)
    yield from _summary(report, counted)
    yield from _chains(report)
    yield from _calls(counted)
    yield from _instructions(subject, report)
    yield "</main></body></html>\n"


class _RowCounts:
    """Counts over all rows, and the newest rows."""

    def __init__(self, rows: Iterable[Row], most: int) -> None:
        newest: list[tuple[str, int, Row]] = []
        self.statuses: Counter[str] = Counter()
        self.callers: Counter[str] = Counter()
        self.called: Counter[str] = Counter()
        self.summed_up: Counter[str] = Counter()
        self.first, self.last, self.total = "", "", 0
        for row in rows:
            self.total += 1
            if row.kind == "record":
                self.statuses[f"{row.status} {row.reason}".strip()] += 1
                self.callers[row.who or "(no proven name)"] += 1
                self.called[row.called] += 1
            elif row.counted:
                self.summed_up[row.called] += row.counted
            self.first = min(self.first or row.time, row.time)
            self.last = max(self.last, row.time)
            heappush(newest, (row.time, self.total, row))
            if len(newest) > most:
                heappop(newest)
        # The file is sorted by chain, but people read by time.
        self.newest = [row for _, _, row in sorted(newest, reverse=True)]


def _text(text: object) -> str:
    """Escape text that callers sent, so that neither a terminal nor a browser interprets it."""
    return escape(visible(str(text)))


def _verdict(subject: Subject, report: Report) -> Iterator[str]:
    kind = "good" if report.ok else "bad"
    yield f'<section class="verdict {kind}"><strong>'
    yield "Verified." if report.ok else f"Not verified: {len(report.faults)} faults."
    yield f"</strong> {report.records} records"
    if not report.ok:
        yield ": see the faults below; do not rely on any part of this export until they are explained"
    yield ".<br>"
    if not subject.keys_known:
        yield (
            "The keys come from the file itself: this shows that it is undamaged, but not who signed it. "
            "Compare the keys below with those that the host published.<br>"
        )
    yield (
        "Every chain is complete: no record is missing between its first and its last."
        if report.whole
        else "This is a selection of records; whether it is complete cannot be checked."
    )
    if report.log:
        yield f"<br>{report.proven} of {report.records} records are proven to be in the log {_text(report.log)}."
    yield "</section>\n"
    if report.faults:
        yield "<h2>Faults</h2>\n<table><tr><th>Chain</th><th>Record</th><th>Fault</th></tr>\n"
        for fault in report.faults[:FAULTS]:
            where = f"{fault.seq or ''} <code>{_text(fault.audit_id)}</code>"
            yield f'<tr><td>{_text(fault.chain or HOST)}</td><td>{where}</td><td class="bad">'
            yield f"{_text(fault.explanation)}</td></tr>\n"
        yield "</table>\n"
        if len(report.faults) > FAULTS:
            yield f"<p>and {len(report.faults) - FAULTS} more.</p>\n"


def _summary(report: Report, counted: _RowCounts) -> Iterator[str]:
    yield f"<h2>Summary</h2>\n<p>From {_text(counted.first or '-')} until {_text(counted.last or '-')}.</p>\n"
    for event, count in sorted(counted.summed_up.items()):
        what = "refused requests" if event == EVENT else "repeated reads"
        yield f"<p>Summaries count {count:,} {what} without a separate record.</p>\n"
    for name, counter in (("Callers", counted.callers), ("Called", counted.called), ("Answers", counted.statuses)):
        yield f"<h3>{name}</h3>\n<table><tr><th>{name}</th><th>Records</th></tr>\n"
        for value, count in counter.most_common(20):
            yield f"<tr><td>{_text(value)}</td><td>{count}</td></tr>\n"
        rest = len(counter) - 20
        yield "</table>\n" + (f"<p>and {rest} more.</p>\n" if rest > 0 else "")


def _chains(report: Report) -> Iterator[str]:
    yield "<h2>Chains</h2>\n<table><tr><th>Chain</th><th>Records up to</th><th>Newest</th><th>Its Audit-ID</th></tr>\n"
    for chain, end in sorted(report.heads.items()):
        yield f"<tr><td><code>{_text(chain or HOST)}</code></td><td>{end.seq}</td><td>{_text(end.issued_at)}</td>"
        yield f"<td><code>{_text(end.audit_id)}</code></td></tr>\n"
    yield "</table>\n"


def _calls(counted: _RowCounts) -> Iterator[str]:
    yield "<h2>Calls and events</h2>\n"
    if len(counted.newest) < counted.total:
        yield f"<p>{len(counted.newest)} of {counted.total}; the table of <code>--csv</code> has all.</p>\n"
    yield (
        "<table><tr><th>Time</th><th>Caller</th><th>Called</th><th>Answer</th><th>Chain</th><th>Audit-ID</th></tr>\n"
    )
    for row in counted.newest:
        mark = "" if row.verified else ' <strong class="bad">not verified</strong>'
        yield (
            f"<tr><td>{_text(row.time)}</td><td>{_text(row.who_for_whom)}</td><td>{_text(row.called)}</td>"
            f"<td>{_text(row.status)} {_text(row.reason)}</td><td>{_text(row.chain)} {_text(row.number)}</td>"
            f"<td><code>{_text(row.audit_id)}</code>{mark}</td></tr>\n"
        )
    yield "</table>\n"


def _instructions(subject: Subject, report: Report) -> Iterator[str]:
    yield (
        "<h2>How to check this</h2>\n<p>This page is a rendering, and proves nothing. The export does: "
        f"<code>{_text(subject.file)}</code>, whose SHA-256 is <code>{subject.digest}</code>. With a public key of the "
        "host from a source other than the export, verify it with "
        "<code>agtp-verify</code>: one readable Python file that shares no code with the host. "
        "You find it in <code>packages/agtp-verify</code> of the host's source.</p>\n"
        f"<pre>sha256sum {_text(subject.file)}\nagtp-verify {_text(subject.file)} --key signing.pub</pre>\n"
        "<p>The host itself proves a single record with <code>agtp audit prove AUDIT_ID</code>.</p>\n"
        "<h3>Trusted keys</h3>\n<table><tr><th>Name</th><th>Key (Ed25519)</th><th>In use until</th></tr>\n"
    )
    for kid, key in subject.keys.items():
        until = report.keys.until.get(kid, "in use")
        yield f"<tr><td><code>{_text(kid)}</code></td><td><code>{_text(key)}</code></td><td>{_text(until)}</td></tr>\n"
    yield "</table>\n"
