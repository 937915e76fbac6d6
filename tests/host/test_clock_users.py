"""One clock for the whole host: whatever reads the system's clock itself is on a list, with the reason."""

from __future__ import annotations

import ast
import gc
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import agtphost
from tests.methods.standard.orchestration.hosts import Workshop

ROOT = Path(agtphost.__file__).parent

OUTSIDE = ("cli", "client", "conformance", "testing", "bridge", "page")
"""Packages that run in another process than the host, for moments, or only show a time."""

DIRECT = {
    "audit/chain.py:Seconds.text": "writes the time that it is given",
    "audit/recovery.py:_compare": "whether the answers of a keyed request may have expired, at a start",
    "identity/provisioning.py:issue_agent": "a Genesis is dated by the registrar's machine",
    "identity/provisioning.py:provision_development": "the same",
    "identity/description_update.py:follow_descriptions": "the same",
    "vocabulary/times.py:stamp": "what calls it without a time only shows it",
    "http/bounded_request.py:_date": "the Date field of HTTP",
    "a2a/messages.py:stamp": "the time that an A2A message shows",
    "methods/delegation/task.py:_deadline": "a moment that the caller wrote, as seconds from now; a day at the most",
    "methods/discovery/description.py:__init__": "the time that a document shows, of a host without a name",
    "host/certificate_notices.py:_tell": "times.stamp: the time that a notice shows",
    "http_clients.py:principal": "a token in the configuration, judged while it is read",
    "host/reserved_labels.py:leave_out_reserved": "before a host that takes over has the host's time",
    "host/rehearsal.py:rehearse": "agtp check, in a process of its own",
    "host/file_rotation.py": "keys of the host change at a time that its successor states",
    "logs/json_log.py:_time": "an event of the log that has no time of its own",
    "audit/filters/record_filter.py:parse": "relative times of a filter",
    "stores/postgres/lease.py:keep": "compares the system's clock with the database's",
    "stores/postgres/lease.py:_look": "the same",
    "stores/postgres/location.py:find_risks": "the same",
    "protocols/quic/qlog.py": "names of traces, and times in them, for people who debug",
    "protocols/steady_timers.py:use_steady_clock": "where the reactor's own clock begins",
}
"""Functions, by module and name, that read the system's clock; a name alone stands for all of its module."""

SHOWN = {
    ("Namespace", "_clock"),
    ("DocumentPublisher", "_clock"),
    ("StatusDocuments", "_clock"),
}
"""Members that hold it: how long a document was made ago that is made anew after some seconds."""


CLOCKS = ("time.time", "datetime.now", "datetime.utcnow", "time.localtime", "time.gmtime")


def reads(source: str) -> Iterator[str]:
    """The functions of a module that read the system's clock."""

    def walk(node: ast.AST, within: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            if isinstance(child, ast.Call) and ast.unparse(child.func) in CLOCKS:
                yield within
            yield from walk(child, child.name if named else within)  # type: ignore[attr-defined]

    if any(name in source for name in CLOCKS):  # Most need not be parsed.
        yield from walk(ast.parse(source), "")


def is_listed(module: str, function: str) -> bool:
    """Whether a function is on the list."""
    return module in DIRECT or any(
        place.partition(":")[0] == module and place.rpartition(":")[2].rpartition(".")[2] == function
        for place in DIRECT
    )


def test_who_reads_the_systems_clock_is_on_the_list() -> None:
    """A new reader fails here: the host's time is given, as a callable, from the one that the evidence has."""
    found = {
        (str(path.relative_to(ROOT)), function)
        for path in ROOT.rglob("*.py")
        if path.relative_to(ROOT).parts[0] not in OUTSIDE
        for function in reads(path.read_text())
    }
    assert {place for place in found if not is_listed(*place)} == set()
    modules = {module for module, _ in found} | {"vocabulary/times.py", "host/certificate_notices.py"}
    assert {place.partition(":")[0] for place in DIRECT} <= modules, "nothing on the list that reads it no more"


def holders() -> set[tuple[str, str]]:
    """Classes of the host whose instances hold the system's clock itself, with the member that does."""
    found = set()
    for each in gc.get_objects():
        kind = type(each)
        if not str(kind.__module__).startswith("agtphost.") or kind.__module__.split(".")[1] in OUTSIDE:
            continue
        members = dict(getattr(each, "__dict__", {}))
        for base in kind.__mro__:
            slots = getattr(base, "__slots__", ())
            for name in [slots] if isinstance(slots, str) else slots:
                # Not by getattr: what is not there yet is made then, such as a schema of another test that is refused.
                with suppress(AttributeError):
                    members[name] = object.__getattribute__(each, name)
        found |= {(kind.__name__, name) for name, value in members.items() if value is time.time}
    return found


def test_no_part_of_a_whole_host_is_left_with_its_own_clock() -> None:
    """Nearly all parts can be made without one, for tests; a host gives its own to each."""
    before = holders()
    host = Workshop({"methods": {"standard": "*"}})
    assert host.core.services.evidence.clock
    assert holders() - before - SHOWN == set()
