"""Rows of the requirements' table about refusals and warnings, each by a host in memory that has it or has it not."""

from __future__ import annotations

import json
import re
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from agtphost.contract.endpoint import Deprecation
from agtphost.contract.policy import MethodPolicy
from agtphost.identity.peer import Assurance
from agtphost.testing import MemoryHost
from agtphost.vocabulary import media_types
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.catalog_set import CatalogSet
from agtphost.vocabulary.status import Status
from agtphost.wire.codec import serialize_response
from agtphost.wire.events import Response
from agtphost.wire.headers import Headers
from tests.dispatch.hosts import CALLER, DispatchHost, agent, document, known
from tests.dispatch.test_method_rules import bound, catalog, redirected
from tests.rows import each_row

LINE = re.compile(rb"AGTP/1\.0 ([0-9]{3}) ([^\r\n]*)\r\n")


@each_row("status", [int(status) for status in Status])
def test_the_response_line_has_version_status_and_text(status: int) -> None:
    """AGTP-018: of every status that there is."""
    octets = serialize_response(Response(status=status, headers=Headers([("Server-ID", "host.test")]), body=b""))
    line = LINE.match(octets)
    assert line is not None, octets
    assert (int(line[1]), line[2].decode()) == (status, Status(status).phrase)


def test_a_text_of_its_own_is_in_the_response_line() -> None:
    """AGTP-018: a status that is in no registry, and a text that is not the registered one."""
    for status, text, line in (
        (299, "", b"AGTP/1.0 299 Unknown\r\n"),
        (299, "Fine", b"AGTP/1.0 299 Fine\r\n"),
        (200, "Very Well", b"AGTP/1.0 200 Very Well\r\n"),
    ):
        octets = serialize_response(Response(status=status, text=text, headers=Headers([]), body=b""))
        assert octets.startswith(line), octets


def test_a_failure_is_500_with_every_header_and_no_trace() -> None:
    """AGTP-087: its record, its ids and the host's name are there; what went wrong is in the log alone."""

    def broken(context: Any) -> Any:
        raise RuntimeError("the secret of /srv/handlers/words.py")

    response = DispatchHost(broken).ask("QUERY", "/words")
    assert response.status == 500
    for name in ("server-id", "audit-id", "attribution-record", "response-id", "content-type"):
        assert response.headers.get(name), name
    for trace in (b"Traceback", b"secret", b".py"):
        assert trace not in response.body


def test_json_and_yaml_requests_have_one_answer() -> None:
    """AGTP-091: through the whole host; YAML that names a Python object is 400, and nothing is called."""
    host = DispatchHost(settings={"wire": {"yaml": True}})
    answers = [
        host.ask("QUERY", "/words", body, headers=[("Content-Type", kind)])
        for body, kind in (
            (b'{"parameters": {"text": "a", "list": [1, true]}}', media_types.AGTP_JSON),
            (b"parameters:\n  text: a\n  list: [1, true]\n", media_types.AGTP_YAML),
        )
    ]
    assert [answer.status for answer in answers] == [200, 200]
    assert host.recorder.calls[0].input == host.recorder.calls[1].input == {"text": "a", "list": [1, True]}
    evil = b"parameters: !!python/object/apply:os.getcwd []\n"
    refused = host.ask("QUERY", "/words", evil, headers=[("Content-Type", media_types.AGTP_YAML)])
    assert refused.status == 400
    assert len(host.recorder.calls) == 2


# 401, 403 and 262


def test_401_names_why_nobody_is_known() -> None:
    """AGTP-069: no Agent-ID, and one that no agent has."""
    host = DispatchHost()
    anonymous = host.ask("QUERY", "/words", peer=replace(known(), certificate=None))
    unknown = host.ask("QUERY", "/words", peer=replace(known(), certificate=None), headers=[("Agent-ID", "d" * 64)])
    for answer in (anonymous, unknown):
        body = document(answer)
        assert (answer.status, body["status"], body["reason"]) == (401, 401, "agent-unauthenticated")


def test_a_missing_scope_is_262_whatever_the_endpoint_calls_itself() -> None:
    """AGTP-065, AGTP-070, API-153: never 403; an endpoint that changes nothing asks for its own scope as well."""
    plain = agent(CALLER, "caller", hosted=False, scopes=frozenset({"documents:query"}))
    scoped = replace(bound("QUERY", "/shelf"), required_scopes=("library:read",), min_assurance=Assurance.HEADER)
    harmless = {"semantic": {"impact": "informational", "is_idempotent": True}}
    others = [replace(scoped, path="/desk2", state_changing=True), replace(scoped, path="/desk3", details=harmless)]
    host = DispatchHost(caller=plain, bindings=[scoped, *others])
    for path in ("/shelf", "/desk2", "/desk3"):
        answer = host.ask("QUERY", path)
        assert (answer.status, document(answer)["reason"]) == (262, "scope-required")
    two = DispatchHost(caller=plain, bindings=[replace(scoped, required_scopes=("library:read", "documents:query"))])
    assert document(two.ask("QUERY", "/shelf"))["missing_scopes"] == ["library:read"]
    named = replace(plain, scopes=frozenset({"library:read"}))
    assert DispatchHost(caller=named, bindings=[scoped]).ask("QUERY", "/shelf").status == 200


# 404, 405, 459 and 460


def test_404_means_that_nothing_is_there() -> None:
    """AGTP-071: for every method alike; where something is, it is another refusal."""
    host = DispatchHost()
    for method in ("QUERY", "BOOK", "RESERVE"):
        assert host.ask(method, "/nowhere").status == 404
    assert host.ask("BOOK", "/words").status == 405


