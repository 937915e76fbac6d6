"""What the registry says of itself in OpenAPI is what it does: asked by schemathesis, by the document alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings

from tests.programmes import length
from tests.registry.served import TOKEN, Registry, deploy
from tests.system.hosting import running, until

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
EXAMPLES = length(3, 300)
"""Requests of each operation."""


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    config, port = deploy(tmp_path_factory.mktemp("document"), fronted=True)
    with running(config) as host:
        until(lambda: "the registry is served" in host.output)
        yield Registry(host, port)


@pytest.mark.programme
def test_what_the_document_allows_is_answered_as_it_says(registry: Registry) -> None:
    """Nothing is a failure of the host's, and every answer has the status, type and shape that it says."""
    import schemathesis  # Each worker imports this module, and one needs what takes long to import.

    document = registry.ask("GET", "/openapi.json").value
    schema = schemathesis.openapi.from_dict(document)
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {TOKEN}"
        tried = 0
        for found in schema.get_all_operations():
            tried += _tried(found.ok(), registry, session)
    assert tried >= EXAMPLES * 10


def test_two_protocols_have_their_card_at_one_place(registry: Registry) -> None:
    """A2A's, where an A2A front is on the listener; HAIDIP's to who asks for that, and always at the agent's own."""
    of_a2a = registry.ask("GET", "", raw="/.well-known/agent-card.json").value
    assert isinstance(of_a2a["capabilities"], dict)
    accept = "application/agent-card+json; profile=haidip"
    asked = registry.ask("GET", "", raw="/.well-known/agent-card.json", Accept=accept)
    assert asked.status == 200 and isinstance(asked.value["capabilities"], list)
    assert asked.value == registry.ask("GET", "/agents/agent:librarian").value


def _tried(operation: Any, registry: Registry, session: requests.Session) -> int:
    from schemathesis.checks import CHECKS as KNOWN
    from schemathesis.checks import load_all_checks

    load_all_checks()
    checks = [KNOWN.get_one(name) for name in CHECKS]
    count = 0

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        nonlocal count
        count += 1
        response = case.call(base_url=registry.url, session=session, verify=registry.ca)
        case.validate_response(response, checks=checks)

    ask()
    return count
