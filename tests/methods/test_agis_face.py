"""``format=agis``: what one caller may call, as an AGIS document that conforms."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml
from twisted.logger import capturedLogs, formatEvent

from agtphost.agis import validate
from agtphost.contract.binding import Binding
from agtphost.contract.manifest import project_binding
from agtphost.identity.peer import Assurance
from agtphost.vocabulary.catalog import Catalog
from tests.identity.issued import CALLER, DESK, of_agent
from tests.memory import body_of
from tests.methods.floor_hosts import endpoint
from tests.methods.hosts import MethodHost, Toolbox
from tests.methods.test_discovery import tool as bare_tool
from tests.rows import each_row

CATALOG = Catalog.load()
ME = of_agent(CALLER.agent_id)


def own(method: str, path: str, intent: str, **options: Any) -> Binding:
    """An endpoint of the operator's."""
    said = {"intent": intent, "outcome": "It is as it was asked for.", **options.pop("semantic", {})}
    bound = endpoint(method, path, intent)
    return replace(bound, details={**bound.details, "semantic": said}, **options)


def ask_document(
    host: MethodHost, method: str = "DISCOVER", query: str = "format=agis", **options: Any
) -> dict[str, Any]:
    """The document as JSON, which conforms."""
    response = host.ask(method, "/", query=query, **{"certificate": ME, **options})
    assert response.status == 200, response.body
    verdict = validate(response.body)
    assert verdict.conforms, verdict.findings
    document: dict[str, Any] = json.loads(response.body)
    return document


def listed_names(document: Mapping[str, Any]) -> set[str]:
    """What is in it."""
    return {f"{each['method']} {each['path']}" for each in document["endpoints"]}


def test_what_is_listed_is_what_can_be_called() -> None:
    """AGIS-052: endpoints and hosted servers, by the gates' own decision, with the verbs that they use."""
    tool = replace(bare_tool("files.read", (), Assurance.HEADER), path="/mcp/files")
    host = MethodHost(
        endpoints=[
            own("BOOK", "/room", "Book a room."),
            own("FIND", "/room", "Find a room.", required_scopes=("vault:open",)),
            own("QUERY", "/library/{isbn}", "Look up a book."),
        ],
        adapter=Toolbox(tool),
    )
    document = ask_document(host)
    assert listed_names(document) == {"BOOK /room", "QUERY /library/{isbn}", "EXECUTE /mcp/files"}
    assert document["vocabulary"]["declared_verbs"] == ["BOOK", "QUERY", "EXECUTE"]
    assert document["prepared_for"] == {"agent_id": CALLER.agent_id, "assurance": "certificate"}
    assert ask_document(host, "DESCRIBE") == document
    whole = ask_document(host, query="format=agis&built_ins=true")
    callable_here = {f"{each['method']} {each['path']}" for each in methods(host, certificate=ME)}
    assert listed_names(whole) | set(whole["left_out"]) == callable_here
    assert not {"BOOK /room", "FIND /room"} & set(whole["left_out"])


def methods(host: MethodHost, **options: Any) -> list[dict[str, Any]]:
    """What DISCOVER /methods says at the same moment."""
    entries: list[dict[str, Any]] = json.loads(host.ask("DISCOVER", "/methods", **options).body)
    return entries


def test_who_may_do_less_gets_less() -> None:
    """What a claim narrows is narrowed here too; a document that was kept for one authority is nobody else's."""
    host = MethodHost(
        endpoints=[
            own("QUERY", "/desk", "Look up a desk.", required_scopes=("booking:desk",)),
            own("FIND", "/shelf", "Find a shelf."),
        ]
    )
    for _ in range(2):
        assert listed_names(ask_document(host)) == {"QUERY /desk", "FIND /shelf"}
        assert listed_names(ask_document(host, headers={"Authority-Scope": ""})) == {"FIND /shelf"}


CLASSES = {
    "data_class": [
        {
            "name": "patient-record",
            "description": "What was found.",
            "formats": ["json"],
            "sensitivity": "high",
            "requires_authorization": True,
        }
    ],
    "policies": {"synthesis_enabled": True, "synthesis": {"unclassified": True}},
    "agis": {"service": "Ward", "description": "Beds of the ward.", "domain": "healthcare", "namespace": "ward-3"},
}


def test_a_stranger_reads_what_there_is_and_no_more() -> None:
    """AGIS-039, AGIS-057, AGIS-064: without credentials class, description and formats; sensitivity for the known."""
    host = MethodHost(CLASSES, endpoints=[own("BOOK", "/bed", "Book a bed.")])
    document = ask_document(host, certificate=None)
    assert document["data_manifest"] == {
        "available_data": [{"class": "patient-record", "description": "What was found.", "formats": ["json"]}],
        "pre_auth_discovery": True,
    }
    # Nothing of the operator's can be called without a name: what is listed is what every host answers, and can be.
    callable_here = {f"{each['method']} {each['path']}" for each in methods(host)}
    assert "BOOK /bed" not in callable_here and "DISCOVER /methods" in listed_names(document) <= callable_here
    known = ask_document(host)
    assert known["data_manifest"]["available_data"][0]["sensitivity"] == "high"
    assert listed_names(known) == {"BOOK /bed"}
    said = [known[name] for name in ("service", "description", "agtp")]
    assert said == ["Ward", "Beds of the ward.", "agtp://agtp.test"]
    block = known["vocabulary"]
    assert (block["domain"], block["namespace"], block["negotiable"]) == ("healthcare", "ward-3", True)


