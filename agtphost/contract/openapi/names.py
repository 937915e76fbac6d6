"""Methods and paths for the operations of an OpenAPI document (AGTP-API sections 3, 5 and 14.1)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from agtphost.vocabulary.catalog import FLOOR, Catalog
from agtphost.vocabulary.paths import bare

READING = ("discovery", "retrieval", "analysis")
"""Categories of methods that change nothing."""

RESERVED_FIRST = "agents"
"""The first segment of paths that address the agents of a host."""

USUAL: Mapping[str, str] = {
    "get": "QUERY",
    "head": "CHECK",
    "options": "INTROSPECT",
    "post": "EXECUTE",
    "put": "REPLACE",
    "patch": "MODIFY",
    "delete": "REMOVE",
}
"""Default method of each HTTP method."""

INSTEAD: Mapping[str, str] = {
    "ACTIVATE": "ENABLE",
    "DEACTIVATE": "DISABLE",
    "REVOKE": "WITHDRAW",
    "REINSTATE": "RESTORE",
    "DEPRECATE": "RETIRE",
    "SUSPEND": "PAUSE",
    "DISCOVER": "FIND",
    "INSPECT": "EXAMINE",
    "DELEGATE": "ASSIGN",
    "ESCALATE": "FORWARD",
    "PROPOSE": "SUBMIT",
    "PLAN": "SCHEDULE",
}
"""Replacements of floor methods that the protocol defines for agents, their lifecycle and their contracts."""

SYNONYMS: Mapping[str, str] = {
    "ADD": "CREATE",
    "NEW": "CREATE",
    "MAKE": "CREATE",
    "DELETE": "REMOVE",
    "DESTROY": "REMOVE",
    "PUT": "REPLACE",
    "PATCH": "MODIFY",
    "UPLOAD": "SUBMIT",
    "SHOW": "QUERY",
    "VIEW": "QUERY",
    "GET": "QUERY",
}
"""Words of operation ids that the catalog lacks."""

NO_VERBS = frozenset({"CONNECT", "TRACE", "HEAD", "OPTIONS", "DEPRECATE"})
"""Words of operation ids that name HTTP methods or the operation's state, but not its action."""

QUALIFIERS = frozenset({"DEPRECATED", "LEGACY", "OBSOLETE", "BETA", "EXPERIMENTAL", "ALPHA"})
"""Words before an operation's verb that describe its state: ``deprecated_listUsers``."""

OTHERS: Mapping[str, tuple[str, ...]] = {
    "get": ("QUERY", "FETCH", "RETRIEVE", "READ", "OBTAIN", "ACCESS", "LOOKUP"),
    "post": ("EXECUTE", "PROCESS", "SUBMIT", "REQUEST", "INITIATE", "DISPATCH"),
    "put": ("REPLACE", "SET", "UPDATE", "OVERWRITE"),
    "patch": ("MODIFY", "UPDATE", "AMEND", "ALTER", "REVISE"),
    "delete": ("REMOVE", "PURGE", "RETIRE", "CLEAR"),
}
"""Alternative methods if two operations would become one endpoint."""

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
PARAMETER = re.compile(r"\{([^{}]*)\}")
"""A parameter in an OpenAPI path."""


@dataclass(frozen=True, kw_only=True)
class ChosenMethod:
    """A catalog method that was chosen for an operation."""

    method: str
    reason: str
    """The reason for the choice, as a clause."""

    sure: bool
    """False if a person has to review the choice."""

    suggestions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ChosenPath:
    """A path in this host's grammar for an OpenAPI path."""

    path: str
    parameters: Mapping[str, str]
    """Maps the document's parameter names to those of the path."""

    changes: tuple[str, ...] = ()
    """Sentences about what was changed."""

    action: str = ""
    """The last word of the path, if it became the method."""


@dataclass
class _Segments:
    done: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)


def words_of(identifier: str) -> list[str]:
    """Return the words of an identifier in upper case, of ``cancelOrder`` and ``orders/cancel-all`` alike."""
    return [word.upper() for word in _WORD.findall(identifier)]


PLAIN_WORDS = frozenset(
    {
        *("GET", "LIST", "READ", "SHOW", "VIEW", "FETCH", "RETRIEVE", "SEARCH", "FIND", "CREATE", "ADD", "NEW"),
        *("POST", "PUT", "PATCH", "DELETE", "REMOVE", "UPDATE", "REPLACE", "CANCEL", "SET", "SUBMIT"),
    }
)
"""Words that are the verb at both ends: of ``order_list`` and ``list_orders``."""


def _verb(word: str, catalog: Catalog) -> str | None:
    """Return the catalog's method for a word; None if it has none."""
    if word in NO_VERBS:
        return None
    found = SYNONYMS.get(word, word)
    found = INSTEAD.get(found, found)
    return found if catalog.knows(found) else None


def _first_words(operation_id: str, summary: str) -> Iterator[tuple[str, str]]:
    """Yield the words that may be an operation's verb, each with its source."""
    for part in reversed(re.split(r"[/.:]", operation_id)):
        words = words_of(part)
        while len(words) > 1 and words[0] in QUALIFIERS:
            del words[0]
        edges = words[:1] + words[-1:] if "_" in part else words[:1]
        edges.sort(key=lambda word: word not in PLAIN_WORDS)
        yield from ((word, "operationId") for word in edges)
    for word in words_of(summary)[:1]:
        # "Creates a pet" and "Create a pet" mean the same.
        yield from ((form, "summary") for form in (word, word.removesuffix("S"), word.removesuffix("ES")))


def says_create(text: str) -> bool:
    """Return whether a text begins with ``Create`` or ``Creates``."""
    return re.match(r"creates?\b", text, re.IGNORECASE) is not None


