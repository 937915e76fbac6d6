"""The command ``agtp mcp-bridge``: serve a host's tools to any MCP client."""

from __future__ import annotations

import functools
import json
import os
import re
import secrets
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from agtphost.cli.exchange import carrier_options, failure_of
from agtphost.cli.failures import NoConnection, WrongInput
from agtphost.cli.host_config import find_config, require_config
from agtphost.cli.options import AUTO, EXISTING, HERE, Connection, connection_options
from agtphost.cli.output import print_json, print_note
from agtphost.cli.target import Target, resolve
from agtphost.client.errors import ClientError
from agtphost.client.local_identities import CALLER
from agtphost.vocabulary.foreign_errors import explain

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred
    from twisted.python.failure import Failure

    from agtphost.bridge.host_link import HostLink
    from agtphost.mcp.server import Server

CONNECTIONS = 64
"""Most connections to the host, and thus most simultaneous calls of MCP clients."""

MOST_TOKENS = 64

_SERVER = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,512}", re.ASCII)
_CLIENTS = ("claude", "vscode", "cursor")


@click.command()
@click.argument("uri", default="-")
@click.option(
    "--http", type=click.IntRange(0, 65535), metavar="PORT", help="Serve Streamable HTTP on 127.0.0.1; 0: any port."
)
@click.option("--server", metavar="NAME", help="Serve only this MCP server, with its own tool names.")
@click.option("--no-endpoints", is_flag=True, help="Serve only MCP servers, not the host's own endpoints.")
@click.option("--search", is_flag=True, help="Serve two tools, search_tools and call_tool, instead of all.")
@click.option(
    "--token-file",
    type=EXISTING,
    metavar="FILE",
    help="With --http: file of tokens, one a line, instead of a new token; each client sends one.",
)
@click.option("--no-token", is_flag=True, help="With --http: serve every user of this machine without a token.")
@click.option("--no-verify", is_flag=True, help="Do not verify the records of answers.")
@click.option(
    "--approval-wait",
    type=click.FloatRange(0, 86_400),
    default=0.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a call waits for a person's approval.",
)
@click.option("--print-config", type=click.Choice(_CLIENTS), help="Print the entry for that client, and exit.")
@click.option("--front", is_flag=True, help="With --print-config: the entry for [mcp.front].")
@connection_options
def command(
    uri: str,
    http: int | None,
    server: str | None,
    no_endpoints: bool,
    search: bool,
    token_file: Path | None,
    no_token: bool,
    no_verify: bool,
    approval_wait: float,
    print_config: str | None,
    front: bool,
    where: Connection,
    as_json: bool,
) -> None:
    """
    Serve the tools, resources and prompts of a host to an MCP client.

    The client uses MCP on stdin and stdout, or at a port of this machine. For the host, the bridge is one agent: that
    of the client certificate.

    --http generates and prints a token, which other users of this machine must send. Your own programs may omit it,
    since they could read the agent's key as well. With --token-file every client must send one of its tokens. With
    --json the URL and the token are printed as JSON.

    A call that a person has to approve waits up to --approval-wait seconds, with progress messages. After that the
    answer says that the call is held; the same call succeeds once it is approved.

    \b
    Examples:
      agtp mcp-bridge
      agtp mcp-bridge agtp://agents.example.com --cert me.pem --cacert ca.pem
      agtp mcp-bridge --http 8931 --token-file token.txt
      agtp mcp-bridge --search
      agtp mcp-bridge --quic=auto
      agtp mcp-bridge --as demo --print-config claude
      agtp mcp-bridge --front --print-config cursor
    """
    _require_sound(server, token_file, no_token, http)
    if front:
        _print_front(print_config, server, where, as_json)
        return
    target = resolve(where, uri)
    made = secrets.token_urlsafe(32) if http is not None and token_file is None and not no_token else ""
    tokens = (made,) if made else () if token_file is None else _tokens(token_file)
    if print_config is not None:
        flags = _flags(no_endpoints, search, no_verify, approval_wait, where.quic)
        words = _words(where, uri, target, server, flags)
        _print(print_config, *_config_for(print_config, words, http, server, token_file), as_json)
        return
    from agtphost.bridge import traces
    from agtphost.mcp.server import Server

    def build(reactor: Any) -> tuple[HostLink, Server]:
        link = _link(reactor, target, server, verified=not no_verify, approval_wait=approval_wait)
        bridge = Server(link, reactor, server=server, endpoints=not no_endpoints, search=search)
        traces.trace_requests(bridge)
        return link, bridge

    end_traces = traces.begin(os.environ)
    try:
        _serve(build, http, tokens, functools.partial(_ready, as_json, made), trust_own_user=bool(made))
    except ClientError as error:
        raise failure_of(error, shares_store=target.shares_store) from None
    finally:
        end_traces()


