"""The command ``agtp can``: what the host would decide about a call, without calling (design decision 14)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from agtphost.cli import colour
from agtphost.cli.arguments import pairs
from agtphost.cli.exchange import inspect, open_client
from agtphost.cli.failures import ExitStatus, WrongInput
from agtphost.cli.host_config import find_config
from agtphost.cli.identities import agent_id_of
from agtphost.cli.near_names import close_endpoints, unlisted_tool
from agtphost.cli.options import HERE, Connection, host_options
from agtphost.cli.output import print_json, print_note, to_text
from agtphost.cli.target import resolve
from agtphost.client.local_identities import REGISTRAR
from agtphost.client.reply import particulars_of
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.catalog import is_method_name
from agtphost.vocabulary.display_names import call as spoken_call
from agtphost.vocabulary.reasons import Reason

ANYONE = "anyone"
"""The argument that means a caller without a name instead of an agent."""


@click.command()
@click.argument("agent", metavar="AGENT|anyone")
@click.argument("called", metavar="TOOL|METHOD", required=False)
@click.argument("words", nargs=-1, metavar="[PATH] [KEY=VALUE | KEY:=JSON | JSON]...")
@click.option("--tool", metavar="NAME", help="Tool of EXECUTE; the fields are its arguments.")
@click.option("--scope", metavar="TOKENS", help="Value of Authority-Scope; default: no such header.")
@click.option(
    "--assurance",
    type=click.Choice(("certificate", "gateway", "header")),
    default="certificate",
    show_default=True,
    help="How the agent would be authenticated.",
)
@host_options
def command(
    agent: str,
    called: str | None,
    words: tuple[str, ...],
    tool: str | None,
    scope: str | None,
    assurance: str,
    where: Connection,
    as_json: bool,
) -> None:
    """
    Ask whether an agent may make a call.

    The host runs its own gates over the question and calls nothing. With input, the input schema is checked, too. The
    exit status is 0 for yes and 1 for no; a call that a person has to approve counts as yes, with a remark. A tool is
    named SERVER.TOOL, as lists name it; the words after it are its arguments. The question is asked with the
    certificate of the agent's Genesis issuer: the configured host's registrar, unless --cert or --as names another.

    \b
    Examples:
      agtp can demo RESERVE /rooms/1/bookings
      agtp can demo files.read_file
      agtp can demo files.read_file path=notes.txt --scope mcp:tools:execute
      agtp can demo files.read_file '{"path": "notes.txt"}'
      agtp can anyone DISCOVER /methods
    """
    if called is None and tool is None:
        raise WrongInput("a tool or a method is missing", f"Write: agtp can {agent[:64]} TOOL|METHOD [PATH]")
    method, path, named, given = _read(called or "EXECUTE", words, tool)
    plain: dict[str, Any] = {"target": "decision", "method": method, "path": path}
    if agent != ANYONE:
        plain.update(agent_id=agent_id_of(where, agent), assurance=assurance)
    if scope is not None:
        plain["authority_scope"] = scope
    asked = dict(plain)
    if named:
        asked.update(_tool_question(named, given))
    elif given is not None:
        asked["input"] = given
    target = resolve(where, identity=REGISTRAR)
    with open_client(target) as client:
        decision = inspect(client, target, asked)
        if named and _unknown(decision):
            # A name that is not a tool may be the operator's own action, which EXECUTE calls by its name.
            action = {"action": named, **({} if given is None else {"parameters": given})}
            own = inspect(client, target, {**plain, "input": action, "partial": given is None})
            decision = decision if _unknown(own) else own
        reason = str((decision.get("refusal") or {}).get("reason") or "")
        config = find_config(where) if where.host_uri == HERE else where.config
        close = [] if as_json else close_endpoints(client, target, reason, method, path, config)
        unlisted = (
            None if as_json or reason != Reason.GRANT_REQUIRED or not named else unlisted_tool(client, target, named)
        )
    allowed = decision.get("allowed") is True
    if as_json:
        print_json(decision)
    else:
        colour.tell(render_decision(agent, decision, close))
        if unlisted is not None:
            # The refusal does not tell its caller whether there is such a tool.
            meant = f"; did you mean {' or '.join(unlisted)}?" if unlisted else "; `agtp tools ls` lists them"
            print_note(f"note: this host lists no tool {named}, so nothing can allow it{meant}")
    if not allowed:
        raise click.exceptions.Exit(ExitStatus.REFUSED)


def _read(called: str, words: tuple[str, ...], tool: str | None) -> tuple[str, str, str, Mapping[str, Any] | None]:
    """Return method, path, tool (empty if none is named), and the input or arguments (None if none are given)."""
    if " /" in called:
        # An endpoint in quotes, as grants name it: 'QUERY /books/{id}'.
        called, _, endpoint = called.partition(" ")
        words = (endpoint.strip(), *words)
    method, path, named = called, "/", tool or ""
    if not is_method_name(called):
        if tool is not None or "." not in called:
            raise WrongInput(
                f"{called[:64]!r} is neither a method nor a tool",
                "Give a method such as DISCOVER, or a tool that `agtp tools ls` lists, such as files.read_file.",
            )
        method, named = "EXECUTE", called
    if words and words[0].startswith("/"):
        path, words = words[0], words[1:]
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        try:
            given = jsontext.decode(words[0].encode("utf-8", "surrogateescape"))
        except jsontext.JSONTextError as error:
            raise WrongInput(
                f"the input is not JSON: {error}", "Give a JSON object, or key=value for each member."
            ) from None
        if not isinstance(given, dict):
            raise WrongInput("the input is not a JSON object", 'Give one such as {"path": "notes.txt"}.')
        return method, path, named, given
    return method, path, named, pairs(words) if words else None


def tool_question(agent_id: str, tool: str) -> dict[str, Any]:
    """Return the INSPECT that asks whether an agent may call a tool, which is named ``SERVER.TOOL``."""
    asked = {"target": "decision", "method": "EXECUTE", "path": "/", "agent_id": agent_id, "assurance": "certificate"}
    return {**asked, **_tool_question(tool, None)}


def _tool_question(name: str, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what names a tool in the question; the host knows by which EXECUTE it is called."""
    return {"tool": name, **({} if arguments is None else {"input": arguments})}