def test_what_is_closed_to_strangers_is_closed_here_too() -> None:
    """With ``anonymous_discovery = false`` nobody without a name reads the document."""
    host = MethodHost({"policies": {"anonymous_discovery": False}}, endpoints=[own("BOOK", "/bed", "Book a bed.")])
    assert host.ask("DISCOVER", "/", query="format=agis").status == 262
    assert listed_names(ask_document(host)) == {"BOOK /bed"}


JSON, YAML = "application/agis; version=1.0", "application/agis+yaml; version=1.0"


@pytest.fixture(scope="module")
def host() -> MethodHost:
    """Two endpoints."""
    return MethodHost(endpoints=[own("BOOK", "/room", "Book a room."), own("QUERY", "/book/{isbn}", "Look up a book.")])


@each_row(
    ("query", "accept", "label"),
    [
        ("format=agis", None, JSON),
        ("format=agis-yaml", None, YAML),
        ("", "application/agis", JSON),
        ("", "Application/AGIS; Version=1.0", JSON),
        ("", 'application/agis;version="1.0";q=0.5', JSON),
        ("", "application/agis+yaml", YAML),
        ("", "application/agis;q=0.2, application/agis+yaml;q=0.9", YAML),
        ("", "text/plain, application/agis", JSON),
        ("format=agis-yaml", "application/agis", YAML),
        ("", "application/agis;q=0.1, */*;q=0.9", None),
        ("", "application/agis;version=2.0, */*", None),
        ("", "application/agis;q=0", None),
        ("", "*/*", None),
    ],
)
def test_the_form_that_is_asked_for(host: MethodHost, query: str, accept: str | None, label: str | None) -> None:
    """AGIS-048, AGIS-066: by ``format``, else by media type, whose version is read; else what was always answered."""
    for method in ("DISCOVER", "DESCRIBE"):
        fields = {} if accept is None else {"Accept": accept}
        response = host.ask(method, "/", query=query, certificate=ME, headers=fields)
        assert response.status == 200
        told = response.headers.get("agtp-endpoint-warning")
        if label is None:
            assert "agis" not in (response.headers.get("content-type") or "") and told is None
            continue
        assert response.headers.get("content-type") == label
        assert told == 'deprecated="format=agis"; use="DISCOVER /"'
        read = json.loads(response.body) if label == JSON else yaml.safe_load(response.body)
        assert read == ask_document(host) and validate(response.body).conforms


def test_a_version_that_is_not_served(host: MethodHost) -> None:
    """AGIS-066: who would take nothing else is told which there is."""
    refused = host.ask("DESCRIBE", "/", certificate=ME, headers={"Accept": "application/agis;version=2.0"})
    assert (refused.status, body_of(refused)["remedy"]) == (422, "Ask for version=1.0.")
    refused = host.ask("DISCOVER", "/", query="format=wsdl", certificate=ME)
    assert (refused.status, body_of(refused)["parameter"]) == (422, "format")


def test_what_will_go_is_marked() -> None:
    """AGIS-074: an endpoint that is deprecated says since when, and what to call instead."""
    going = {"deprecated_in": "2.0", "successor": {"path": "/suite"}}
    bound = own("BOOK", "/room", "Book a room.")
    entry = {**project_binding(bound, CATALOG), "deprecated": going}
    (shown,) = ask_document(MethodHost(endpoints=[replace(bound, details=entry)]))["endpoints"]
    assert shown["deprecated"] == going


def test_what_cannot_be_said_is_left_out_and_told() -> None:
    """AGIS-073: a document that its readers would refuse is never sent; what is not in it is named."""
    host = MethodHost(
        endpoints=[
            own("BOOK", "/room", "Book a room."),
            own("QUERY", "/getRoom", "Look up a room."),
            own("FIND", "/table", "Deletes a table."),
        ]
    )
    with capturedLogs() as logs:
        document = ask_document(host)
    said = [text for event in logs if "is not in AGIS documents" in (text := formatEvent(event) or "")]
    assert len(said) == 2 and any("AGIS-P4-" in text for text in said)
    assert listed_names(document) == {"BOOK /room"}
    assert document["left_out"] == ["FIND /table", "QUERY /getRoom"]


def test_what_one_agent_alone_offers_is_where_that_agent_is() -> None:
    """An endpoint of one agent of several stands below it, as it is called."""
    mine, theirs = own("QUERY", "/notes", "Look up notes."), own("QUERY", "/shelf", "Look up a shelf.")
    host = MethodHost(endpoints=[replace(mine, agents=frozenset({DESK.agent_id})), theirs])
    assert listed_names(ask_document(host)) == {"QUERY /agents/desk/notes", "QUERY /shelf"}
