"""Try a tool: the form for its input, the request with the rights of an agent, and the view of the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twisted.web.template import Tag, tags

from agtphost.page import elements, schema_form
from agtphost.page.form_fields import (
    Fields,
    FormRequest,
    MalformedForm,
    read_word,
    require_button,
    require_confirmation,
)
from agtphost.page.layout import PageView
from agtphost.page.page_visit import PageVisit
from agtphost.page.person_client import PageReply, PersonClient
from agtphost.page.value_text import in_path
from agtphost.vocabulary import media_types
from agtphost.vocabulary.identifiers import is_agent_id

CONFIRMATION = "Make the call now: it has the tool's effects"


def form(visit: PageVisit, tool: str, path: str, schema: Mapping[str, Any], agents: Sequence[Mapping[str, Any]]) -> Tag:
    """
    Return the form that tries a tool of an MCP server.

    :param tool: ``SERVER.NAME``.
    :param path: of the view of the tool.
    :param agents: those to choose from, as ``INSPECT target=agents`` lists them.
    """
    return elements.action(
        "try-tool",
        visit.csrf,
        path,
        {"tool": tool},
        elements.choice("agent_id", "With the rights of", "try-agent", schema_form.names_of(agents)),
        *schema_form.fields(schema, "try"),
        elements.checkbox("confirmed", CONFIRMATION, "try-confirmed"),
        buttons=(("try", "Try it"),),
        label=f"Try {tool}",
    )


def explanation() -> Tag:
    """Return the paragraph above the form."""
    return tags.p(
        "You make the call. The host judges it with the rights of the agent that you choose, and refuses what it would "
        "refuse that agent. The record names you, is in the host's own chain, and says whose rights counted."
    )


def try_tool(fields: Fields) -> FormRequest:
    """Return the EXECUTE of a tool, with the rights of an agent."""
    require_button(fields, "try")
    tool, agent_id, path = read_word(fields, "tool"), read_word(fields, "agent_id"), fields.get("back", "/tools")
    if not is_agent_id(agent_id):
        raise MalformedForm("Choose the agent with whose rights the call is made.")
    require_confirmation(fields, "A trial is a real call: tick the box to say that you mean it.")
    try:
        arguments = schema_form.read_input(fields)
    except schema_form.MalformedInput as error:
        raise MalformedForm(str(error)) from None
    payload = {"tool": tool, "arguments": arguments}

    async def show(reply: PageReply, ask: PersonClient) -> PageView:
        known = (await ask.inspect("agents", agent_id=agent_id, limit=1)).entries("agents")
        name = known[0].get("display_name") if known else None
        return _answer(reply, tool, elements.brief_agent(agent_id, label=name), path)

    return FormRequest(
        method="EXECUTE",
        path="/",
        given={"action": "mcp.tools.call", "payload_type": media_types.MCP_TOOLS, "payload": payload},
        done="",
        rights_of=agent_id,
        show=show,
    )


def _answer(reply: PageReply, tool: str, agent: Tag, path: str) -> PageView:
    pairs: list[tuple[str, Any]] = [
        ("Answer", elements.state("ok" if reply.ok else "refused")),
        ("Status", f"{reply.status} {reply.reason}".rstrip()),
        ("Judged with the rights of", agent),
        ("Record", elements.call_link(reply.audit_id) if reply.audit_id else "-"),
    ]
    if not reply.ok:
        pairs += [("Explanation", reply.explanation or "-"), ("What to do", reply.remedy or "-")]
    body: list[Any] = [elements.facts(pairs)]
    if reply.ok:
        body.append(elements.section("Result", elements.code(dict(reply.result))))
    back = path if path.startswith("/tools/") else f"/tools/{in_path('mcp.' + tool)}"
    body.append(tags.p(tags.a("Back to the tool", href=back)))
    # The page has not failed where the tool has.
    return PageView(title=f"Trial of {tool[:100]}", body=body)
