"""The ``agtp tools`` group: all that ``DISCOVER /tools`` lists (core v08 section 7.2.8, core v08 appendix D)."""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from agtphost.cli.approval_prompt import Consent, consent_options, digest_to_approve
from agtphost.cli.arguments import fit_to_schema, may_be_typed, parameters
from agtphost.cli.exchange import (
    ask,
    call_with_approval,
    entries_of,
    object_of,
    open_client,
    require_success,
    result_of,
    verify,
)
from agtphost.cli.failures import ExitStatus, HostRefused, WrongInput
from agtphost.cli.groups import VerbGroup
from agtphost.cli.options import Connection, RequestOptions, host_options, request_options
from agtphost.cli.output import (
    print_document,
    print_json,
    print_note,
    print_summary,
    print_table,
    visible,
    visible_line,
)
from agtphost.cli.target import Target, resolve
from agtphost.client.tools import execute, execute_listed, payload_type_of
from agtphost.vocabulary.media_types import MCP_TOOLS
from agtphost.vocabulary.reasons import Reason

if TYPE_CHECKING:
    from agtphost.client.reply import Reply
    from agtphost.client.sync import Client

APPROVE = "mcp.tools.approve"
LONGEST_SUMMARY = 70
MOST_NEAR = 3
"""Names that are suggested."""

EXAMPLES: Mapping[str, str] = {"integer": "1", "number": "1", "boolean": "true", "array": "[]", "object": "{}"}
"""A value of each JSON type but text, as it is typed after ``name=``."""

NO_SUCH_TOOL = (
    Reason.UNKNOWN_TOOL,
    Reason.TOOLS_NOT_LISTED,
    Reason.UNSUPPORTED_PAYLOAD_TYPE,
    Reason.GRANT_REQUIRED,
)
"""Refusal reasons that mean that no MCP server has the tool, as far as this caller learns; grants hide what exists."""


@click.group(cls=VerbGroup)
def command() -> None:
    """List, show, call and approve the tools of a host's MCP servers, A2A agents, ACP servers and plugins."""


@command.command()
@host_options
def ls(where: Connection, as_json: bool) -> None:
    """
    List the tools that you may call.

    \b
    Examples:
      agtp tools ls
      agtp tools ls --as demo --json
    """
    target = resolve(where)
    with open_client(target) as client:
        listed = require_success(client.call(target.uri, "DISCOVER", "/tools")).result
        described = None if as_json else client.call(target.uri, "DESCRIBE", "/", {"capability_domains": "tools"})
    listed = entries_of(listed, "tools")
    if as_json:
        print_json(listed)
        return
    told = described.result if described is not None and described.ok else None
    if listed:
        # Few hosts need the APPROVAL column; without it there is more room for descriptions.
        held = any(_needs_approval(tool) for tool in listed)
        head = ("TOOL", "ARGUMENTS", "SCOPES", *(["APPROVAL"] if held else []), "DESCRIPTION")
        print_table(head, (_row(tool, held) for tool in listed))
    else:
        print_note(_explain_empty_list(told))
    for line in absent_servers(told):
        print_note(visible_line(line))
    for name in _changed_tools(told):
        print_note(f"off, because its definition changed: {visible_line(name)} (agtp tools approve NAME)")


def _explain_empty_list(described: Any) -> str:
    """Return why the list is empty: the host hosts nothing that has tools, or this caller may call none."""
    hosted = described.get("hosted_protocols", []) if isinstance(described, dict) else None
    if isinstance(hosted, list) and not hosted:
        return "the host has no tools: it hosts no MCP server, A2A agent or ACP server"
    return "none of the host's tools may be called by this caller now"