def _serve(
    build: Callable[[Any], tuple[HostLink, Server]],
    http: int | None,
    tokens: Sequence[str],
    ready: Callable[[str], None],
    *,
    trust_own_user: bool,
) -> None:
    """Serve until the client closes stdin, or over HTTP until SIGTERM or SIGINT."""
    from twisted.internet import reactor
    from twisted.internet.defer import Deferred

    from agtphost.bridge import stdio
    from agtphost.bridge.host_link import use_steady_clock
    from agtphost.bridge.http import BridgeListener

    use_steady_clock(reactor)
    failures: list[BaseException] = []
    link, bridge = build(reactor)
    over: Deferred[None] = Deferred()
    listener = None if http is None else BridgeListener(reactor, bridge, http, tokens, trust_own_user=trust_own_user)
    if listener is not None:
        try:
            listener.take_port()
        except OSError as error:
            raise NoConnection(
                f"cannot listen on 127.0.0.1:{http}: {explain(error)}", "Choose another port."
            ) from error

    async def main() -> None:
        try:
            if listener is None:
                await stdio.serve(bridge, reactor)
            else:
                listener.startService()
                await listener.when_listening()
                ready(listener.url)
                await over
                await listener.stopService()
        finally:
            bridge.end()
            await bridge.relay.wait_for_cancellations()
            await link.close()

    def fail(failure: Failure) -> None:
        assert failure.value is not None
        failures.append(failure.value)

    def begin() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _stopper(reactor, over) if listener is not None else signal.SIG_DFL)
        Deferred.fromCoroutine(main()).addErrback(fail).addBoth(lambda _: reactor.stop())

    reactor.callWhenRunning(begin)
    reactor.run(installSignalHandlers=False)  # type: ignore[call-arg]
    if failures:
        raise failures[0]


def _stopper(reactor: Any, over: Deferred[None]) -> Callable[..., None]:
    def stop(*_: object) -> None:
        reactor.callFromThread(lambda: None if over.called else over.callback(None))

    return stop


def _require_sound(server: str | None, token_file: Path | None, no_token: bool, http: int | None) -> None:
    if server is not None and _SERVER.fullmatch(server) is None:
        raise WrongInput(
            f"--server {server[:40]!r} is not an MCP server's name",
            "`agtp tools ls` lists tools as SERVER.TOOL: give what is before the dot.",
        )
    if token_file is not None and no_token:
        raise WrongInput("--no-token excludes --token-file", "Give one of the two.")
    if http is None and (no_token or token_file is not None):
        option = "--no-token" if no_token else "--token-file"
        raise WrongInput(f"{option} needs --http", "On stdio only the program that starts the bridge can use it.")


def _ready(as_json: bool, made: str, url: str) -> None:
    """
    Print the address of the bridge.

    :param made: the token that was generated for this run; empty if there is none.
    """
    if as_json:
        print_json({"url": url, **({"token": made} if made else {})})
        sys.stdout.flush()
    elif made:
        print_note(f"For other users of this machine: Authorization: Bearer {made}")
    print_note(f"agtp mcp-bridge ready: {url}")


def _link(reactor: Any, target: Target, server: str | None, *, verified: bool, approval_wait: float) -> HostLink:
    from agtphost.bridge.host_link import HostLink
    from agtphost.client import Client

    options = target.client_options(connections=CONNECTIONS, stay_connected=True)
    client = Client(reactor, **(options | carrier_options(target)))
    return HostLink(
        client=client,
        clock=reactor,
        uri=target.uri,
        path="/" if server is None else f"/mcp/{server}",
        keys=target.keys if verified else {},
        approval_wait=approval_wait,
    )


