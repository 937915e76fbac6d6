"""Show servers behind the host and their last output, every tool, and what is off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from twisted.web.template import Tag, tags

from agtphost.page import elements, inbox, overview, tool_view, usage
from agtphost.page.layout import PageView
from agtphost.page.page_visit import PageVisit
from agtphost.page.person_client import PageReply, gather_replies
from agtphost.page.value_text import show_value
from agtphost.vocabulary.quantities import lasting, plural

STATES = ("on", "changed", "invalid", "rules-unmatched", "disabled")
"""The states of a tool: whether it may be called, or why not."""

PLACE = ("protocol", "upstream", "name")
"""Members of a tool's entry that name it."""

LINES = 50
"""Lines of a server's standard error."""


async def draw(visit: PageVisit) -> PageView:
    """Show a table of servers, one of tools, what waits for approval, and each server's details."""
    words = {name: visit.query_word(name) for name in ("name", "upstream", "state")}
    more = visit.query_word("more", 4_096)
    asked = {name: word or None for name, word in words.items()}
    since = usage.chosen_range(visit)
    reply, tools, calls, latencies = await gather_replies(
        visit.ask.inspect("upstreams"),
        visit.ask.inspect("tools", **asked, limit=elements.ROWS, continuation_token=more or None),
        *usage.usage_questions(visit, since),
    )
    if not reply.ok:
        return PageView(title="Tools", body=[elements.refusal_section("Not shown", reply)])
    entries = reply.entries("upstreams")
    used = usage.Usage(calls=calls, latencies=latencies)
    table = _tools(tools, entries, words, since, used)
    if more:
        # The other parts are on the first page of tools.
        return PageView(title="Tools", body=[table])
    waiting = overview.changed_definitions(reply)
    definitions = await gather_replies(
        *(
            visit.ask.inspect("upstream-definition", upstream=name, name=what or None)
            for name, what in waiting[: inbox.MOST_DEFINITIONS]
        )
    )
    heads = ("Name", "Protocol", "State", "Restarts", "Next attempt", "Latency", "Calls", "Failed", "Tools")
    body: list[Any] = [elements.table("Servers behind this host", heads, map(_row, entries), "There are none.")]
    body += [inbox.definition(visit, each, "/tools") for each in definitions]
    return PageView(title="Tools", body=[*body, table, *(_server(visit, entry) for entry in entries[: elements.ROWS])])


def _tools(
    reply: PageReply,
    servers: Sequence[Mapping[str, Any]],
    words: Mapping[str, str],
    since: str,
    used: usage.Usage,
) -> Tag:
    """Show a page of the tools that match the filter."""
    named = [f"{str(each.get('protocol', '')).lower()}.{each.get('name')}" for each in servers]
    form = elements.search(
        "/tools",
        elements.field("name", "Name, or a word of its description", "filter-name", words["name"]),
        elements.choice("upstream", "Server", "filter-upstream", _all(named), words["upstream"]),
        elements.choice("state", "State", "filter-state", _all(STATES), words["state"]),
        usage.range_choice(since),
    )
    if not reply.ok:
        return elements.section("Tools", form, elements.refusal_section("Not shown", reply))
    heads = ("Tool", "State", *usage.HEADS, "Description", "Needs", "Definition")
    caption = f"{plural(reply.result.get('count') or 0, 'tool')}, with their calls of the {usage.range_words(since)}"
    rows = [_tool(entry, used) for entry in reply.entries("tools")]
    content: list[Any] = [form, elements.table(caption, heads, rows, "There are none.")]
    if used.note:
        content.append(tags.p(used.note))
    if reply.continuation:
        kept = {name: word for name, word in words.items() if word}
        query = urlencode({**kept, "range": since, "more": reply.continuation})
        content.append(tags.p(tags.a("More tools", href=f"/tools?{query}", rel="next")))
    return elements.section("Tools", *content)


def _all(words: Iterable[str]) -> list[tuple[str, str]]:
    return [("", "all"), *((word, word) for word in words)]


def _tool(entry: Mapping[str, Any], used: usage.Usage) -> tuple[Any, ...]:
    name = f"{entry.get('upstream')}.{entry.get('name')}"
    up, state = entry.get("upstream_state"), entry.get("state")
    digest, approved = str(entry.get("sha256") or ""), str(entry.get("approved") or "")
    pinned = "-" if not digest else f"{digest[:12]}..."
    if approved and approved != digest:
        pinned += f", approved {approved[:12]}..."
    elif entry.get("fixed"):
        pinned += ", by the configuration"
    shown = elements.state(state if state != "on" or up in ("up", "idle") else up)
    return (
        tags.a(
            show_value(name, 128),
            href=tool_view.tool_path(*(entry.get(each) for each in PLACE)),
        ),
        tags.span(shown, f" {entry['why']}") if entry.get("why") else shown,
        *used.cells(usage.TOOLS, name),
        entry.get("description") or "-",
        ", ".join(_needs(entry)) or "-",
        pinned,
    )


def _needs(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a call of a tool needs: scopes, how the caller is known, and a person's approval."""
    yield from map(str, entry.get("required_scopes") or ())
    if entry.get("min_assurance"):
        yield tool_view.describe_proof(entry["min_assurance"])
    if entry.get("approval"):
        yield "approval by a person"


def _row(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    counted = entry.get("calls")
    counted = counted if isinstance(counted, dict) else {}
    latency, attempt = entry.get("latency"), entry.get("next_attempt_in")
    name = str(entry.get("name"))
    return (
        tags.a(name, href=f"#server-{elements.to_id(name)}"),
        entry.get("protocol"),
        elements.state(entry.get("state")),
        entry.get("restarts"),
        f"in {lasting(attempt)}" if isinstance(attempt, (int, float)) else "-",
        f"{latency * 1000:.1f} ms" if isinstance(latency, (int, float)) and latency else "-",
        counted.get("ok"),
        counted.get("errors"),
        entry.get("tools", "-"),
    )


def _server(visit: PageVisit, entry: Mapping[str, Any]) -> Tag:
    name = str(entry.get("name"))
    lines = entry.get("stderr") or entry.get("log")
    plain = {
        key.replace("_", " "): value
        for key, value in entry.items()
        if key not in ("stderr", "log", "instances", "calls") and value not in (None, "", [], {}, ())
    }
    content: list[Any] = [elements.facts((key.capitalize(), value) for key, value in plain.items())]
    if isinstance(lines, list) and lines:
        content += [tags.h3("Last lines of its output"), elements.code("\n".join(map(str, lines[-LINES:])))]
    details = tags.details(tags.summary("Details"), *content)
    form: list[Tag] = []
    if visit.may("operate"):
        known = f"{str(entry.get('protocol', '')).lower()}.{name}"
        buttons = (("restart", "Restart"),)
        label = f"Restart {name}"
        form = [elements.action("restart", visit.csrf, "/tools", {"upstream": known}, buttons=buttons, label=label)]
    return elements.section(name, details, *form, id=f"server-{elements.to_id(name)}")
