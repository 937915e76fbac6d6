"""The ``agtp registry`` group: agents by their cards, in a host's own registry or any other (HAIDIP)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from agtphost.cli.arguments import parameters
from agtphost.cli.failures import WrongInput
from agtphost.cli.groups import VerbGroup
from agtphost.cli.local_files import read_octets
from agtphost.cli.options import (
    EXISTING,
    Connection,
    RequestOptions,
    add_options,
    host_options,
    request_options,
)
from agtphost.cli.output import print_answer, print_document, print_json, print_note, visible
from agtphost.cli.registry.card_output import print_card, print_cards
from agtphost.cli.registry.foreign import ForeignRegistry, RegistryCredentials, call_directly, token_of
from agtphost.cli.registry.native import NativeRegistry
from agtphost.cli.target import resolve
from agtphost.client.local_identities import REGISTRAR
from agtphost.vocabulary import jsontext

COMPLETION_SECONDS = 2.0
"""Seconds after which a shell completion gives up."""


@dataclass(frozen=True, kw_only=True)
class RegistryOptions:
    """The options that select a registry other than the host's own."""

    registry: str | None = None
    token_file: Path | None = None

    def credentials(self, where: Connection) -> RegistryCredentials:
        """Return the credentials for that registry."""
        return RegistryCredentials(
            token=token_of(self.token_file),
            cert=where.cert,
            key=where.key,
            cacert=where.cacert,
            timeout=where.timeout,
        )


registry_options = add_options(
    RegistryOptions,
    "elsewhere",
    (
        click.option("--registry", metavar="URL", help="A registry that speaks HAIDIP; default: the host's own."),
        click.option("--token-file", type=EXISTING, metavar="FILE", help="Bearer token for --registry and --direct."),
    ),
)


def _open_registry(
    where: Connection, elsewhere: RegistryOptions, *, operator: bool = False
) -> NativeRegistry | ForeignRegistry:
    if elsewhere.registry is not None:
        return ForeignRegistry(elsewhere.registry, elsewhere.credentials(where))
    return NativeRegistry(resolve(where, identity=REGISTRAR) if operator else resolve(where))


