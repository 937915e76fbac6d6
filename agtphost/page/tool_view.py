"""Show one tool: its calls, who may call it, its pinned definition, and the form that tries it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.web.template import Tag, tags

from agtphost.page import call_list, definition_diff, elements, inbox, schema_form, tool_trial, usage
from agtphost.page.layout import PageView
from agtphost.page.page_visit import PageVisit
from agtphost.page.person_client import PageReply, gather_replies
from agtphost.page.value_text import in_path, show_value

MOST_ASKED = 10
"""Agents about which the view asks at first whether they may call the tool: each question has a record."""

MOST_OF_ALL = 100
"""Agents about which it asks where that is wanted."""

MCP = "mcp"
WITH_SERVERS = (MCP, "a2a", "acp")
"""Protocols whose servers the view of tools shows; the tools of a plugin have none."""


def tool_path(protocol: object, upstream: object, name: object) -> str:
    """Return the path of the view of a tool."""
    return f"/tools/{in_path(f'{str(protocol).lower()}.{upstream}.{name}')}"


async def draw(visit: PageVisit) -> PageView:
    """Show the tool that the path names as ``PROTOCOL.UPSTREAM.NAME``."""
    protocol, _, rest = visit.rest.partition(".")
    upstream, _, name = rest.partition(".")
    tool = f"{upstream}.{name}"
    since = usage.chosen_range(visit)
    listed, definition, agents, latest, calls, latencies = await gather_replies(
        visit.ask.inspect("tools", upstream=f"{protocol}.{upstream}"[:256], name=tool[:256], limit=elements.ROWS),
        visit.ask.inspect("upstream-definition", upstream=f"{protocol}.{upstream}"[:256], name=name[:256]),
        visit.ask.inspect("agents", limit=elements.ROWS),
        visit.ask.inspect("records", tool=tool[:200], limit=20),
        *usage.usage_questions(visit, since, tool=tool[:200]),
    )
    if not listed.ok:
        return PageView(title="Tool", status=listed.status, body=[elements.refusal_section("Not shown", listed)])
    found = [each for each in listed.entries("tools") if (each.get("upstream"), each.get("name")) == (upstream, name)]
    if not found:
        return PageView(title="Tool", status=404, body=[tags.p("No server behind this host has a tool of that name.")])
    entry = found[0]
    both = definition.result.get("upstream_definition")
    both = both if isinstance(both, dict) else {}
    body = [
        _facts(entry),
        _calls(visit, tool, since, latest, usage.Usage(calls=calls, latencies=latencies)),
        await _callers(visit, tool, agents),
        _definition(visit, entry, definition, both),
    ]
    if visit.may("try") and entry.get("state") == "on":
        body.append(_trial(visit, entry, tool, both, agents))
    return PageView(title=f"Tool {tool}", body=body)


_PROOFS = {
    "header": "an Agent-ID in the header",
    "gateway": "a token or a client certificate",
    "certificate": "a client certificate",
}


def describe_proof(assurance: object) -> str:
    """Return what a caller must show that a tool asks for an assurance."""
    return _PROOFS.get(str(assurance or ""), str(assurance or ""))


def _facts(entry: Mapping[str, Any]) -> Tag:
    protocol = str(entry.get("protocol", "")).lower()
    server, link = f"{protocol}.{entry.get('upstream')}", f"/tools#server-{elements.to_id(str(entry.get('upstream')))}"
    pairs = (
        ("Server", tags.a(server, href=link) if protocol in WITH_SERVERS else f"payload adapter {protocol}"),
        ("State", elements.state(entry.get("state"))),
        ("Why", entry.get("why")),
        ("Server's state", elements.state(entry.get("upstream_state"))),
        ("Description", entry.get("description")),
        ("Scopes", ", ".join(map(str, entry.get("required_scopes") or ()))),
        ("Identity proof", describe_proof(entry.get("min_assurance"))),
        ("Approval", "by a person" if entry.get("approval") else "not needed"),
    )
    return elements.section("Details", elements.facts((name, value) for name, value in pairs if value))


def _calls(visit: PageVisit, tool: str, since: str, latest: PageReply, used: usage.Usage) -> Tag:
    content: list[Any] = [elements.search(visit.path, usage.range_choice(since), text="Show")]
    if used.note:
        content.append(tags.p(used.note))
    content.append(used.facts(usage.TOOLS, tool))
    rows = [
        (_caller(str(each.get("value") or ""), each.get("name")), each.get("records"), each.get("refused"))
        for each in used.ranking(usage.AGENTS)
    ]
    caption = f"Callers, {usage.range_words(since)}"
    content.append(elements.table(caption, ("Caller", "Calls", "Refused or failed"), rows, "There were none."))
    content.append(
        call_list.records("Latest calls", latest) if latest.ok else elements.refusal_section("Latest calls", latest)
    )
    return elements.section("Calls", *content)


def _caller(value: str, name: object) -> Tag:
    """Return a link to an agent, an operator's name, or the words for a caller that named no agent."""
    if value.startswith("operator:"):
        return tags.span(f"{show_value(value.partition(':')[2], 64)} (operator)")
    return elements.brief_agent(value, label=name)