def choose_method(
    http: str, operation_id: str, summary: str, *, action: str, creates: bool, catalog: Catalog, description: str = ""
) -> ChosenMethod:
    """
    Return the catalog method for an operation.

    :param http: the HTTP method, lower case.
    :param summary: the operation's summary; "Creates a customer" names a method too.
    :param action: the path's last word, if it is the action.
    :param creates: whether the operation answers 201.
    :param description: the operation's description; "Creates ..." counts if nothing else names a method.
    """
    if action:
        return ChosenMethod(method=action, reason="the path's last segment is this method", sure=True)
    seen: list[str] = []
    for word, where in _first_words(operation_id, summary):
        method = _verb(word, catalog)
        if method is None:
            seen.append(word)
        elif _agrees(http, method, catalog):
            sure = where == "operationId" or word == method
            return ChosenMethod(method=method, reason=f"{where} has the word {word.lower()!r}", sure=sure)
    if http == "post" and says_create(description) and catalog.knows("CREATE"):
        return ChosenMethod(method="CREATE", reason="the description begins with 'creates'", sure=False)
    if http == "post" and creates:
        return ChosenMethod(method="CREATE", reason="POST answers 201", sure=True)
    method = next((name for name in (USUAL[http], *OTHERS.get(http, ())) if catalog.knows(name)), "QUERY")
    close = [name for word in seen[:2] for name in catalog.close_matches(word)]
    usual = ("CREATE", "SUBMIT", "BOOK", "PURCHASE") if http == "post" else ()
    found = (name for name in dict.fromkeys((*close, *usual)) if catalog.knows(name))
    suggestions = tuple(name for name in found if name not in NO_VERBS)
    return ChosenMethod(
        method=method,
        reason=f"only {http.upper()} indicates what it does",
        sure=http in ("get", "put", "patch", "delete"),
        suggestions=suggestions[:5],
    )


def _agrees(http: str, method: str, catalog: Catalog) -> bool:
    """Return whether a method changes something exactly if the HTTP method may; POST may do anything."""
    entry = catalog.entry(method)
    if entry is None or (method in FLOOR and method not in ("QUERY", "SUMMARIZE", "NOTIFY", "CONFIRM")):
        return False
    if http == "post":
        return method != "QUERY"
    reads = entry.categories[0] in READING
    return reads == (http in ("get", "head", "options"))


def choose_path(http: str, path: str, catalog: Catalog, *, creating: bool = False) -> ChosenPath:
    """
    Return the path in this host's grammar: parameters are whole segments, and segments are not method names.

    The last literal of a POST that is a method becomes the method: ``POST /orders/{id}/cancel`` is ``CANCEL
    /orders/{id}``.

    :param creating: whether the operation creates something; then a last segment such as ``filter`` is what it creates.
    """
    found = _Segments()
    clean = re.split(r"[?#]", path, maxsplit=1)[0]
    if clean != path:
        found.changes.append(f"the part of the path after {clean} is left out: {path[len(clean) :][:80]}")
    parts = [part for part in clean.split("/") if part]
    if "/" + "/".join(parts) != (clean.rstrip("/") or "/"):
        found.changes.append("empty segments are left out")
    action = ""
    if http == "post" and len(parts) > 1:
        head, colon, tail = parts[-1].rpartition(":")
        word = tail if colon and head else parts[-1]
        method = _verb(bare(word), catalog) if "{" not in word and bare(word) in catalog.methods else None
        named = method is not None and (not creating or method == "CREATE")
        if method is not None and named and _agrees("post", method, catalog):
            action = method
            parts = [*parts[:-1], head] if colon and head else parts[:-1]
            found.changes.append(f"the segment {word!r} became the method {method}")
    for part in parts:
        _segment(part, found, catalog)
    if found.done[:1] and found.done[0].lower() == RESERVED_FIRST:
        found.changes.append(f"the segment {found.done[0]!r} is now 'upstream-agents', because the host reserves it")
        found.done[0] = "upstream-agents"
    return ChosenPath(
        path="/" + "/".join(found.done), parameters=found.names, changes=tuple(found.changes), action=action
    )


def _segment(part: str, found: _Segments, catalog: Catalog) -> None:
    names = PARAMETER.findall(part)
    if not names:
        found.done.append(_literal(part, found, catalog))
        return
    literal = PARAMETER.sub("", part)
    if literal or len(names) > 1:
        shown = "/".join(f"{{{name}}}" for name in names)
        found.changes.append(f"the segment {part!r} is now {shown}, because a parameter must be a whole segment")
    for name in names:
        safe = re.sub(r"[^A-Za-z0-9_]", "_", name)[:48] or "parameter"
        while safe in found.names.values():
            safe += "_"
        if name in found.names:
            name = f"{name} (again)"
        while name in found.names:
            name += "'"
        if safe != name:
            found.changes.append(f"the path's parameter {name!r} is now {safe!r}")
        found.names[name] = safe
        found.done.append(f"{{{safe}}}")


def _literal(part: str, found: _Segments, catalog: Catalog) -> str:
    segment = quote(part, safe="%-._~!$&'()*+,;=:@")
    segment = re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", segment)
    if segment in (".", ".."):
        segment = "dot" * len(segment)
    if bare(segment) in catalog.methods:
        plural = _plural(segment)
        segment = plural if bare(plural) not in catalog.methods else f"{segment}-resource"
        found.changes.append(f"the segment {part!r} is now {segment!r}, because {bare(part)} is a method name")
    elif segment != part:
        found.changes.append(f"the segment {part!r} is now {segment!r}")
    return segment


def _plural(word: str) -> str:
    if word.endswith(("s", "x", "ch", "sh")):
        return f"{word}es"
    return f"{word[:-1]}ies" if re.search(r"[^aeiou]y$", word) else f"{word}s"