def _ids(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the cards of the registry; complete nothing if it does not answer in time."""
    names = Connection.__dataclass_fields__
    given = {name: value for name, value in context.params.items() if name in names and value is not None}
    where = Connection(**{**given, "timeout": COMPLETION_SECONDS})
    elsewhere = RegistryOptions(registry=context.params.get("registry"), token_file=context.params.get("token_file"))
    try:
        found = _open_registry(where, elsewhere).entries({})
    except (click.ClickException, OSError):
        return []
    return [
        CompletionItem(card_id, help=visible(str(each.get("name", ""))))
        for each in found
        if (card_id := str(each.get("id", ""))).startswith(incomplete) and card_id.isprintable()
    ]


id_argument = click.argument("card_id", metavar="CARD", shell_complete=_ids)


@click.group(cls=VerbGroup)
def command() -> None:
    """Find agents by their cards, call them, and register more."""


CAPABILITY_OPTION = click.option(
    "--capability",
    "capabilities",
    multiple=True,
    metavar="TAG",
    help="Only agents with this capability tag; may be repeated.",
)
"""Of commands that list and search agents."""


@command.command()
@CAPABILITY_OPTION
@click.option("--tag", metavar="TAG", help="Only agents with this tag.")
@click.option("--language", metavar="TAG", help="Only agents with this language, such as es.")
@click.option("--provider", metavar="NAME", help="Only agents of this provider.")
@click.option("--state", type=click.Choice(["live", "late", "lost"]), help="Only agents in this state.")
@registry_options
@host_options
def ls(
    capabilities: tuple[str, ...],
    tag: str | None,
    language: str | None,
    provider: str | None,
    state: str | None,
    elsewhere: RegistryOptions,
    where: Connection,
    as_json: bool,
) -> None:
    """
    List the agents that you may call.

    VERIFIED is the evidence for a card: a verified signature, or the trust tier of an agent that the host serves. "says
    so" and QUALITY are claims of the card.

    \b
    Examples:
      agtp registry ls
      agtp registry ls --capability translation --language es
      agtp registry ls --registry https://agents.example.com --json
    """
    given = {"tag": tag, "language": language, "provider": provider, "state": state}
    asked: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if capabilities:
        asked["capabilities"] = list(capabilities)
    found = _open_registry(where, elsewhere).entries(asked)
    if as_json:
        print_json(found)
    elif found:
        print_cards(found)
    else:
        print_note("no agent that this caller may call matches")


@command.command()
@click.argument("text", metavar="TEXT")
@click.option(
    "--top",
    type=click.IntRange(1, 200),
    default=10,
    show_default=True,
    metavar="NUMBER",
    help="Maximum number of results.",
)
@click.option(
    "--skip",
    type=click.IntRange(0, 1_000_000),
    default=0,
    metavar="NUMBER",
    help="How many of the best results to leave out.",
)
@CAPABILITY_OPTION
@click.option("--language", metavar="TAG", help="Only agents with this language, such as es.")
@click.option("--include-lost", is_flag=True, help="Also find agents whose lease is lost: they have not renewed it.")
@registry_options
@host_options
def search(
    text: str,
    top: int,
    skip: int,
    capabilities: tuple[str, ...],
    language: str | None,
    include_lost: bool,
    elsewhere: RegistryOptions,
    where: Connection,
    as_json: bool,
) -> None:
    """
    Search agents by a description of the task.

    The results are agents that the caller may call, and their scores disclose nothing about others. Below an agent are
    those of its operations that match best.

    \b
    Examples:
      agtp registry search "land the PR"
      agtp registry search "translate a letter" --language es --top 3
      agtp registry search "book a room" --registry https://agents.example.com --json
    """
    asked: dict[str, Any] = {"query": text, "top": top, "skip": skip, "ranked": True}
    filters: dict[str, Any] = {}
    if capabilities:
        filters["capabilities"] = list(capabilities)
    if language:
        filters["language"] = language
    if filters:
        asked["filters"] = filters
    if include_lost:
        asked["include_unavailable"] = True
    found = _open_registry(where, elsewhere).search(asked)
    if as_json:
        print_json(found)
    elif found:
        print_cards(found)
    else:
        print_note("no agent that this caller may call was found")


@command.command()
@id_argument
@click.option("--version", metavar="NUMBER", help="Show this earlier version.")
@registry_options
@host_options
def get(card_id: str, version: str | None, elsewhere: RegistryOptions, where: Connection, as_json: bool) -> None:
    """
    Show an agent's card.

    --json prints the card as it was registered.

    \b
    Examples:
      agtp registry get agent:librarian
      agtp registry get translator-001 --registry https://agents.example.com --json
    """
    card, fields = _open_registry(where, elsewhere).get(card_id, version)
    if as_json or not isinstance(card, Mapping):
        print_json(card)
    else:
        print_card(card, fields)


@command.command()
@id_argument
@click.argument("words", nargs=-1, metavar="[OPERATION] [KEY=VALUE | KEY:=JSON]...")
@click.option("--param-file", metavar="FILE", help="A JSON object of input; arguments KEY=VALUE replace its members.")
@click.option("--direct", "straight", is_flag=True, help="Call the agent's own endpoint instead of the registry.")
@request_options
@registry_options
@host_options
def invoke(
    card_id: str,
    words: tuple[str, ...],
    param_file: str | None,
    straight: bool,
    request: RequestOptions,
    elsewhere: RegistryOptions,
    where: Connection,
    as_json: bool,
) -> None:
    """
    Call an agent, or one of its operations.

    The result comes from the agent: it is only printed, with control characters escaped.

    \b
    Examples:
      agtp registry invoke agent:librarian query_library_isbn isbn=9780141439518
      agtp registry invoke mcp:files read_file path=welcome.txt --json
      agtp registry invoke translator-001 text=Hello --registry https://agents.example.com
      agtp registry invoke translator-001 text=Hello --direct --token-file translator.token
    """
    operation = words[0] if words and "=" not in words[0] else None
    given = parameters(words if operation is None else words[1:], param_file)
    registry, audit_id = _open_registry(where, elsewhere), ""
    if straight:
        card, _ = registry.get(card_id)
        if not isinstance(card, Mapping):
            raise WrongInput(f"the card of {card_id} is not a JSON object", "Leave out --direct.")
        result = call_directly(card, operation, given, elsewhere.credentials(where))
    elif isinstance(registry, NativeRegistry):
        options = request.keywords()
        result, audit_id = registry.invoke(card_id, operation, given, stream=request.follow(as_json), **options)
    else:
        result, audit_id = registry.invoke(card_id, operation, given)
    if as_json:
        print_json(result)
    else:
        print_document(result)
    if audit_id:
        print_note(f"Audit-ID: {audit_id}")


@command.command()
@click.argument("what", metavar="FILE|URL")
@click.option(
    "--lifetime",
    type=click.IntRange(60, 86_400),
    metavar="SECONDS",
    help="Time until the lease ends unless it is renewed; default: 900.",
)
@registry_options
@host_options
def add(what: str, lifetime: int | None, elsewhere: RegistryOptions, where: Connection, as_json: bool) -> None:
    """
    Register an agent by its card, or change its card.

    A file has the card itself, and - is standard input; from a URL, the registry fetches the card now and regularly.
    Only for operators, and for agents with the scope registry:register.

    \b
    Examples:
      agtp registry add translator.json
      agtp registry add https://api.example.com/.well-known/agent-card.json --as operator
      agtp registry add - --lifetime 3600 --json
    """
    if what.startswith(("https://", "http://")):
        given: dict[str, Any] = {"url": what}
    else:
        try:
            octets = read_octets(what)
            jsontext.decode(octets)
            given = {"card": octets.decode("utf-8")}
        except jsontext.JSONTextError as error:
            raise WrongInput(f"{what} is not JSON: {error}") from None
    if lifetime is not None:
        given["lifetime"] = lifetime
    _print_answer(_open_registry(where, elsewhere, operator=True).add(given), as_json)


@command.command()
@id_argument
@click.option("--successor", metavar="CARD", help="Card of the agent that replaces it.")
@registry_options
@host_options
def withdraw(card_id: str, successor: str | None, elsewhere: RegistryOptions, where: Connection, as_json: bool) -> None:
    """
    Withdraw an agent that was registered.

    \b
    Examples:
      agtp registry withdraw translator-001
      agtp registry withdraw translator-001 --successor translator-002 --json
    """
    given = {} if successor is None else {"successor": successor}
    _print_answer(_open_registry(where, elsewhere, operator=True).withdraw(card_id, given), as_json)


@command.command()
@id_argument
@click.option(
    "--lifetime",
    type=click.IntRange(60, 86_400),
    metavar="SECONDS",
    help="Time until the lease ends unless it is renewed; default: 900.",
)
@registry_options
@host_options
def renew(card_id: str, lifetime: int | None, elsewhere: RegistryOptions, where: Connection, as_json: bool) -> None:
    """
    Renew the lease of an agent.

    Every call of an agent renews its lease; use this for agents that are rarely called.

    \b
    Examples:
      agtp registry renew translator-001
      agtp registry renew translator-001 --lifetime 3600 --json
    """
    given = {} if lifetime is None else {"lifetime": lifetime}
    _print_answer(_open_registry(where, elsewhere, operator=True).renew(card_id, given), as_json)


@command.command()
@id_argument
@click.option("--sha256", "digest", metavar="DIGEST", help="Digest of the reviewed card; default: the present one.")
@click.option(
    "--public/--no-public", "public", default=None, help="Let unknown callers see and call the agent, or stop it."
)
@host_options
def approve(card_id: str, digest: str | None, public: bool | None, where: Connection, as_json: bool) -> None:
    """
    Put a changed card into effect, or make a card public.

    If a card's endpoint, authentication, operations or name change, the previous card stays in force until an approval.
    This approves the card that was pending when the command ran: if it has changed again, the host refuses.

    With --public, unknown callers may see and call the agent. Only operators may permit this; an agent requests it by
    registering its card as public. It ends when the agent changes endpoint or operations in its card.

    \b
    Examples:
      agtp registry approve translator-001
      agtp registry approve translator-001 --sha256 DIGEST --as operator --json
      agtp registry approve translator-001 --public
    """
    registry = NativeRegistry(resolve(where, identity=REGISTRAR))
    if public is not None:
        looked_at = digest or registry.entry(card_id).get("etag")
        _print_answer(registry.approve(card_id, {"public": public, "digest": looked_at}), as_json)
        return
    if digest is None:
        pending = registry.entry(card_id).get("pending")
        if not isinstance(pending, str):
            raise WrongInput(f"the card {card_id} has no pending change", "See STATE in agtp registry ls.")
        digest = pending
    _print_answer(registry.approve(card_id, {"digest": digest}), as_json)


def _print_answer(answer: Mapping[str, Any], as_json: bool) -> None:
    shown = (
        *("id", "name", "created", "state", "status", "version", "expires_at", "lifetime", "pending"),
        *("public", "public_requested", "etag"),
    )
    print_answer(answer if as_json else {name: answer[name] for name in shown if name in answer}, as_json)