def absent_servers(described: Any) -> Iterable[str]:
    """Yield a line for each server whose tools cannot be called now."""
    hosted = described.get("hosted_protocols") if isinstance(described, dict) else None
    for entry in hosted if isinstance(hosted, list) else ():
        if not isinstance(entry, dict) or entry.get("protocol") != "MCP" or entry.get("state") in ("up", "idle"):
            continue
        wait = entry.get("next_attempt_in")
        when = f", next attempt in {wait:.0f} s" if isinstance(wait, (int, float)) else ""
        yield f"not up, so its tools are not listed: {entry.get('name', '')} ({entry.get('state', '')}{when})"


def _changed_tools(described: Any) -> Iterable[str]:
    """Yield the tools that wait for an operator's approval."""
    hosted = described.get("hosted_protocols") if isinstance(described, dict) else None
    for entry in hosted if isinstance(hosted, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("changed_tools"), list):
            yield from (f"{entry.get('name', '')}.{tool}" for tool in entry["changed_tools"])


@command.command()
@click.argument("name", metavar="TOOL")
@consent_options
@host_options
def approve(name: str, consent: Consent, where: Connection, as_json: bool) -> None:
    """
    Approve the present definition of a tool that changed.

    A tool whose definition differs from the first approved one is disabled until then. The difference is shown on
    standard error, and exactly the shown definition is approved: the command sends its digest, and the host refuses if
    the tool has changed again. Without a terminal, give --yes, or --sha256 of the definition that you reviewed.

    Only for administrators ([[operator]]), and for agents with the scope mcp:tools:approve.

    \b
    Examples:
      agtp tools approve files.read_file --as operator
      agtp tools approve files.read_file --as operator --yes
      agtp tools approve weather.forecast --sha256 DIGEST --as operator --json
    """
    target = resolve(where)
    server, dot, tool = name.partition(".")
    if not (server and dot and tool):
        raise click.UsageError("give the tool as SERVER.TOOL; agtp tools ls shows which are disabled")
    payload = {"tool": name, "sha256": digest_to_approve(target, f"mcp.{server}", tool, consent)}
    execute = {"action": APPROVE, "payload_type": MCP_TOOLS, "payload": payload}
    response = object_of(result_of(ask(target, "EXECUTE", "/", execute)), "mcp_response")
    if as_json:
        print_json(response)
        return
    click.echo(f"approved: {visible(str(response.get('tool')))}, definition {response.get('definition_digest')}")


@command.command()
@click.argument("name", metavar="TOOL")
@host_options
def show(name: str, where: Connection, as_json: bool) -> None:
    """
    Show a tool that you may call, with its arguments.

    Shows what the tool does, which scopes and assurance a call needs, and a call to copy.

    \b
    Examples:
      agtp tools show files.search_text
      agtp tools show files.search_text --as demo --json
    """
    target = resolve(where)
    with open_client(target) as client:
        listed = entries_of(require_success(client.call(target.uri, "DISCOVER", "/tools")).result, "tools")
        tool = next((each for each in listed if each.get("name") == name), None)
        asked = {"capability_domains": "tools"}
        described = None if tool is not None else client.call(target.uri, "DESCRIBE", "/", asked)
    if tool is None:
        for line in absent_servers(described.result if described is not None and described.ok else None):
            print_note(visible_line(line))
        close = difflib.get_close_matches(name, [str(each.get("name")) for each in listed], MOST_NEAR)
        meant = f"Did you mean {' or '.join(close)}? " if close else ""
        raise HostRefused(
            f"this caller may call no tool named {name[:64]!r}",
            f"{meant}`agtp tools ls` lists what it may call; `agtp can AGENT EXECUTE / --tool TOOL` names the fault.",
        )
    if as_json:
        print_json(tool)
        return
    schema = tool.get("inputSchema", tool.get("input_schema"))
    arguments = list(_read_arguments(schema if isinstance(schema, dict) else {}))
    print_summary(_fields(tool, arguments))
    if arguments:
        click.echo()
        print_table(("ARGUMENT", "TYPE", "REQUIRED", "DESCRIPTION"), (each[:4] for each in arguments))