async def _callers(visit: PageVisit, tool: str, agents: PageReply) -> Tag:
    """Ask for each of the first agents whether it may call the tool; the decision makes no call."""
    title = "Who may call it"
    if not agents.ok:
        return elements.refusal_section(title, agents)
    everyone = visit.query_choice("who", ("all",)) == "all"
    known = agents.entries("agents")
    asked = known[: MOST_OF_ALL if everyone else MOST_ASKED]
    decisions = await gather_replies(
        *(
            visit.ask.inspect("decision", agent_id=each.get("agent_id"), method="EXECUTE", path="/", tool=tool)
            for each in asked
        )
    )
    rows = [
        (elements.brief_agent(each.get("agent_id"), label=each.get("display_name")), *_decision(reply))
        for each, reply in zip(asked, decisions, strict=True)
    ]
    content: list[Any] = [elements.table("Agents", ("Agent", "May call", "Why"), rows, "The host knows no agent.")]
    more = int(agents.result.get("count") or 0) - len(asked)
    if more > 0:
        link: list[Any] = [] if everyone else [" ", tags.a("Ask about them", href=f"{visit.path}?who=all")]
        content.append(tags.p(f"{more} more agents are not asked about here.", *link))
    return elements.section(title, *content)


def _decision(reply: PageReply) -> tuple[Any, Any]:
    if not reply.ok:
        return "-", reply.explanation or reply.reason
    refusal = reply.result.get("refusal")
    if isinstance(refusal, dict):
        return elements.state("no"), f"{refusal.get('explanation')} [{refusal.get('reason')}]"
    return elements.state("yes"), "once a person approves the call" if reply.result.get("needs_approval") else "-"


def _definition(visit: PageVisit, entry: Mapping[str, Any], reply: PageReply, both: Mapping[str, Any]) -> Tag:
    title = "Definition"
    if entry.get("state") == "changed":
        return elements.section(title, inbox.definition(visit, reply, visit.path))
    if not reply.ok:
        return elements.section(title, tags.p("The host has no single definition of it to pin."))
    present, approved = (_side(both, name) for name in ("present", "approved"))
    pinned = approved.get("sha256")
    how = "by the configuration" if entry.get("fixed") else "as it was when first seen, or as an operator approved it"
    content: list[Any] = [
        elements.facts(
            (
                ("Pinned", tags.code(str(pinned)) if pinned else "not pinned"),
                *((("Pinned how", how),) if pinned else ()),
                ("Now", tags.code(str(present["sha256"])) if present.get("sha256") else "not listed yet"),
            )
        )
    ]
    before, now = approved.get("definition"), present.get("definition")
    text, differing = now or before, None
    if isinstance(before, str) and isinstance(now, str):
        differing = definition_diff.differences(before, now)
        content.append(tags.p("The present definition is the pinned one." if differing is None else "They differ:"))
    if differing is not None:
        content.append(differing)
    if isinstance(text, str):
        content.append(tags.details(tags.summary("The whole definition"), elements.definition(text)))
    return elements.section(title, *content)


def _side(both: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = both.get(name)
    return found if isinstance(found, dict) else {}


def _trial(visit: PageVisit, entry: Mapping[str, Any], tool: str, both: Mapping[str, Any], agents: PageReply) -> Tag:
    if str(entry.get("protocol", "")).lower() != MCP:
        said = (
            "Only tools of MCP servers can be tried here, because others are given the calling agent itself and would "
            "take the trial for its own call. Call it as an agent, as DISCOVER /tools says."
        )
        return elements.section("Try it", tags.p(said))
    if entry.get("approval"):
        said = "A person approves each call of this tool, so it cannot be tried with the rights of an agent."
        return elements.section("Try it", tags.p(said))
    if not agents.entries("agents"):
        return elements.section("Try it", tags.p("The host knows no agent with whose rights it could be tried."))
    schema = schema_form.schema_of(_side(both, "present").get("definition"))
    form = tool_trial.form(visit, tool, visit.path, schema, agents.entries("agents"))
    return elements.section("Try it", tool_trial.explanation(), form)
