"""Every refusal has a reason of the registry, with a status that the reason has; every reason is one that is used."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

import agtphost
from agtphost.errors import Refusal
from agtphost.vocabulary.reasons import ForeignReason, Reason
from agtphost.vocabulary.status import Status
from tests.rows import each_row
from tests.sources import nodes, parsed

ROOT = Path(agtphost.__file__).parent

RAISED = frozenset({"Refusal", "StoppedAgent", "RemoteProtocolError", "ForeignReason", "IntentError", "TooCostly"})
"""What is made of a reason."""


@functools.cache
def sources() -> dict[str, str]:
    """Return the text of each module of the package but the registry's own."""
    return {
        str(file.relative_to(ROOT)): file.read_text()
        for file in sorted(ROOT.rglob("*.py"))
        if file.relative_to(ROOT).as_posix() != "vocabulary/reasons.py"
    }


def members(node: ast.AST | None) -> set[str]:
    """The members of the registry that an expression names."""
    return {
        each.attr
        for each in ast.walk(node or ast.Pass())
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "Reason"
    }


def faults(source: str) -> Iterator[str]:
    """What is wrong with the refusals of a module: a bare token, an unknown member, a status that it has not."""
    for node in nodes(source) if any(f"{name}(" in source for name in RAISED) else ():
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in RAISED):
            continue
        given = node.args[0] if node.args else None
        if isinstance(given, ast.Constant | ast.JoinedStr):
            yield f"{node.lineno}: {ast.unparse(given)}"
        named = members(given)
        yield from (f"{node.lineno}: {name}" for name in sorted(named - set(Reason.__members__)))
        for word in node.keywords:
            value = word.value
            if word.arg == "status" and isinstance(value, ast.Attribute) and ast.unparse(value).startswith("Status."):
                yield from (
                    f"{node.lineno}: {name} with {value.attr}"
                    for name in sorted(named & set(Reason.__members__))
                    if Status[value.attr] not in Reason[name].statuses
                )


def used(sources: dict[str, str]) -> set[str]:
    """The members that some module names."""
    return {name for source in sources.values() if "Reason." in source for name in members(parsed(source))}


def test_every_refusal_names_a_reason() -> None:
    """None has a bare token, or a status of another reason."""
    assert {name: found for name, source in sources().items() if (found := list(faults(source)))} == {}
    assert sum(source.count("Refusal(Reason.") + source.count("Refusal(\n") for source in sources().values()) > 200


@each_row(
    "source",
    [
        "raise Refusal('not-found', 'No.')",
        "raise Refusal(f'unknown-{kind}')",
        "raise Refusal(Reason.NO_SUCH_REASON)",
        "raise Refusal(Reason.NOT_FOUND, status=Status.GONE)",
        "raise Refusal(Reason.GONE if gone else Reason.NOT_FOUND)",
        "raise RemoteProtocolError('bad-line', 'No.')",
        "raise Refusal(ForeignReason('mine', Status.CONFLICT))",
    ],
)
def test_the_walk_finds_what_is_none(source: str) -> None:
    """The control."""
    assert len(list(faults(source))) == 1
    assert list(faults("raise Refusal(Reason.SCOPE_REQUIRED, status=Status.SCOPE_VIOLATION)")) == []


def test_every_reason_is_used() -> None:
    """What nobody refuses for is told to nobody."""
    assert set(Reason.__members__) - used(sources()) == set()
    without = {name: source.replace("Reason.LABEL_RESERVED", "Reason.NOT_FOUND") for name, source in sources().items()}
    assert set(Reason.__members__) - used(without) == {"LABEL_RESERVED"}


def test_every_row_is_whole() -> None:
    """The name is that of the token; meaning and remedy are sentences; a source is named."""
    for name, reason in Reason.__members__.items():
        assert reason == str(reason) == reason.value == name.lower().replace("_", "-")
        assert reason.statuses and len(set(reason.statuses)) == len(reason.statuses), reason
        assert reason.source and reason.meaning.endswith("."), reason
        assert reason.remedy.endswith("."), reason


def test_a_refusal_says_what_its_reason_does() -> None:
    """Unless it says something itself."""
    plain = Refusal(Reason.INVALID_AGENT_ID)
    assert (plain.status, plain.reason) == (400, "invalid-agent-id")
    assert (plain.explanation, plain.remedy) == (Reason.INVALID_AGENT_ID.meaning, Reason.INVALID_AGENT_ID.remedy)
    own = Refusal(Reason.INVALID_AGENT_ID, "It is too long.", remedy="")
    assert (own.explanation, own.remedy) == ("It is too long.", "")
    foreign = Refusal(ForeignReason("shelf-closed", Status.FORBIDDEN), "The shelf is closed.")
    assert (foreign.status, foreign.reason, foreign.remedy) == (403, "shelf-closed", "")


def test_a_status_that_a_reason_has_not_is_a_mistake() -> None:
    """Also one that no walk over the sources can see."""
    assert Refusal(Reason.SCOPE_REQUIRED, status=Status.SCOPE_VIOLATION).status == 455
    with pytest.raises(ValueError, match="not-found has not the status 410"):
        Refusal(Reason.NOT_FOUND, status=Status.GONE)