def _fields(tool: Mapping[str, Any], arguments: list[tuple[str, str, str, str]]) -> dict[str, object]:
    semantic = tool.get("semantic")
    words = [f"{name}={EXAMPLES.get(kind, '...')}" for name, kind, required, _ in arguments if required == "yes"]
    return {
        "name": tool.get("name"),
        "description": str(tool.get("description", "")).strip(),
        "path": tool.get("path"),
        "scopes": tool.get("required_scopes"),
        "assurance": tool.get("min_assurance"),
        "approval": "by a person" if tool.get("approval") == "required" else None,
        "impact": semantic.get("impact") if isinstance(semantic, dict) else None,
        "definition": tool.get("definition_digest"),
        "call": shlex.join(("agtp", "tools", "call", str(tool.get("name")), *words)),  # A server chose the names.
    }


def _read_arguments(schema: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, type, whether it is required, and description of each argument."""
    properties, required = schema.get("properties"), schema.get("required")
    for name, each in properties.items() if isinstance(properties, dict) else ():
        member = each if isinstance(each, dict) else {}
        needed = isinstance(required, list) and name in required
        said = " ".join(str(member.get("description", "")).split())
        if "default" in member:
            said = f"{said} (default: {json.dumps(member['default'])})".strip()
        yield str(name), _type(member), "yes" if needed else "no", said


def _type(schema: Mapping[str, Any]) -> str:
    """Return the type of a value, or the values that there are; ``any`` if the schema has no simple one."""
    if isinstance(schema.get("enum"), list):
        return " | ".join(json.dumps(each) for each in schema["enum"])
    kinds = schema.get("type")
    if kinds is None and isinstance(schema.get("anyOf"), list):
        kinds = [each.get("type", "any") for each in schema["anyOf"] if isinstance(each, dict)]
    return " | ".join(map(str, kinds)) if isinstance(kinds, list) else str(kinds or "any")


def _needs_approval(tool: Mapping[str, Any]) -> bool:
    """Return whether a person has to approve each call of the tool."""
    return tool.get("approval") == "required"


def _row(tool: Mapping[str, Any], held: bool) -> tuple[str, ...]:
    return (
        str(tool.get("name", "")),
        _arguments(tool.get("inputSchema", tool.get("input_schema"))),
        ", ".join(map(str, tool.get("required_scopes", ()))),
        *(["by a person" if _needs_approval(tool) else "-"] if held else []),
        _summary(str(tool.get("description", ""))),
    )


def _arguments(schema: Any) -> str:
    """Return the names of the arguments, optional ones in brackets."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return ""
    required = schema.get("required", [])
    return " ".join(name if name in required else f"[{name}]" for name in properties)


def _summary(description: str) -> str:
    first = description.strip().partition("\n")[0]
    return first if len(first) <= LONGEST_SUMMARY else f"{first[: LONGEST_SUMMARY - 3]}..."


@command.command()
@click.argument("name", metavar="TOOL")
@click.argument("words", nargs=-1, metavar="[KEY=VALUE | KEY:=JSON]...")
@click.option(
    "--param-file", metavar="FILE", help="A JSON object of arguments; arguments KEY=VALUE replace its members."
)
@click.option("--no-verify", is_flag=True, help="Do not verify the record of the call.")
@request_options
@host_options
def call(
    name: str,
    words: tuple[str, ...],
    param_file: str | None,
    no_verify: bool,
    request: RequestOptions,
    where: Connection,
    as_json: bool,
) -> None:
    """
    Call a tool, and verify the record of the call.

    The exit status is 1 if the host refuses or the tool reports an error, and 5 if a person has to approve the call
    first.

    Text after = is read as the type that the tool's schema asks for: days=3 is a number where the tool takes one. Text
    after := is always JSON.

    \b
    Examples:
      agtp tools call files.list_files
      agtp tools call files.read_file path=welcome.txt
      agtp tools call weather.forecast city=Oslo days=3 --json
      agtp tools call files.list_files --no-cert
      agtp tools call files.delete_note name=old --wait-approval 600
    """
    if "=" in name:
        raise WrongInput(f"{name[:64]!r} is an argument, and no tool is named", f"agtp tools call TOOL {name[:64]}")
    arguments = parameters(words, param_file)
    target = resolve(where)
    options = request.keywords()
    with open_client(target) as client:
        typed = may_be_typed(words)
        tools = _listed_tools(client, target) if typed else []
        entry = next((each for each in tools if each.get("name") == name), {})
        schema = entry.get("inputSchema", entry.get("input_schema"))
        arguments = fit_to_schema(arguments, schema, typed) if isinstance(schema, dict) else arguments
        input = execute(name, arguments)
        reply = call_with_approval(client, target, "EXECUTE", "/", input, stream=request.follow(as_json), **options)
        tools = (tools or _listed_tools(client, target)) if _is_unknown(reply) else []
        listed = next((each for each in tools if each.get("name") == name and payload_type_of(each) != MCP_TOOLS), None)
        if listed is not None:
            input, path = execute_listed(listed, arguments), str(listed.get("path", "/"))
            reply = call_with_approval(
                client, target, "EXECUTE", path, input, stream=request.follow(as_json), **options
            )
    require_success(reply)
    verified = False
    if target.keys and not no_verify:
        verify(reply, target.keys)
        verified = True
    if listed is not None:
        # The result of another payload adapter's tool has the form that its package defines.
        if as_json:
            print_json({"result": reply.result, "audit_id": reply.audit_id, "verified": verified})
        else:
            print_document(reply.result)
            print_note(_proof(reply.audit_id, verified, no_verify))
        return
    result = result_of(reply)
    if result.get("resultType") in ("input_required", "task"):
        print_json({**result, "audit_id": reply.audit_id, "verified": verified})
        return
    response = object_of(result, "tool_response")
    if as_json:
        print_json({"tool_response": response, "audit_id": reply.audit_id, "verified": verified})
    else:
        print_response(response)
        print_note(_proof(reply.audit_id, verified, no_verify))
    if response.get("isError"):
        if as_json:
            raise click.exceptions.Exit(int(ExitStatus.REFUSED))
        raise HostRefused(f"the tool {name} reports an error")


def _is_unknown(reply: Reply) -> bool:
    """Return whether the host knows no tool of an MCP server with that name, or hides whether it does."""
    return not reply.ok and reply.reason in NO_SUCH_TOOL


def _listed_tools(client: Client, target: Target) -> list[dict[str, Any]]:
    """Return the entries of all tools that the caller may call; none if the host does not list them."""
    reply = client.call(target.uri, "DISCOVER", "/tools")
    return entries_of(reply.result, "tools") if reply.ok else []


def _proof(audit_id: str | None, verified: bool, no_verify: bool) -> str:
    if verified:
        return f"record verified: {audit_id}"
    why = "as asked" if no_verify else "the host's signing key is not known"
    return f"record not verified ({why}): {audit_id}"


def print_response(response: Mapping[str, Any]) -> None:
    """Print the result of a tool for people: its content blocks, or its structured content."""
    blocks = response.get("content")
    if isinstance(blocks, list) and blocks:
        for line in _lines(blocks):
            click.echo(visible(line))
    elif "structuredContent" in response:
        print_document(response["structuredContent"])


def _lines(blocks: Iterable[Any]) -> Iterable[str]:
    for block in blocks:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "text":
            yield str(block.get("text", ""))
        elif kind in ("image", "audio"):
            octets = len(str(block.get("data", ""))) * 3 // 4
            yield f"[{kind} {block.get('mimeType', '')}, about {octets} bytes; --json shows them]"
        elif kind == "resource" and isinstance(block.get("resource"), dict):
            resource = block["resource"]
            yield f"[resource {resource.get('uri', '')}]"
            if "text" in resource:
                yield str(resource["text"])
        elif kind == "resource_link":
            yield f"[resource {block.get('uri', '')}]"
        else:
            yield "[content of an unknown kind; --json shows it]"
