"""The feature of ``[gateway]``: its rules follow the table, the policy and the upstreams of a configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agtphost.contract.schemas import compile_schema
from agtphost.gateway.feature import Gateway
from agtphost.testing import MemoryHost
from tests.dispatch.hosts import DispatchHost
from tests.dispatch.test_method_rules import bound
from tests.host.carried import carried
from tests.rows import each_row

LISTEN = "tcp:8080:interface=127.0.0.1"


def test_gateway_needs_a_listener() -> None:
    """Without one nothing is served; the control: with one there is one surface, and tools have addresses."""
    assert not MemoryHost().core.features.contributions["gateway",].surfaces
    host = MemoryHost({"gateway": {"listen": LISTEN}})
    (surface,) = host.core.features.contributions["gateway",].surfaces
    made = carried(host, "gateway", Gateway)
    assert surface is made.surface and surface.resource is made.resource
    assert made.facts.rules.tools is not None
    address = made.facts.rules.tools("nowhere", "tool")
    assert (address.path, address.call.constants["server"]) == ("/", "nowhere")


@each_row(
    ("path", "policy", "verbs"),
    [
        ("/words", {}, ["post"]),
        ("/agents/librarian/words", {}, ["post"]),
        ("/desk", {}, ["post"]),
        ("/shelf", {}, ["post", "patch"]),
        ("/shelf", {"disallow": ["BOOK", "CANCEL"]}, ["post"]),
        ("/words", {"disallow": ["QUERY"]}, []),
        ("/nowhere", {}, []),
    ],
)
def test_options_names_what_the_document_has(path: str, policy: dict[str, Any], verbs: list[str]) -> None:
    """
    In the order of the endpoints, as the OpenAPI document places them, and without what the policy excludes.

    The third endpoint of the shelf finds PUT alone free, which only the first one, an idempotent one, may have.
    """
    settings = {"gateway": {"listen": "tcp:8080:interface=127.0.0.1"}, "policies": {"methods": policy}}
    nested = {"type": "object", "additionalProperties": False, "properties": {"a": {"type": "array"}}}
    closed = compile_schema(nested, role="input")
    shelf = [
        replace(bound(method, "/shelf"), input_schema=closed, details={"semantic": {"is_idempotent": again}})
        for method, again in (("RESERVE", True), ("BOOK", False), ("CANCEL", False))
    ]
    host = DispatchHost(settings=settings, bindings=shelf)
    assert list(carried(host, "gateway", Gateway).facts.rules.described(path)) == verbs
