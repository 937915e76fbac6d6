"""
Loading of endpoints from TOML files: it returns the sound endpoints and every problem with file and line.

A file holds one endpoint at its top level, or several as ``[[endpoint]]``.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agtphost.contract.declaration import DEFINITIONS, REQUIRED, Declaration, Rules
from agtphost.contract.endpoint import Endpoint
from agtphost.contract.endpoint_table import conflicts
from agtphost.errors import Problem
from agtphost.vocabulary import tomltext
from agtphost.vocabulary.foreign_errors import original_of, split
from agtphost.vocabulary.paths import parse_template
from agtphost.vocabulary.tomltext import Document, Location, TomlError


@dataclass(frozen=True, kw_only=True)
class RemovedMethod(Problem):
    """
    An endpoint has a method that the catalog no longer has (AGTP-API section 4.5).

    It does not prevent the host's start: the endpoint is left out, and the operator is informed.
    """


@dataclass(frozen=True, kw_only=True)
class AbsentTarget(Problem):
    """A recipe or an endpoint is named but does not exist; it may be in a file that could not be read."""


class AbsentRecipe(AbsentTarget):
    """An endpoint names a recipe that does not exist; a fault of its steps may be the reason."""


def causes(problems: Sequence[Problem]) -> list[Problem]:
    """
    Return the problems to report of those that prevent the host's start.

    :return: without absent targets, if another problem may be the reason for them.
    """
    others = [problem for problem in problems if not isinstance(problem, AbsentTarget)]
    steps = [problem for problem in problems if not isinstance(problem, AbsentRecipe)]
    return others or steps or list(problems)


def lasting_problems(
    found: Sequence[Problem], rules: Rules, find: Callable[[Rules], Sequence[Problem]]
) -> list[Problem]:
    """
    Return the problems that are not a consequence of a removed method.

    An endpoint with a removed method is left out, and so is everything that needs that endpoint.

    :param found: the problems under ``rules``.
    :param find: returns the problems under other rules.
    """
    if not found or not rules.removed:
        return list(found)
    still = set(find(replace(rules, custom={*rules.custom, *rules.removed}, removed=())))
    return [problem for problem in found if problem in still]


def load_endpoints(directory: Path, rules: Rules) -> tuple[list[Endpoint], list[Problem]]:
    """
    Read every ``*.toml`` of a directory, in order of name.

    :return: the sound endpoints, and everything that is wrong with the others.
    """
    if not directory.is_dir():
        hint = "create it, or correct [endpoints] directory"
        return [], [Problem(message=f"{directory} is not a directory", hint=hint)]
    endpoints: list[Endpoint] = []
    problems: list[Problem] = []
    try:
        os.scandir(directory).close()
    except OSError as error:
        # glob() finds nothing in a directory that cannot be read, and says nothing.
        what, cure = split(error)
        message = f"the directory cannot be read: {what}"
        return [], [Problem(message=message, file=str(directory), hint=cure, original=original_of(error))]
    for file in sorted(directory.glob("*.toml")):
        found, wrong = read_endpoints(file, str(file), rules, skip=lambda table: is_idle_provider(table, rules))
        endpoints.extend(found)
        problems.extend(wrong)
    problems = _gather(problems)
    endpoints = select_providers(endpoints)
    clashes = list(_clashes(endpoints))
    removed = {index for index, _ in clashes}
    problems.extend(problem for _, problem in clashes)
    return [endpoint for index, endpoint in enumerate(endpoints) if index not in removed], problems


def select_providers(endpoints: Sequence[Endpoint]) -> list[Endpoint]:
    """Return the endpoints without the providers whose method and path another endpoint has."""
    taken = {(endpoint.method, endpoint.path) for endpoint in endpoints if not endpoint.provider}
    return [each for each in endpoints if not each.provider or (each.method, each.path) not in taken]


def is_idle_provider(table: Mapping[str, Any], rules: Rules) -> bool:
    """
    Return whether a declaration is that of a provider with nothing to serve.

    A provider (``provider = true``) serves a standard method: it is bound where ``[methods] standard`` turns the
    method on, or any method where its own is none of the fifty.
    """
    if table.get("provider") is not True:
        return False
    method = table.get("method")
    entry = rules.catalog.entries.get(method) if isinstance(method, str) else None
    return method not in rules.standard if entry is not None and entry.standard is not None else not rules.standard


def summarize(problems: Sequence[Problem]) -> Problem:
    """Return one problem for several with the same cause: thousands of endpoints may name one unset variable."""
    first, others = problems[0], len(problems) - 1
    if not others:
        return first
    named = "1 other endpoint names it" if others == 1 else f"{others:,} other endpoints name it"
    return replace(first, message=f"{first.message}; {named} too")


def _gather(problems: Sequence[Problem]) -> list[Problem]:
    """Report an unusable file of definitions once, with the first endpoint that names it."""
    causes: dict[object, list[Problem]] = {}
    for problem in problems:
        _, named, cause = problem.message.partition(DEFINITIONS)
        causes.setdefault(cause if named else problem, []).append(problem)
    return [summarize(found) if DEFINITIONS in found[0].message else found[0] for found in causes.values()]


def read_endpoints(
    source: Path | str, file: str, rules: Rules, skip: Callable[[Mapping[str, Any]], bool] = lambda table: False
) -> tuple[list[Endpoint], list[Problem]]:
    """
    Read the endpoints of one document.

    :param source: a file, or its text.
    :param file: the file's name, for problems.
    :param skip: returns whether a declaration is left out, and not checked.
    """
    try:
        document = tomltext.read(source)
    except TomlError as error:
        return [], [Problem(message=f"it {error}", file=file, line=error.line, hint=error.hint)]
    endpoints: list[Endpoint] = []
    problems: list[Problem] = []
    skipped = False
    misplaced = _find_misplaced(document, file)
    if misplaced is not None:
        return [], [misplaced]
    for at, parsed in _tables(document.tree):
        if not parsed and at:
            message, line = f"[[endpoint]] number {int(at[-1]) + 1} has no keys", document.line(at)
            problems.append(Problem(message=message, file=file, line=line, hint="remove this line"))
            continue
        if skip(parsed):
            skipped = True
            continue
        table = rules.schemas.share_texts(parsed)
        line = document.line(at)
        label = _label(table)

        def say(
            location: Location, message: str, hint: str, original: str, at: Location = at, label: str = label
        ) -> None:
            where = document.line((*at, *location))
            problems.append(Problem(message=f"{label}{message}", file=file, line=where, hint=hint, original=original))

        declaration = Declaration(
            table, rules, say, source.parent if isinstance(source, Path) else None, "endpoint." if at else ""
        )
        endpoint = declaration.endpoint(file, line)
        if endpoint is not None:
            lines = {name: document.line((*at, name)) for name in table} if at else document.top_lines()
            endpoint = replace(endpoint, lines=lines)
        if endpoint is not None:
            endpoints.append(endpoint)
        elif declaration.removed:
            where = document.line((*at, "method"))
            problems.append(_removal(declaration.removed, label, file, where, rules.catalog.version))
    if not endpoints and not problems and not skipped:
        problems.append(
            Problem(
                message="it declares no endpoints", file=file, line=1, hint="remove the file, or write method and path"
            )
        )
    return endpoints, sorted(problems, key=lambda problem: problem.line)


def find_line(endpoint: Endpoint, location: Location) -> int:
    """Return the line of a key in an endpoint's table, or of the nearest enclosing key."""
    try:
        lines = tomltext.read(Path(endpoint.file)).lines if endpoint.file else {}
    except TomlError:
        lines = {}  # The declaration is not from a file, or has changed since it was read.
    for length in range(len(location), 0, -1):
        wanted = location[:length]
        found = [line for place, line in lines.items() if place[-length:] == wanted and line >= endpoint.line]
        if found:
            return min(found)
    return endpoint.lines.get(str(location[0]), endpoint.line)


