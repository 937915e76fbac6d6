"""Show what the host would decide about a call, without making it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from twisted.web.template import Tag, tags

from agtphost.page import access_choices, elements
from agtphost.page.call_steps import describe_rule
from agtphost.page.layout import PageView
from agtphost.page.page_visit import PageVisit
from agtphost.page.person_client import PageReply, gather_replies
from agtphost.page.value_text import show_value
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.identifiers import is_agent_id
from agtphost.vocabulary.quantities import plural

ASSURANCES = (("certificate", "Certificate"), ("header", "Header alone"), ("gateway", "Gateway"))
MOST_MEMBERS = 40
"""Members of an input schema that get a field each."""

PREFIX = "in."
"""The prefix of fields that are members of the input."""


async def draw(visit: PageVisit) -> PageView:
    """Show the form, with a field for each member of the input, and the answer to a submitted one."""
    chosen = access_choices.read_choice(visit.query_word("what", access_choices.LONGEST))
    if not chosen.method:
        visit.read.discard("what")
    method = chosen.method or visit.query_word("method").upper()
    path = chosen.path or visit.query_word("path") or "/"
    named, more = visit.query_word("agent"), visit.query_word("more", 4_096)
    wanted = {"agent_id": named} if is_agent_id(named) else {"name": named or None}
    asking = [
        visit.ask.inspect("agents", limit=elements.ROWS, **wanted, continuation_token=more or None),
        visit.ask.inspect("tools", limit=elements.ROWS),
        visit.ask.inspect("endpoints"),
    ]
    if method and not chosen.tool:
        asking.append(visit.ask.inspect("endpoint", method=method, path=path))
    known, tools, endpoints, *defined = await gather_replies(*asking)
    choices = access_choices.Choices.from_replies(tools, endpoints)
    found = defined[0].result.get("input_schema") if defined else None
    schema = found if isinstance(found, dict) else {}
    body: list[Any] = [_form(visit, known, choices, method, path, schema)]
    agent, choice = _find_agent(visit, known)
    if choice is not None:
        return PageView(title="Check access", body=[*body, choice])
    if chosen.template:
        said = f"Replace the braces of {chosen.template} by values in the field for the path, and ask again."
        return PageView(title="Check access", body=[*body, tags.p(show_value(said, 400), role="alert")])
    if method:
        asked = {"target": "decision", "method": method, "path": path, **chosen.question}
        wrong = _add_question(visit, schema, asked, agent)
        if wrong:
            body.append(tags.p(wrong, role="alert", class_="refused"))
        else:
            names = [each.get("display_name") for each in known.entries("agents") if each.get("agent_id") == agent]
            caller = elements.brief_agent(agent, "anyone", names[0] if names else None)
            call = f"Tool {chosen.tool}" if chosen.tool else f"{method} {path}"
            body.append(_answer(await visit.ask.ask("INSPECT", "/", asked), caller, call))
            if not tools.continuation and choices.lacks_tool(chosen.tool):
                # The refusal of a limited agent does not tell its caller whether there is such a tool.
                said = f"This host lists no tool {chosen.tool}, so nothing can allow it."
                body.append(tags.p(show_value(said, 400), role="alert", class_="refused"))
    return PageView(title="Check access", body=body)


def _find_agent(visit: PageVisit, known: PageReply) -> tuple[str, Tag | None]:
    """Return the Agent-ID of the named agent, empty for anyone; and a choice, if the name is not unique."""
    named = visit.query_word("agent")
    if not named or is_agent_id(named):
        return named, None
    if not known.ok:
        return "", elements.refusal_section("Agents", known)
    entries = known.entries("agents")
    same = [str(each.get("agent_id")) for each in entries if each.get("name") == named]
    if len(same) == 1 and not visit.query_word("more", 4_096):
        return same[0], None
    words = {name: word for name, word in visit.query.items() if name != "more"}
    rows = [
        (
            tags.a(
                str(each.get("display_name")), href=f"/can?{urlencode({**words, 'agent': str(each.get('agent_id'))})}"
            ),
            elements.brief_agent(each.get("agent_id")),
            elements.state(each.get("status")),
        )
        for each in entries
    ]
    many = plural(known.result.get("count") or 0, "agent has", "agents have")
    caption = f"{many} {named} in the name: which is meant?"
    none = "no agent has that in its name."
    content: list[Any] = [elements.table(show_value(caption, 400), ("Name", "Agent-ID", "State"), rows, none)]
    if known.continuation:
        query = urlencode({**words, "more": known.continuation})
        content.append(tags.p(tags.a("More agents", href=f"/can?{query}", rel="next")))
    return "", elements.section("Which agent?", *content)


def _members(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    members = schema.get("properties")
    found = members if isinstance(members, dict) else {}
    return {name: each for name, each in list(found.items())[:MOST_MEMBERS] if isinstance(each, dict)}


def _form(
    visit: PageVisit,
    known: PageReply,
    choices: access_choices.Choices,
    method: str,
    path: str,
    schema: Mapping[str, Any],
) -> Tag:
    agents = [str(each.get("name")) for each in known.entries("agents")]
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    fields = [
        elements.field(
            "agent",
            "Agent (name or Agent-ID); empty: anyone",
            "agent",
            visit.query_word("agent"),
            list="agents",
        ),
        tags.datalist(*(tags.option(value=name) for name in agents), id="agents"),
        elements.choice(
            "assurance",
            "Identity proof",
            "assurance",
            ASSURANCES,
            visit.query_choice("assurance", dict(ASSURANCES)) or "certificate",
        ),
        elements.choice(
            "what", "Tool or endpoint", "what", choices.options, choices.find_option(visit.query.get("what", ""))
        ),
        elements.field(
            "method", "Or a method", "method", method, list="methods", autocapitalize="characters", autocomplete="off"
        ),
        tags.datalist(*(tags.option(value=each) for each in choices.methods), id="methods"),
        elements.field("path", "and a path", "path", path, list="paths", autocomplete="off"),
        tags.datalist(*(tags.option(value=each) for each in choices.paths), id="paths"),
        elements.field("scope", "Authority-Scope that is claimed", "scope", visit.query_word("scope", 2_048)),
    ]
    for name, each in _members(schema).items():
        label = f"Input: {name}{' (required)' if name in needed else ''}"
        kind = each.get("type")
        label += f", {kind}" if isinstance(kind, str) else ""
        fields.append(
            elements.field(PREFIX + name, label, f"in-{elements.to_id(name)}", visit.query_word(PREFIX + name, 4_096))
        )
    fields.append(
        elements.field("input", "Input as JSON, in place of fields", "input", visit.query_word("input", 8_192))
    )
    return elements.search("/can", *fields, text="Ask")


def _add_question(visit: PageVisit, schema: Mapping[str, Any], asked: dict[str, Any], agent: str) -> str:
    """Add what the form says to the request; return a sentence if it is invalid."""
    scope, written = visit.query_word("scope", 2_048), visit.query_word("input", 8_192)
    if agent:
        asked.update(agent_id=agent, assurance=visit.query_choice("assurance", dict(ASSURANCES)) or "certificate")
    if scope:
        asked["authority_scope"] = scope
    try:
        given = jsontext.decode(written.encode()) if written else _given_input(visit, schema)
    except jsontext.JSONTextError as error:
        return f"The input is not JSON: {error}"
    if not isinstance(given, dict):
        return "The input is not a JSON object."
    if given or written:
        asked["input"] = given
    return ""


def _given_input(visit: PageVisit, schema: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, each in _members(schema).items():
        word = visit.query_word(PREFIX + name, 4_096)
        if word:
            found[name] = word if each.get("type") == "string" else jsontext.decode(word.encode())
    return found


def _answer(reply: PageReply, caller: Tag, call: str) -> Tag:
    if not reply.ok:
        return elements.refusal_section("Not asked", reply)
    said, refusal = reply.result, reply.result.get("refusal")
    allowed = said.get("allowed") is True
    pairs: list[tuple[str, Any]] = [
        ("Agent", caller),
        ("Call", elements.isolate(show_value(call, 400))),
        (
            "Answer",
            elements.state("yes" if allowed else "no") if not said.get("method_decides") else "yes, at the gates",
        ),
    ]
    if said.get("method_decides"):
        pairs.append(
            ("Then", f"{said.get('method')} decides itself, by the caller's role and by what the request names")
        )
    if isinstance(refusal, dict):
        pairs += [
            ("Status", f"{refusal.get('status')} {refusal.get('reason')}"),
            ("Explanation", refusal.get("explanation")),
            ("Gate", refusal.get("gate")),
            ("What to do", refusal.get("remedy") or "-"),
            ("Details", refusal.get("details") or "-"),
            ("Decided by", describe_rule(refusal["rule"]) if isinstance(refusal.get("rule"), dict) else "-"),
        ]
    if said.get("needs_approval"):
        pairs.append(("Needs approval", said["needs_approval"]))
    pairs += [
        ("Passed", ", ".join(map(str, said.get("passed") or ())) or "-"),
        ("Scopes", ", ".join(map(str, said.get("scopes") or ())) or "-"),
        ("Scopes that are needed", ", ".join(map(str, said.get("required_scopes") or ())) or "-"),
    ]
    return elements.section("Decision", elements.facts(pairs))
