"""The scopes that a host asks for, by which commands question a scope before it is issued."""

from __future__ import annotations

from typing import Any

from agtphost.host.scope_names import named_scopes
from agtphost.testing import MemoryHost
from tests.rows import each_row


@each_row(
    "settings, asked",
    [
        ({}, set()),
        ({"methods": {"standard": ["AUTHORIZE", "RANK"]}}, {"authorization:grant"}),
        ({"methods": {"standard": "*"}}, {"authorization:grant", "activation:run", "payments:purchase"}),
        ({"policies": {"synthesis": {"persistent": True}}}, {"rcns:persist"}),
    ],
)
def test_scopes_of_methods_count_where_the_methods_are_on(settings: dict[str, Any], asked: set[str]) -> None:
    """``agtp agent new --scope authorization:grant`` is not questioned on a host that answers AUTHORIZE."""
    conditional = {"authorization:grant", "activation:run", "payments:purchase", "rcns:persist"}
    assert named_scopes(MemoryHost(settings).core.services.config) & conditional == asked
