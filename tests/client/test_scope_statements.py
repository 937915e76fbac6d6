"""Clients believe scopes beyond a Genesis by the signed statement of its issuer, and by nothing else."""

from __future__ import annotations

from agtphost.client.resolution import _scopes
from agtphost.identity.genesis import Genesis
from agtphost.identity.keys import SigningKey
from agtphost.identity.scope_statement import sign_statement
from tests.identity.samples import document, genesis_octets, key_of
from tests.rows import each_row

ISSUER, OTHER = key_of("issuer"), key_of("other")
GENESIS = Genesis.load(genesis_octets(ISSUER, scope=["documents:query"]))
NOW = "2026-06-01T12:00:00Z"


def stated(*scopes: str, issuer: SigningKey = ISSUER, genesis: Genesis = GENESIS) -> str:
    return sign_statement(genesis, issuer, number=3, scopes=scopes, issued_at=NOW)


@each_row(
    ("statement", "ok", "granted", "said"),
    [
        ("", False, {"documents:query"}, "declares mcp:tools:execute beyond its Genesis"),
        (stated("documents:query", "mcp:tools:execute"), True, {"documents:query", "mcp:tools:execute"},
         "by statement 3 of the Genesis's issuer, of 2026-06-01T12:00:00Z"),
        (stated("documents:query"), False, {"documents:query"}, "beyond statement 3 of its issuer"),
        (stated("documents:query", "mcp:tools:execute", issuer=OTHER), False, {"documents:query"}, "does not verify"),
        (stated("mcp:tools:execute", genesis=Genesis.load(genesis_octets(ISSUER, owner="Another"))), False,
         {"documents:query"}, "does not verify"),
        ("x.y.z", False, {"documents:query"}, "does not verify"),
    ],
)  # fmt: skip
def test_a_scope_beyond_the_genesis_needs_a_statement(statement: str, ok: bool, granted: set[str], said: str) -> None:
    """Of the issuer's own key, about this Genesis, and with that scope; otherwise the scope does not count."""
    check, scopes = _scopes(document(scopes_accepted=["documents:query", "mcp:tools:execute"]), GENESIS, statement)
    assert (check.ok, scopes) == (ok, granted) and said in check.detail, check