def test_405_lists_what_the_path_has_and_where_it_leads() -> None:
    """AGTP-072, API-124: a list of methods and a map of redirects, which may be empty."""
    host = DispatchHost(bindings=[bound("FETCH", "/words")])
    body = document(host.ask("CANCEL", "/words"))
    assert (body["status"], body["reason"]) == (405, "method-not-allowed")
    assert body["allowed_methods_for_path"] == ["FETCH", "QUERY"]
    assert body["redirects_for_path"] == {}
    leading = DispatchHost(policy=redirected(("BOOK", "/words", "FETCH", "/other")))
    body = document(leading.ask("CANCEL", "/words"))
    assert body["redirects_for_path"] == {"BOOK": "FETCH"}
    shut = DispatchHost(bindings=[bound("FETCH", "/words")], policy=MethodPolicy(disallow=frozenset({"FETCH"})))
    for method in ("CANCEL", "FETCH"):
        answer = shut.ask(method, "/words")
        assert (answer.status, document(answer)["allowed_methods_for_path"]) == (405, ["QUERY"])


def test_459_names_the_method_and_the_catalog() -> None:
    """AGTP-082: the name that nobody knows, and the version of the catalog in which it is not."""
    host = DispatchHost(catalogs=CatalogSet(primary=catalog("7.1.0")))
    body = document(host.ask("FROBNICATE", "/words"))
    assert (body["status"], body["method"], body["catalog_version"]) == (459, "FROBNICATE", "7.1.0")


@each_row("path", ["/book/x", "/x/book", "/a/cancel/b"])
def test_460_names_the_segment(path: str) -> None:
    """AGTP-083: a method's name in a path, wherever it is."""
    body = document(DispatchHost().ask("QUERY", path))
    named = next(segment for segment in path.split("/") if segment in ("book", "cancel"))
    assert (body["status"], body["segment"]) == (460, named)


@each_row(
    ("method", "path", "status"),
    [
        ("FROB", "/book/x", 459),
        ("FROB", "/nowhere", 459),
        ("FROB", "/words", 459),
        ("BOOK", "/book/x", 460),
        ("BOOK", "/nowhere", 404),
        ("BOOK", "/words", 405),
    ],
)
def test_the_most_specific_refusal_comes_first(method: str, path: str, status: int) -> None:
    """API-123: the method, then the grammar of the path, then whether the path is there, then the two together."""
    assert DispatchHost().ask(method, path).status == status


def test_wildcards_are_off_unless_declared() -> None:
    """API-154: neither side consents by default, so that what is not declared is refused as ever."""
    assert MethodPolicy().wildcards_accepted is False
    host = DispatchHost()
    assert [host.ask("FROB", "/desk").status, host.ask("CANCEL", "/desk").status] == [459, 405]
    document_ = {"wildcards": True}
    consenting = agent(CALLER, "caller", hosted=False)
    one_sided = DispatchHost(caller=replace(consenting, document={**consenting.document, **document_}))
    answer = one_sided.ask("CANCEL", "/desk")
    assert (answer.status, document(answer)["reason"]) == (262, "wildcards-required")
    assert not one_sided.recorder.calls


def test_wildcards_of_a_host_are_off_unless_configured() -> None:
    """API-154: the configuration's default, in the manifest and in answers; the key turns it on in both."""
    for given, accepted, status in (({}, False, 405), ({"policies": {"wildcards_accepted": True}}, True, 262)):
        with closing(MemoryHost(given)) as host:
            desk = host.agent("desk", scopes=["documents:query"])
            assert host.call("CANCEL", "/methods", caller=desk).status == status
            manifest = host.call("DISCOVER", "/").document
            assert manifest["policies"]["wildcards_accepted"] is accepted, manifest


# Deprecation


@pytest.mark.parametrize(
    ("declared", "warning"),
    [
        ({"successor": "FETCH", "removed_in": "2.0.0"}, "deprecated; successor=FETCH; removed_in=2.0.0"),
        ({"successor": "FETCH"}, "deprecated; successor=FETCH"),
        ({"removed_in": "2.0.0"}, "deprecated; removed_in=2.0.0"),
        ({}, "deprecated"),
    ],
)
def test_the_warning_has_what_the_catalog_declares(declared: dict[str, str], warning: str) -> None:
    """API-014: exactly these parts, and the request is processed."""
    old: Catalog = catalog("1.2.0", QUERY={"deprecated_in": "1.2.0", **declared})
    host = DispatchHost(catalogs=CatalogSet(primary=old))
    response = host.ask("QUERY", "/words", json.dumps({"parameters": {"text": "a"}}).encode())
    assert response.status == 200
    assert len(host.recorder.calls) == 1
    assert response.headers.get("agtp-catalog-warning") == warning


@pytest.mark.parametrize(
    ("declared", "warning"),
    [
        (
            {"successor_method": "BOOK", "successor_path": "/room", "removed_in": "2.0.0"},
            "deprecated; successor=BOOK /room; removed_in=2.0.0",
        ),
        ({"successor_path": "/room"}, "deprecated; successor=/room"),
        ({"removed_in": "2.0.0"}, "deprecated; removed_in=2.0.0"),
        ({}, "deprecated"),
    ],
)
def test_the_warning_has_what_the_endpoint_declares(declared: dict[str, str], warning: str) -> None:
    """API-065: exactly these parts."""
    assert Deprecation(deprecated_in="1.2.0", **declared).warning == warning
