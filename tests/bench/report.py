"""What a run of the benchmarks says: one table, the ratios that matter, and a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import TypedDict

CONNECTIONS = (1, 16, 64)
PROXIES = ("FastMCP's proxy", "mcp-proxy", "mcpo")
DOORS = ("AGTP", "front", "bridge")

Figures = Mapping[str, Mapping[str, float]]
"""The figures of :func:`tests.bench.measurement.measure`."""


class Run(TypedDict):
    """One run of all benchmarks."""

    about: dict[str, str]
    """Commit, date, machine, load and length, as text."""

    functions: Figures
    tools: Figures
    kib_per_idle_connection: float
    fdatasync_ms: float


class Ratio(TypedDict):
    """Two numbers of one run, and how they relate."""

    name: str
    unit: str
    ours: float
    theirs: float
    ratio: float


def ratios(run: Run) -> list[Ratio]:
    """Return what is compared, both numbers each; a ratio above 1 is better for the host unless its name says more."""
    functions, tools = run["functions"], run["tools"]
    found: list[Ratio] = []

    def cheaper(ours: str, theirs: str, at: int) -> None:
        own, other = functions[f"{ours}@{at}"]["cpu_us"], functions[f"{theirs}@{at}"]["cpu_us"]
        found.append(_ratio(f"{ours} / {theirs}, {at} connections", "calls per CPU second", 1e6 / own, 1e6 / other))

    cheaper("function, again", "function", 64)
    for ours, theirs in (
        ("function", "bare Twisted TLS"),
        ("function", "official SDK, best mode"),
        ("function", "official SDK, default"),
        ("gateway", "official SDK, best mode"),
        ("front", "official SDK, best mode"),
    ):
        cheaper(ours, theirs, 64)
    tails = [_tail(functions[f"{name}@64"]) for name in ("function", "bare Twisted TLS")]
    found.append(_ratio("p99/p50, function / bare Twisted TLS (lower is better), 64", "", *tails))
    pipe, own = tools["pipe client alone@1"]["p50_ms"], tools["AGTP@1"]["p50_ms"]
    found.append(_ratio("tool / pipe client alone (lower is better), 1 connection", "ms at the median", own, pipe))
    for at in (16, 1):
        rates = {name: figures["requests_per_second"] for name, figures in tools.items() if name.endswith(f"@{at}")}
        alone = rates[f"pipe client alone@{at}"]
        found.append(_ratio(f"tool / pipe client alone, {at} at a time", "calls/s", rates[f"AGTP@{at}"], alone))
        best = max((rates[f"{name}@{at}"] for name in PROXIES if f"{name}@{at}" in rates), default=0.0)
        found += [
            _ratio(f"tool by {door} / best proxy, {at} at a time", "calls/s", rates[f"{door}@{at}"], best)
            for door in DOORS
            if best
        ]
    return found


def _ratio(name: str, unit: str, ours: float, theirs: float) -> Ratio:
    return Ratio(name=name, unit=unit, ours=round(ours, 3), theirs=round(theirs, 3), ratio=round(ours / theirs, 3))


def _tail(figures: Mapping[str, float]) -> float:
    return figures["p99_ms"] / figures["p50_ms"]


def text(run: Run) -> str:
    """Return the table and the ratios, for a terminal."""
    lines = [f"{name}: {value}" for name, value in run["about"].items()]
    lines += ["", *table("A function over TLS", run["functions"])]
    lines += ["", *table("A tool of one stdio server", run["tools"])]
    lines += ["", f"{'In one run':62}{'ours':>10}{'theirs':>10}{'ratio':>8}"]
    for each in ratios(run):
        numbers = f"{_short(each['ours']):>10}{_short(each['theirs']):>10}{each['ratio']:8.2f}"
        lines.append(f"{each['name']:62}{numbers}  {each['unit']}".rstrip())
    idle, sync = run["kib_per_idle_connection"], run["fdatasync_ms"]
    return "\n".join([*lines, "", f"An idle mTLS connection: {idle} KiB. A write with fdatasync: {sync} ms.", ""])


COLUMNS: Sequence[tuple[str, str, Callable[[Mapping[str, float]], float]]] = (
    ("calls/s", "requests_per_second", lambda figures: figures["requests_per_second"]),
    ("CPU us", "cpu_us", lambda figures: figures["cpu_us"]),
    ("p50 ms", "p50_ms", lambda figures: figures["p50_ms"]),
)


def table(title: str, figures: Figures) -> list[str]:
    """Return the lines of one table: a subject a line, and for each number of connections what it does."""
    head = "".join(f"{name:>8}" * len(CONNECTIONS) for name, *_ in COLUMNS)
    numbers = "".join(f"{at:8}" for at in CONNECTIONS) * len(COLUMNS)
    lines = [f"{title:26}{head}  p99/p50   spread", f"{'at a time':26}{numbers}       64    worst"]
    for name in dict.fromkeys(key.partition("@")[0] for key in figures):
        each = [figures[f"{name}@{at}"] for at in CONNECTIONS]
        cells = "".join(f"{_short(value(one)):>8}" for _, _, value in COLUMNS for one in each)
        lines.append(f"{name:26}{cells}{_tail(each[-1]):9.2f}{max(one['spread'] for one in each):9.1%}")
    return lines


def _short(value: float) -> str:
    """Write a figure with three digits that count; nothing for what has none."""
    if not value:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def picture(run: Run) -> str:
    """Return an SVG with two groups of bars: CPU of a function's call at 64 connections, calls/s of the tool at 16."""
    groups = (
        ("CPU of one call of a function, 64 connections (us; shorter is better)", run["functions"], "cpu_us", 64),
        ("Calls a second of a tool, 16 at a time (longer is better)", run["tools"], "requests_per_second", 16),
    )
    parts, top = list[str](), 10
    for title, figures, member, at in groups:
        rows = {name.partition("@")[0]: each[member] for name, each in figures.items() if name.endswith(f"@{at}")}
        parts.append(f'<text x="10" y="{top + 14}" font-weight="bold">{escape(title)}</text>')
        parts += _bars(rows, top + 26)
        top += 26 + 20 * len(rows) + 24
    style = 'font-family="sans-serif" font-size="12" fill="#222"'
    size = f'width="720" height="{top}" viewBox="0 0 720 {top}"'
    body = "\n".join(parts)
    ground = f'<rect width="720" height="{top}" fill="#fff"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n{ground}\n{body}\n</svg>\n'


def _bars(rows: Mapping[str, float], top: int) -> Iterable[str]:
    longest = max(rows.values())
    for number, (name, value) in enumerate(rows.items()):
        y, width = top + 20 * number, round(420 * value / longest, 1)
        own = name.split(",")[0] in ("function", "AGTP", "gateway", "front", "bridge")
        yield f'<text x="200" y="{y + 12}" text-anchor="end">{escape(name)}</text>'
        yield f'<rect x="208" y="{y}" width="{width}" height="14" fill="{"#1f6feb" if own else "#9aa4b2"}"/>'
        yield f'<text x="{212 + width}" y="{y + 12}">{_short(value)}</text>'