def _unknown(decision: Mapping[str, Any]) -> bool:
    refusal = decision.get("refusal") or {}
    return refusal.get("reason") in (Reason.UNKNOWN_TOOL, Reason.UNKNOWN_ACTION, Reason.UNSUPPORTED_PAYLOAD_TYPE)


def render_rule(rule: object) -> list[str]:
    """Return the line of the host's files that decided, if the host reports it."""
    if not isinstance(rule, Mapping) or not rule.get("at"):
        return []
    default = ", which is not set: this is the default" if rule.get("default") else ""
    return [f"  rule     {rule['at']} {rule.get('key', '')}{default}"]


def render_decision(agent: str, decision: Mapping[str, Any], close: Sequence[str] = ()) -> list[str]:
    """
    Return the decision as lines for people.

    :param close: endpoints with a name like the one that the host does not have; tools are in the decision.
    """
    method, path, name = (str(decision.get(member) or "") for member in ("method", "path", "name"))
    call = str(decision.get("called") or spoken_call(method, path, name))
    if decision.get("allowed") is True:
        lines = [f"yes: {agent} may call {call}"]
        if decision.get("method_decides"):
            lines = [
                f"yes, at the gates: {agent} may send {call}",
                f"  then     {method} decides itself, by the caller's role and by what the request names",
            ]
        if decision.get("needs_approval"):
            lines = [
                f"yes: {agent} may call {call}, once a person has approved it",
                *render_rule(decision.get("approval_rule")),
            ]
    else:
        refusal = decision.get("refusal") or {}
        lines = [
            f"no: {agent} may not call {call}",
            f"  status   {refusal.get('status')} {refusal.get('reason')}",
            f"  because  {refusal.get('explanation')}",
            f"  gate     {refusal.get('gate')}",
        ]
        details = refusal.get("details")
        lacking = details.get("missing_scopes") or details.get("scopes") if isinstance(details, dict) else None
        if lacking:
            lines.append(f"  lacks    {to_text(lacking)}")
        if isinstance(details, dict) and details.get("faults"):
            lines.extend(f"  fault    {line}" for line in particulars_of({"faults": details["faults"]}))
        if isinstance(details, dict) and isinstance(tools := details.get("close_matches"), list):
            close = [*close, *map(str, tools)]
        if close:
            lines.append(f"  close    {', '.join(close)}")
        lines.extend(render_rule(refusal.get("rule")))
        if refusal.get("remedy"):
            lines.append(f"  remedy   {refusal['remedy']}")
    lines.append(f"  passed   {', '.join(decision.get('passed') or ()) or '-'}")
    lines.append(f"  known by {decision.get('assurance')}")
    if decision.get("scopes"):
        lines.append(f"  scopes   {', '.join(decision['scopes'])}")
    if decision.get("required_scopes"):
        lines.append(f"  needs    {', '.join(decision['required_scopes'])}")
    return lines
