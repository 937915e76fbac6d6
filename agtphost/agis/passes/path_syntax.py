"""Pass 4: paths of nouns, in lower case, with their parameters in braces (AGIS v01 section 5)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from agtphost.agis.document import AgisEndpoint
from agtphost.agis.findings import Finding
from agtphost.agis.passes.subject import Subject
from agtphost.agis.passes.suggestions import method_for
from agtphost.agis.words import Words, parts, strip_accents, to_spaced

_PARAMETER = re.compile(r"\{[A-Za-z_][A-Za-z0-9_]*\}", re.ASCII)
_ODD_PARAMETER = re.compile(r"[{}<>:*]|^\$", re.ASCII)
_MEANT = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}|[:$]([A-Za-z_][A-Za-z0-9_]*)|<([A-Za-z_][A-Za-z0-9_]*)>", re.ASCII)
"""A parameter in this notation, and in other notations."""

_IDENTIFIER = re.compile(r"^(?:[A-Za-z0-9_]*_)?id$|^[A-Za-z0-9]*[a-z0-9]Id$", re.ASCII)
_SEGMENT = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the faults of the paths."""
    for endpoint in subject.document.endpoints:
        yield from path_findings(subject, endpoint)


def path_findings(subject: Subject, endpoint: AgisEndpoint) -> Iterator[Finding]:
    """Yield the faults of one path."""
    path, place = endpoint.path, endpoint.place("path")
    if not path.startswith("/"):
        yield subject.finding("4-slash", endpoint.name, place, f"{path[:80]!r} does not begin with /", f"/{path}")
    bare, mark, _ = path.partition("?")
    if mark:
        message = "it has a query string; declare these parameters in the input"
        yield subject.finding("4-query", endpoint.name, place, message, bare)
    segments = bare.strip("/").split("/") if bare.strip("/") else []
    if "//" in bare:
        message = "it has an empty segment"
        yield subject.finding("4-case", endpoint.name, place, message, re.sub("/{2,}", "/", bare))
    if segments and _MEANT.fullmatch(segments[0]):
        message = (
            f"it begins with {segments[0][:64]}, but its first segment must be the noun that the parameter identifies"
        )
        fix = f"/{thing(segments[0])}/{corrected_segment(segments[0], {})}"
        yield subject.finding("4-first", endpoint.name, place, message, fix)
    for segment in segments:
        if segment:
            yield from _segment(subject, endpoint, segment)


def _segment(subject: Subject, endpoint: AgisEndpoint, segment: str) -> Iterator[Finding]:
    place = endpoint.place("path")
    if _PARAMETER.fullmatch(segment):
        return
    if _ODD_PARAMETER.search(segment):
        message = f"{segment[:64]!r} is not a valid parameter: write a name in braces"
        yield subject.finding("4-parameter", endpoint.name, place, message, _fix_parameter(segment))
        return
    if _SEGMENT.fullmatch(segment) is None:
        fix = _to_kebab_case(segment)
        message = f"{segment[:64]!r} is not in lower case with hyphens between its words"
        if fix is None:
            message = f"{segment[:64]!r} has more than lower-case letters, digits and hyphens"
            fix = (
                "-".join(re.findall("[a-z0-9]+", strip_accents(unquote(segment)).lower()))
                or "a noun, such as reservation"
            )
        yield subject.finding("4-case", endpoint.name, place, message, fix)
    words = parts(segment)
    if endpoint.verb in words:
        rest = "-".join(word.lower() for word in words if word != endpoint.verb)
        fix = f"/{rest}" if rest else "write the noun of its object"
        if len(words) > 1 or endpoint.verb not in subject.words.nouns_too:
            message = f"{segment[:64]!r} repeats the method {endpoint.verb}"
            yield subject.finding("4-method-in-path", endpoint.name, place, message, fix)
            return
    verb = _verb_of(subject.words, segment, words)
    if verb is not None:
        rest = "-".join(word.lower() for word in words[1:])
        said = method_for(subject.words, verb)
        fix = f"{said} /{rest}" if rest else f"{said} on the noun of its object"
        message = f"{segment[:64]!r} has the verb {verb}, but segments must be nouns"
        yield subject.finding("4-verb-in-path", endpoint.name, place, message, fix)


def _fix_parameter(segment: str) -> str:
    """Return a valid parameter for a malformed one: ``{order-id}`` is ``{order_id}``, and ``{id}s`` is ``{id}``."""
    inner = re.search(r"\{([^{}]*)\}", segment)
    name = "_".join(re.findall(r"[A-Za-z0-9_]+", strip_accents(inner[1] if inner else segment))).lstrip("0123456789")
    return f"{{{name or 'id'}}}"


def thing(parameter: str) -> str:
    """Return the noun of an identifier: ``{order_id}`` identifies an ``order``."""
    words = [word.lower() for word in parts(parameter)]
    return "-".join(words[:-1] if words[-1:] == ["id"] else words) or "item"


def _to_kebab_case(segment: str) -> str | None:
    """Return a segment in lower case with hyphens; None if it has other characters."""
    lowered = "-".join(to_spaced(segment).split()).lower()
    return lowered if _SEGMENT.fullmatch(lowered) else None


def corrected_segment(segment: str, renamed: Mapping[str, str]) -> str:
    """
    Return the corrected form of a segment; the segment itself if only its author knows what it means.

    :param renamed: parameters with their new names.
    """
    name = _MEANT.fullmatch(segment)
    if name is not None:
        inner = name[1] or name[2] or name[3]
        return f"{{{renamed.get(inner, inner)}}}"
    if not segment or _ODD_PARAMETER.search(segment):
        return segment
    return segment if _SEGMENT.fullmatch(segment) else _to_kebab_case(segment) or segment


def suggested_path(known: Words, endpoint: AgisEndpoint) -> str:
    """
    Return the path without verbs: ``/getUser`` is ``/user/{user_id}`` if the input has that parameter.

    :return: the unchanged path if it has no verbs.
    """
    if "?" in endpoint.path or not any(_verb_of(known, each, parts(each)) for each in endpoint.path.split("/")):
        return endpoint.path
    found = []
    for segment in endpoint.path.strip("/").split("/"):
        words = parts(segment)
        rest = words[1:] if _verb_of(known, segment, words) else []
        found.append("-".join(rest).lower() or corrected_segment(segment, {}))
    contract = endpoint.members.get("input")
    properties = contract.get("properties") if isinstance(contract, Mapping) else None
    names = [name for name in properties if _IDENTIFIER.search(name)] if isinstance(properties, Mapping) else []
    if len(names) == 1 and "{" not in endpoint.path:
        found.append(f"{{{re.sub(r'(?<=[a-z0-9])(?=[A-Z])', '_', names[0]).lower()}}}")
    return f"/{'/'.join(found)}"


def _verb_of(known: Words, segment: str, words: list[str]) -> str | None:
    """Return the verb that a segment is or begins with; words that can be nouns count as nouns."""
    if not words or words[0] not in known.verbs:
        return None
    camel = len(words) > 1 and re.search(r"[a-z][A-Z]", segment) is not None
    if words[0] in known.nouns_too and not camel:
        return None
    return words[0]