def _tokens(path: Path) -> tuple[str, ...]:
    """Return the tokens in a file, one a line; a session belongs to the token that opened it."""
    try:
        tokens = tuple(path.read_text().split())
    except (OSError, UnicodeDecodeError) as error:
        raise WrongInput(f"the tokens cannot be read: {explain(error)}") from error
    if not 0 < len(tokens) <= MOST_TOKENS or any(_TOKEN.fullmatch(token) is None for token in tokens):
        raise WrongInput(
            f"{path} must have 1 to {MOST_TOKENS} tokens, each of 16 to 512 characters of A-Z a-z 0-9 . _ ~ + / = -",
            f"Create one with: openssl rand -hex 32 > {path}",
        )
    return tokens


def _config_for(
    client: str, words: Sequence[str], http: int | None, server: str | None, token_file: Path | None
) -> tuple[str, str]:
    """Return the entry to paste, and the file that it belongs to."""
    from agtphost.bridge import client_config

    name = server or client_config.NAME
    if http is None:
        return client_config.stdio_entry(client, name, words), client_config.WHERE[client]
    if not http:
        raise WrongInput("--print-config needs the port of the bridge", "Give --http a port other than 0.")
    url = f"http://127.0.0.1:{http}/mcp"
    return client_config.http_entry(client, name, url, token_file is not None), client_config.WHERE_HTTP[client]


def _print_front(client: str | None, server: str | None, where: Connection, as_json: bool) -> None:
    """Print the entry for the MCP front of a host on this machine."""
    from agtphost.bridge import client_config
    from agtphost.cli.client import fronts

    if client is None:
        raise WrongInput("--front needs --print-config", "The host serves [mcp.front] without a bridge.")
    config = require_config(where, "the entry of its front")
    url = fronts.address_of(config, server)
    name, file = server or client_config.NAME, client_config.WHERE_HTTP[client]
    text = client_config.http_entry(client, name, url, fronts.takes_token(config), fronts.ASKS)
    _print(client, text, file, as_json)


def _print(client: str, text: str, file: str, as_json: bool) -> None:
    """Print the entry to paste, and the file that it belongs to."""
    if as_json:
        print_json({"client": client, "file": file, "config": json.loads(text)})
    else:
        click.echo(text)
        print_note(f"For {file}.")


def _flags(
    no_endpoints: bool, search: bool, no_verify: bool, approval_wait: float, quic: bool | Literal["auto"]
) -> list[str]:
    """Return the options of the bridge as command line words."""
    flags = ["--no-endpoints"] * no_endpoints + ["--search"] * search + ["--no-verify"] * no_verify
    if quic:
        flags.append(f"--quic={AUTO}" if quic == AUTO else "--quic")
    return flags + (["--approval-wait", f"{approval_wait:g}"] if approval_wait else [])


def _words(where: Connection, uri: str, target: Target, server: str | None, flags: list[str]) -> list[str]:
    """Return the command line that starts the same bridge from any directory."""
    from agtphost.bridge.client_config import bridge_command

    config = find_config(where) if target.keys else None
    options = [] if server is None else ["--server", server]
    if config is not None and uri == HERE and target.cert is not None and where.cert is None and where.cacert is None:
        return [*bridge_command(config.absolute(), where.identity or CALLER), *options, *flags]
    words = [str(Path(sys.executable).with_name("agtp")), "mcp-bridge", target.uri]
    for option, path in (("--cert", target.cert), ("--key", target.key), ("--cacert", target.cacert)):
        if path is not None:
            words += [option, str(path.absolute())]
    if target.cert is None and target.agent_id is not None:
        words += ["--agent-id", target.agent_id]
    if config is not None and "--no-verify" not in flags:
        flags = [*flags, "--config", str(config.absolute()), *["--no-cert"] * (target.cert is None)]
    return [*words, *options, *flags]
