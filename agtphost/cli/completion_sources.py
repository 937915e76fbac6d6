"""
Shell completions: agents, tools, methods, paths and Audit-IDs of the configured host.

All of them come from files: ``host.toml``, the state directory and the store, which is only read. That takes some
milliseconds and needs no running host. Any failure yields no completions.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

MOST = 50
"""Most words of one answer."""

VARIABLE = "_AGTP_COMPLETE"
"""Environment variable that the shell sets when it asks this program for completions."""

Words = Callable[[click.Context, str], Iterable[tuple[str, str]]]
"""A function that yields words beginning with a text, each with a description."""


def attach(command: click.Command) -> None:
    """Let the parameters of a command complete by the names in their metavar."""
    for parameter in command.params:
        kinds = [words for token, words in KINDS if token in (parameter.metavar or "").replace("-", "_")]
        if parameter.name in NAMED:
            kinds = [NAMED[parameter.name]]
        if kinds and parameter._custom_shell_complete is None:
            parameter._custom_shell_complete = _completer(kinds)
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            attach(inner)


def _completer(kinds: list[Words]) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    def complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        found: dict[str, str] = {}
        for words in kinds:
            try:
                for word, what in words(context, incomplete):
                    # Tools of servers are shown on a terminal, so their names must be printable.
                    if word.startswith(incomplete) and word.isprintable() and len(found) < MOST:
                        found.setdefault(word, what)
            except Exception:
                continue  # A shell that waits for a word cannot show an error.
        return [CompletionItem(word, help=what or None) for word, what in found.items()]

    return complete


# Sources of the words


class _Here:
    """The configured host, read from its files without validation."""

    def __init__(self, where: click.Context | Path) -> None:
        named = where if isinstance(where, Path) else where.params.get("config")
        self.file = Path(named) if named is not None else Path("host.toml")
        self.folder = self.file.parent
        with self.file.open("rb") as stream:
            self.tree: dict[str, Any] = tomllib.load(stream)

    def _path(self, section: str, key: str, default: str | None) -> Path | None:
        value = self.tree.get(section, {}).get(key, default)
        return self.folder / Path(value).expanduser() if isinstance(value, str) else None

    @property
    def state(self) -> Path:
        """Return the state directory."""
        named = os.environ.get("AGTPHOST_STATE_DIR")
        return Path(named) if named else self._path("host", "state_dir", "state") or self.folder / "state"

    @property
    def store(self) -> Path:
        """Return the database file; there is none where records are kept in a database server."""
        url = self.tree.get("store", {}).get("url", "sqlite:")
        path = url.removeprefix("sqlite:") if isinstance(url, str) else ""
        return self.folder / path if path else self.state / "agtphost.sqlite3"

    def agents(self) -> Iterator[tuple[str, str]]:
        """Yield labels of hosted agents and of callers."""
        described = self._path("identity", "agents", None)
        for file in sorted(described.glob("*.agent.json")) if described else ():
            yield file.name.removesuffix(".agent.json"), "hosted"
        for folder, what in (("hosted", "hosted"), ("agents", "caller")):
            for entry in sorted((self.state / folder).glob("*/document.json")):
                yield entry.parent.name, what
        for entry in sorted(described.glob("*/document.json")) if described else ():
            yield entry.parent.name, "hosted"

    def endpoints(self) -> Iterator[tuple[str, str]]:
        """Yield methods and paths of the operator's own endpoints."""
        folder = self._path("endpoints", "directory", None)
        for file in sorted(folder.glob("*.toml")) if folder else ():
            try:
                tree = tomllib.loads(file.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue
            listed = tree.get("endpoint")
            for each in listed if isinstance(listed, list) else [tree]:
                if isinstance(each.get("method"), str) and isinstance(each.get("path"), str):
                    yield each["method"], each["path"]


def _agents(context: click.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    yield from _Here(context).agents()


def _identities(context: click.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    yield "registrar", "issues agents"
    yield from ((label, what) for label, what in _Here(context).agents() if what == "caller")


def _operators(context: click.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    for operator in _Here(context).tree.get("operator", ()):
        yield operator["name"], operator.get("role", "")


def _reasons(context: click.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    from agtphost.vocabulary.reasons import Reason

    yield from ((str(reason), reason.meaning) for reason in Reason)


def _tools(context: click.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    from agtphost.stores.prefix_lookup import tools

    here = _Here(context)
    if here.store.exists():
        yield from ((name, "tool") for name in tools(here.store))
    for server in here.tree.get("mcp", {}).get("server", ()):
        yield from (
            (f"{server['name']}.{name}", "tool") for name in (*server.get("tools", ()), *server.get("pins", ()))
        )


def _servers(context: click.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    for server in _Here(context).tree.get("mcp", {}).get("server", ()):
        yield server["name"], "MCP server"


def _upstreams(context: click.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    from agtphost.cli.upstream.sections import LISTS

    tree = _Here(context).tree
    for protocol, (section, key) in LISTS.items():
        for entry in tree.get(section, {}).get(key, ()):
            yield f"{protocol}.{entry['name']}", ""
    yield from _servers(context, incomplete)


def _own_certificates(context: click.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    tree = _Here(context).tree
    hosts = (tree.get("host", {}).get("server_id"), *(each["name"] for each in tree.get("tls", {}).get("server", ())))
    yield from ((name, "host") for name in hosts if name)
    for name, section in tree.items():
        # The listeners of [mcp.front] and [a2a.front] have the names of their protocols.
        listener = section.get("front", section) if isinstance(section, dict) else {}
        if "listen" in listener and "certificate" in listener:
            yield name, "HTTP listener"


def _pages(context: click.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    from agtphost.cli.docs import list_pages

    yield from ((name, "") for name in list_pages())


def _methods(context: click.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    from agtphost.vocabulary.catalog import Catalog

    catalog = Catalog.load()
    own = {method for method, _ in _Here(context).endpoints()} if Path("host.toml").is_file() else set()
    offered = own | {name for name, entry in catalog.entries.items() if entry.floor or entry.standard}
    names = sorted(catalog.methods | own) if incomplete else sorted(offered)
    yield from ((name, catalog.entries[name].description if name in catalog.entries else "") for name in names)


def _paths(context: click.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    method = context.params.get("method") or context.params.get("called")
    for own, path in _Here(context).endpoints():
        if method in (None, own):
            yield path, own


def _audit_ids(context: click.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    from agtphost.stores.prefix_lookup import records

    for record in records(_Here(context).store, incomplete, MOST):
        yield record.audit_id, f"{record.status} {record.method} {record.path}"


def endpoints_in(file: Path) -> list[tuple[str, str]]:
    """Return method and path of each endpoint that the files of a host declare, without validation; none on failure."""
    try:
        return list(_Here(file).endpoints())
    except (OSError, ValueError):
        return []


def _word(word: str) -> Words:
    return lambda context, incomplete: [(word, "")]


KINDS: tuple[tuple[str, Words], ...] = (
    ("AUDIT_ID", _audit_ids),
    ("AGENT", _agents),
    ("TOOL", _tools),
    ("SERVER", _servers),
    ("METHOD", _methods),
    ("PATH", _paths),
    ("host]", _word("host")),
    ("|host", _word("host")),
    ("anyone", _word("anyone")),
)
"""Parts of metavars, each with the function that completes it."""

NAMED: dict[str | None, Words] = {
    "identity": _identities,
    "filter_operator": _operators,
    "filter_reason": _reasons,
    "upstream": _upstreams,
    "certificate": _own_certificates,
    "page": _pages,
}
"""Names of parameters whose metavar does not tell what completes them, each with the function that does."""
