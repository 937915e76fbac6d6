"""Show what an agent may call, and change it: the forms allow, take back and limit, each one request on ``/grants``."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from twisted.web.template import Tag, tags

from agtphost.page import elements
from agtphost.page.form_fields import (
    Fields,
    FormRequest,
    MalformedForm,
    read_word,
    require_button,
    require_confirmation,
)
from agtphost.page.page_visit import PageVisit
from agtphost.page.person_client import PageReply, PersonClient
from agtphost.page.value_text import brief, in_path
from agtphost.vocabulary import times
from agtphost.vocabulary.grants import ANY, is_grant
from agtphost.vocabulary.identifiers import is_agent_id

PATH = "/grants"

CONFIGURED = "host.toml"
"""Who gave a right that is in the configuration; a form cannot take it back."""

MOST_THINGS = 64
"""What one form may name; the host takes as many in one request."""

DAY = 86_400.0

LASTING = (("", "until it is taken back"), ("1", "1 day"), ("7", "7 days"), ("30", "30 days"), ("90", "90 days"))
"""Days that a right lasts, and their labels."""


def ask_rights(visit: PageVisit, agent_id: str) -> Awaitable[PageReply]:
    """Ask for the grants of an agent."""
    return visit.ask.ask("QUERY", PATH, {"agent": agent_id})


def limits_of(reply: PageReply, agent_id: str) -> tuple[bool, Sequence[Mapping[str, Any]]]:
    """Return whether an agent is limited to what its grants name, and these grants."""
    for entry in reply.entries("agents"):
        if entry.get("agent_id") == agent_id:
            found = entry.get("grants")
            grants = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
            return entry.get("narrowed") is True, grants
    return False, ()


def section(visit: PageVisit, agent: Mapping[str, Any], reply: PageReply, tools: PageReply) -> Tag:
    """
    Return the section on what an agent may call.

    :param reply: the answer to :func:`ask_rights`.
    :param tools: tools to propose.
    """
    agent_id, name = str(agent.get("agent_id")), str(agent.get("name"))
    scopes = ", ".join(map(str, agent.get("scopes") or ())) or "none"
    content: list[Any] = [elements.facts((("Scopes of its document", scopes),))]
    if not reply.ok:
        return elements.section("Rights", *content, elements.refusal_section("Limits", reply))
    limited, grants = limits_of(reply, agent_id)
    changes = visit.may("grant")
    back = f"/agents/{in_path(agent_id)}"
    known = {"agent_id": agent_id, "name": name}
    if limited:
        content.append(tags.p("The agent may call only what is listed here, within its scopes."))
        rows = [
            (
                each.get("allow"),
                elements.state("expired") if each.get("state") == "expired" else each.get("until") or "-",
                each.get("operator") or brief(each.get("by") or CONFIGURED, 16),
                each.get("at") or "-",
                _take_back(visit, known, back, each) if changes and each.get("by") != CONFIGURED else "-",
            )
            for each in grants
        ]
        heads = ("May call", "Until", "Given by", "Since", "Change")
        content.append(elements.table("Limited to", heads, rows, "The agent may call nothing that needs a right."))
    else:
        content.append(tags.p("The agent has no limits: it may call everything that its scopes allow."))
    if changes:
        proposed = _proposals(tools)
        content.append(tags.datalist(*(tags.option(value=each) for each in proposed), id="things"))
        content += [_allow(visit, known, back), (_lift if limited else _limit)(visit, known, back)]
    return elements.section("Rights", *content)


def _proposals(tools: PageReply) -> list[str]:
    """Return what a right can name: each tool, and all tools of each server."""
    named = [(str(each.get("upstream")), str(each.get("name"))) for each in tools.entries("tools")]
    texts = [*dict.fromkeys(f"{server}.{ANY}" for server, _ in named), *(f"{server}.{name}" for server, name in named)]
    return [text for text in texts if is_grant(text)]


def _thing_fields(known: str, text: str) -> list[Tag]:
    field = elements.field(
        "things",
        text,
        f"{known}-things",
        list="things",
        required="required",
        autocomplete="off",
        placeholder="files.read_file",
        maxlength="4096",
    )
    return [field, elements.choice("days", "For", f"{known}-days", LASTING)]


FORMS = (
    'Tools such as files.read_file or files.*, endpoints such as "QUERY /books/*"; several with a comma between them'
)


def _allow(visit: PageVisit, known: Mapping[str, str], back: str) -> Tag:
    return elements.action(
        "allow",
        visit.csrf,
        back,
        known,
        *_thing_fields("allow", f"Allow it to call. {FORMS}"),
        elements.checkbox("confirmed", "Give this right", "allow-confirmed"),
        buttons=(("allow", "Allow"),),
        label=f"Allow {known['name']} to call more",
    )


def _limit(visit: PageVisit, known: Mapping[str, str], back: str) -> Tag:
    return elements.action(
        "limit",
        visit.csrf,
        back,
        known,
        *_thing_fields("limit", f"Limit it to. {FORMS}"),
        elements.checkbox("confirmed", "From then on it may call nothing else", "limit-confirmed"),
        buttons=(("limit", "Limit"),),
        label=f"Limit what {known['name']} may call",
    )


def _lift(visit: PageVisit, known: Mapping[str, str], back: str) -> Tag:
    return elements.action(
        "lift-limits",
        visit.csrf,
        back,
        known,
        elements.checkbox("confirmed", "Let it call everything again that its scopes allow", "lift-confirmed"),
        buttons=(("lift", "Lift all limits"),),
        label=f"Lift the limits of {known['name']}",
    )


def _take_back(visit: PageVisit, known: Mapping[str, str], back: str, grant: Mapping[str, Any]) -> Tag:
    text = str(grant.get("allow"))
    return elements.action(
        "take-back",
        visit.csrf,
        back,
        {**known, "thing": text},
        buttons=(("take", "Take back"),),
        label=f"Take {text} back from {known['name']}",
    )


# Requests


def _agent(fields: Fields) -> tuple[str, str]:
    agent_id, name = read_word(fields, "agent_id"), read_word(fields, "name")
    if not is_agent_id(agent_id):
        raise MalformedForm("The form has no valid Agent-ID.")
    return agent_id, name


def _things(fields: Fields) -> list[str]:
    texts = list(dict.fromkeys(filter(None, (text.strip() for text in read_word(fields, "things").split(",")))))
    wrong = [text for text in texts if not is_grant(text)]
    if not texts or wrong:
        shown = f" {wrong[0][:100]} does not." if wrong else ""
        raise MalformedForm(f"Name what it may call: a tool such as files.read_file, or an endpoint.{shown}")
    if len(texts) > MOST_THINGS:
        raise MalformedForm(f"Name at most {MOST_THINGS} things in one form.")
    return texts


def _read_end(fields: Fields, now: Callable[[], float]) -> dict[str, str]:
    days = fields.get("days", "")
    if days not in dict(LASTING):
        raise MalformedForm("Choose how long the right lasts from the list.")
    return {"until": times.stamp(now() + int(days) * DAY)} if days else {}


def _give(
    fields: Fields, scope: str, done: str, check: Callable[[PersonClient], Awaitable[str]] | None = None
) -> FormRequest:
    """
    Return the AUTHORIZE of what a form names.

    :param scope: ``allow`` to add to what the agent may call, ``call`` to limit it to that.
    """
    agent_id, _ = _agent(fields)
    given = {"subject": agent_id, "resource": _things(fields), "scope": scope, **_read_end(fields, time.time)}
    return FormRequest(method="AUTHORIZE", path=PATH, given=given, done=done, check=check)


def allow(fields: Fields) -> FormRequest:
    """
    Return the AUTHORIZE that adds rights to those of an agent; it never limits one that is not.

    The host refuses it where the agent lacks scopes, which only a statement of its issuer gives, and names the command.
    """
    require_button(fields, "allow")
    require_confirmation(fields, "Tick the box to say that you give this right.")
    agent_id, name = _agent(fields)
    things = _things(fields)

    async def check(ask: PersonClient) -> str:
        reply = await ask.ask("QUERY", PATH, {"agent": agent_id, "rights": True, "resource": things})
        lacking = [each for entry in reply.entries("agents") for each in entry.get("missing_scopes") or ()]
        if reply.ok and not lacking and not limits_of(reply, agent_id)[0]:
            return f"{name} is not limited, and may call this already: {', '.join(things)}. Open the view again."
        return ""

    return _give(fields, "allow", f"{name} may call {', '.join(things)}.", check)


def limit(fields: Fields) -> FormRequest:
    """Return the AUTHORIZE that limits an agent to what it names."""
    require_button(fields, "limit")
    require_confirmation(fields, "A limit takes everything else away: tick the box to say that you mean it.")
    _, name = _agent(fields)
    return _give(fields, "call", f"{name} may call only {', '.join(_things(fields))} now.")


def take_back(fields: Fields) -> FormRequest:
    """Return the REVOKE of one right; the agent stays limited."""
    require_button(fields, "take")
    agent_id, name = _agent(fields)
    thing = read_word(fields, "thing")
    given = {"subject": agent_id, "resource": [thing]}
    return FormRequest(method="REVOKE", path=PATH, given=given, done=f"{thing} is taken back from {name}.")


def lift_limits(fields: Fields) -> FormRequest:
    """Return the REVOKE of all rights that operators gave, after which they do not limit the agent any more."""
    require_button(fields, "lift")
    require_confirmation(fields, "Tick the box to say that the agent may call everything again that its scopes allow.")
    agent_id, name = _agent(fields)
    given = {"subject": agent_id, "all": True}
    return FormRequest(
        method="REVOKE", path=PATH, given=given, done=f"The limits of {name} that operators set are lifted."
    )