def _find_misplaced(document: Document, file: str) -> Problem | None:
    """Return the problem of a file whose header ``[[endpoint]]`` is misspelt or missing; None for other files."""
    tree = document.tree
    for name, value in tree.items():
        tables = value if isinstance(value, list) else [value]
        similar = all(isinstance(each, Mapping) for each in tables) and name not in REQUIRED
        if similar and name != "endpoint" and difflib.get_close_matches(name.lower(), ["endpoint"], 1):
            hint = 'did you mean "endpoint"?'
            return Problem(message=f"{name[:64]} is unknown", file=file, line=document.line((name,)), hint=hint)
    listed = tree.get("endpoint")
    if not isinstance(listed, Mapping):
        return None
    keys = [name for name, value in tree.items() if not isinstance(value, (Mapping, list)) and name in REQUIRED]
    message = "endpoint must be a list of tables"
    if keys:
        hint = "write [[endpoint]] above it, where it belongs"
        return Problem(message=message, file=file, line=document.line((keys[0],)), hint=hint)
    hint = "write [[endpoint]] in place of [endpoint]"
    return Problem(message=message, file=file, line=document.line(("endpoint",)), hint=hint)


def _removal(method: str, label: str, file: str, line: int, version: str) -> RemovedMethod:
    message = f"{label}the method {method} was removed; catalog {version} does not have it"
    hint = f"agtp catalog show {method} --catalog OLD names its successor, if it has one"
    return RemovedMethod(message=message, file=file, line=line, hint=hint)


