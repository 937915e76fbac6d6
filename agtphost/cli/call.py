"""The command ``agtp call``: send one request with any method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from agtphost.cli.arguments import data_octets, header_fields, parameters, suggest_typed_values
from agtphost.cli.confirmation import confirming
from agtphost.cli.exchange import (
    FALLBACK,
    call_with_approval,
    exit_status_of,
    open_client,
    refusal,
    signing_keys,
    verify,
)
from agtphost.cli.failures import WrongInput
from agtphost.cli.host_config import find_config
from agtphost.cli.near_names import close_endpoints
from agtphost.cli.options import HERE, Connection, RequestOptions, connection_options, request_options
from agtphost.cli.output import print_document, print_json, print_note, visible
from agtphost.cli.target import resolve
from agtphost.vocabulary import jsontext, media_types, trace_context

if TYPE_CHECKING:
    from agtphost.client.reply import Reply


@click.command()
@click.argument("uri", metavar="URI")
@click.argument("method", metavar="METHOD")
@click.argument("words", nargs=-1, metavar="[PATH] [KEY=VALUE | KEY:=JSON]...")
@click.option("--data", metavar="JSON|@FILE", help="The whole body, instead of parameters.")
@click.option("--content-type", metavar="TYPE", help="Media type of --data; default: AGTP's JSON.")
@click.option(
    "--param-file", metavar="FILE", help="A JSON object of parameters; arguments KEY=VALUE replace its members."
)
@click.option("-i", "--include", is_flag=True, help="Also show the status line and the headers of the answer.")
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="NAME:VALUE",
    help="Further header of the request; may be repeated.",
)
@click.option(
    "--traceparent",
    metavar="ID",
    envvar="TRACEPARENT",
    help="Trace of the call (W3C Trace Context); default: $TRACEPARENT.",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1),
    metavar="0..1",
    help="Confidence that this call is intended; below what the call needs, you are asked before it is sent.",
)
@click.option("--yes", is_flag=True, help="Confirm that a person agreed; do not ask before irreversible calls.")
@click.option("--verify", "verified", is_flag=True, help="Verify the record: signature, hashes, identifiers.")
@request_options
@connection_options
def command(
    uri: str,
    method: str,
    words: tuple[str, ...],
    data: str | None,
    content_type: str | None,
    param_file: str | None,
    include: bool,
    headers: tuple[str, ...],
    traceparent: str | None,
    confidence: float | None,
    yes: bool,
    verified: bool,
    request: RequestOptions,
    where: Connection,
    as_json: bool,
) -> None:
    """
    Send one request and show the answer.

    URI is agtp://HOST[:PORT], or - for the configured host. KEY=VALUE sends text, KEY:=JSON any other value; a refusal
    for a text where a number is needed says so. The exit status is 5 if a person has to approve the call first.

    On a terminal, the command asks before a call that the host's AGIS document or manifest calls irreversible; --yes
    answers in advance. Without a terminal the call is sent, except with --confidence, which agents give: then a call
    that needs a person's consent is refused and not sent.

    If the host has no such endpoint, close ones are named: those in the files of the configured host, or else those
    that the host lists. With --json they are not.

    \b
    Examples:
      agtp call - DISCOVER
      agtp call - DISCOVER /tools --json
      agtp call agtp://agents.example.com BOOK /room date=2026-12-01 guests:=2
      agtp call - INSPECT target=chain_head chain=host --verify -i
      agtp call - EXECUTE --data @request.json --idempotency-key order-7
      agtp call - REMOVE /files path=old.txt --wait-approval 600
      agtp call - BOOK /room date=2026-12-01 guests:=2 --confidence 0.9
      agtp call - DISCOVER --traceparent 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
    """
    path = "/"
    if words and words[0].startswith("/"):
        path, words = words[0], words[1:]
    _check_method(method)
    if data is not None and (words or param_file):
        raise WrongInput("--data excludes parameters and --param-file", "Leave out the parameters and --param-file.")
    if content_type is not None and data is None:
        raise WrongInput("--content-type needs --data")
    fields = [*header_fields(headers), *_trace(traceparent)]
    options: dict[str, Any] = {"headers": fields, **request.keywords()}
    if data is not None:
        options |= {"body": data_octets(data), "content_type": content_type or media_types.AGTP_JSON}
    given = parameters(words, param_file) or None
    target = resolve(where, uri)
    if confidence is not None:
        options["confidence"] = confidence
    with open_client(target, confirming(confidence, yes)) as client:
        reply = call_with_approval(client, target, method, path, given, stream=request.follow(as_json), **options)
        if verified:
            verify(reply, signing_keys(target, client))
        config = find_config(where) if uri == HERE else where.config
        near = [] if as_json or reply.ok else close_endpoints(client, target, reply.reason, method, path, config)
    if as_json:
        _print_json(reply, verified)
        raise click.exceptions.Exit(int(exit_status_of(reply)))
    if reply.ok or include or not reply.explanation:
        # The error below has what a refusal's body says.
        _print(reply, include)
    if verified:
        print_note(f"record verified: {reply.audit_id}")
    if not reply.ok:
        meant = f"Did you mean {' or '.join(near)}?" if near else ""
        raise refusal(reply, meant or suggest_typed_values(words, reply.document))


def _trace(traceparent: str | None) -> list[tuple[str, str]]:
    """Return the header field of a trace; a malformed one from the environment is ignored, as in the standard."""
    if not traceparent:
        return []
    if trace_context.read(traceparent) is not None:
        return [(trace_context.TRACEPARENT, traceparent)]
    source = click.get_current_context().get_parameter_source("traceparent")
    if source is ParameterSource.ENVIRONMENT:
        return []
    raise WrongInput(
        f"--traceparent {traceparent[:60]!r} is not a traceparent of W3C Trace Context",
        "Give one such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.",
    )


def _check_method(method: str) -> None:
    if not method.isascii() or not method.isprintable() or not method or " " in method:
        raise WrongInput(f"{method[:40]!r} is not a method name")
    if method.upper() != method:
        raise WrongInput(f"{method[:40]!r} is not a method name", f"Methods are upper-case: {method.upper()[:40]}.")


def _print(reply: Reply, include: bool) -> None:
    if include:
        click.echo(f"{reply.printable_head}\n")
    if not reply.body:
        return
    try:
        print_document(reply.json())
    except jsontext.JSONTextError:
        click.echo(reply.printable_body)


def _print_json(reply: Reply, verified: bool) -> None:
    try:
        body: Any = reply.json() if reply.body else None
    except jsontext.JSONTextError:
        body = visible(reply.body.decode("utf-8", "backslashreplace"))
    answer: dict[str, Any] = {
        "status": reply.status,
        "text": reply.text,
        "headers": [[name, value] for name, value in reply.headers],
        "body": body,
        "audit_id": reply.audit_id,
    }
    if verified:
        answer["verified"] = True
    fallback = click.get_current_context().meta.get(FALLBACK)
    if fallback is not None:
        answer["fallback"] = {"carrier": "tls", "cause": fallback.cause}
    print_json(answer)
