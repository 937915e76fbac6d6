"""A caller without proof that names an agent in a header: what is stored of that agent stays closed to it."""

from __future__ import annotations

import json
import re
import secrets
from pathlib import Path

from tests.attacks.attack import Attack, Target
from tests.attacks.site import amend
from tests.attacks.strikes import addresses, agent_of, opened, said, turns
from tests.system.raw_link import Answer, RawLink, client_context, request

NAMED = "other"
"""The agent whose name the attacker has."""

METHODS = ("FETCH", "SEARCH", "SCAN", "FILTER", "REGISTER")

COLLECTION = """
[[methods.collection]]
name = "vault"
read = ["vault:read"]
write = ["vault:write"]
"""

MARK = re.compile(rb"zq[0-9a-f]{16}qz")
"""In everything that the attack has the agent keep, and nowhere else."""

EVERYTHING = {"query": "*", "limit": 500}


def with_collections(folder: Path) -> None:
    """Standard methods that read, and a collection that only certain agents read."""
    amend(folder, "methods", f"standard = {json.dumps(METHODS)}")
    config = folder / "host.toml"
    config.write_text(config.read_text() + COLLECTION)


CLOSED = (
    ("FETCH", "/", {"resource_id": "vault/secret"}),
    ("SEARCH", "/", {**EVERYTHING, "scope": "vault"}),
    ("SEARCH", "/", {**EVERYTHING, "scope": "records"}),
    ("SEARCH", "/", EVERYTHING),
    ("SCAN", "/", {"collection": "vault"}),
    ("FILTER", "/", {"data": "collection:vault", "criteria": {"text": {"exists": True}}}),
    ("QUERY", "/", {"intent": "everything"}),
    ("SUMMARIZE", "/", {"source": "One sentence. Another one."}),
    ("PLAN", "/", {"goal": "know everything"}),
    ("QUERY", "/library/9780141439518", None),
    ("QUERY", "/notifications", None),
    ("QUERY", "/escalations", None),
    ("QUERY", "/approvals", None),
    ("INSPECT", "/", {"target": "records"}),
)
"""What takes proof: 401, or 403 where people alone are answered."""

OPEN = (("DISCOVER", "/contracts", None), ("DISCOVER", "/methods", None), ("DESCRIBE", "/agents", None))
"""What everybody is answered."""


def _ask(link: RawLink, method: str, path: str, given: object, **fields: str) -> Answer | None:
    link.send(request(method, path, given, **fields))
    return said(link)


def _keep(target: Target, mark: str) -> None:
    """Have the agent, with its certificate, keep what the attacker is after: an item, a message, records."""
    with RawLink(target, context=client_context(target, agent=NAMED), source="127.0.3.1") as link:
        item = {"entity_type": "vault", "data": {"text": mark}, "idempotency_key": mark}
        made = link.ask("REGISTER", "/", item, Task_ID=mark)
        assert made.status in (200, 429), (made.status, made.reason)
        note = {"recipient": agent_of(target, NAMED), "content": {"text": mark}}
        assert link.ask("NOTIFY", "/", note).status in (200, 202, 429)
        for control in (
            ("SEARCH", "/", {**EVERYTHING, "scope": "vault"}),
            ("SEARCH", "/", {**EVERYTHING, "scope": "records"}),
        ):
            shown = link.ask(*control)
            assert shown.status == 429 or MARK.search(shown.body), (control, shown.status, shown.reason)


def names_in_headers(target: Target, seconds: float) -> None:
    """FETCH, SEARCH, SCAN, FILTER and whatever else shows what an agent keeps, by its name alone: 401, and no octet."""
    _keep(target, f"zq{secrets.token_hex(8)}qz")
    nobody, name = client_context(target, identified=False), agent_of(target, NAMED)
    for _, source in zip(turns(seconds, most=2_000), addresses(), strict=False):
        link = opened(target, nobody, source)
        if link is None:
            continue
        with link:
            for method, path, given in (*CLOSED, *OPEN):
                answer = _ask(link, method, path, given, Agent_ID=name)
                if answer is None:
                    break
                assert not MARK.search(answer.body), (method, path, given, answer.body[:400])
                if (method, path, given) in CLOSED:
                    assert answer.status in (401, 403, 429), (method, path, given, answer.status, answer.reason)


ATTACKS = (
    Attack(
        name="names-in-headers",
        who="stranger",
        says="Asks for what an agent keeps, with its Agent-ID in a header and no certificate: nothing comes back.",
        run=names_in_headers,
        configure=with_collections,
    ),
)