def _tables(document: Mapping[str, Any]) -> Iterator[tuple[Location, Mapping[str, Any]]]:
    """Yield the tables that are endpoints, with their locations."""
    listed = document.get("endpoint")
    rest = {name: value for name, value in document.items() if name != "endpoint"}
    if isinstance(listed, list) and not rest.keys() & set(REQUIRED):
        for index, table in enumerate(listed):
            yield ("endpoint", index), table if isinstance(table, Mapping) else {}
        if rest:
            # They are reported as unknown members at their own place, because no table of the list owns them.
            yield (), {"endpoint": listed, **rest}
    elif document:
        yield (), document


def _label(table: Mapping[str, Any]) -> str:
    method, path = table.get("method"), table.get("path")
    return f"{method[:32]} {path[:128]}: " if isinstance(method, str) and isinstance(path, str) else ""


def _clashes(endpoints: Sequence[Endpoint]) -> Iterator[tuple[int, Problem]]:
    for conflict in conflicts([(endpoint.method, parse_template(endpoint.path)) for endpoint in endpoints]):
        first, second = endpoints[conflict.first], endpoints[conflict.second]
        other = f"{second.path}/2" if second.path.endswith(("}", "/")) else f"{second.path}-2"
        yield (
            conflict.second,
            Problem(
                message=conflict.explanation,
                file=second.file,
                line=find_line(second, ("path",)),
                hint=f'write path = "{other.replace("//", "/")}"; the other one is at {first.file}:{first.line}',
            ),
        )
    yield from _twice(endpoints, "action", lambda endpoint: endpoint.action)
    yield from _twice(endpoints, "mcp_tool_name", lambda endpoint: endpoint.semantic.mcp_tool_name or "")


def _twice(
    endpoints: Sequence[Endpoint], what: str, name_of: Callable[[Endpoint], str]
) -> Iterator[tuple[int, Problem]]:
    """Names of one's own that two endpoints declare; an empty one is none."""
    named: dict[str, Endpoint] = {}
    for index, endpoint in enumerate(endpoints):
        name = name_of(endpoint)
        first = named.setdefault(name, endpoint) if name else endpoint
        if first is not endpoint:
            yield (
                index,
                Problem(
                    message=f"{endpoint.name}: the {what} {name} is declared twice",
                    file=endpoint.file,
                    line=find_line(endpoint, (what,)),
                    hint=f'write {what} = "{name}{"-" if what == "action" else "_"}2"; '
                    f"the other one is at {first.file}:{first.line}",
                ),
            )
