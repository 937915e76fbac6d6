"""Session-IDs that this software makes up: 128 random bits at the least (core v08 section 10.5)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import agtphost
from agtphost.client import new_session_id

ROOT = Path(agtphost.__file__).parent

OTHERS = {ROOT / "adapters" / "acp" / "handlers.py"}
"""Sessions of an upstream protocol, which has them as UUIDs; none of them is a Session-ID here."""

MAKERS = {"urandom", "token_urlsafe", "token_hex", "token_bytes", "uuid4", "uuid1", "random", "randbytes"}


def identifier_sources(source: str) -> Iterator[tuple[str, int]]:
    """How identifiers of sessions are made up: the function, and the octets it is asked for (32 unless it is told)."""
    for node in ast.walk(ast.parse(source)):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.keyword) and node.arg is not None:
            targets, value = [ast.Name(node.arg)], node.value
        else:
            continue
        if not any("session_id" in ast.unparse(target) for target in targets):
            continue
        for call in ast.walk(value):
            name = re.split(r"[.]", ast.unparse(call.func))[-1] if isinstance(call, ast.Call) else ""
            if isinstance(call, ast.Call) and name in MAKERS:
                yield name, int(ast.literal_eval(call.args[0])) if call.args else 32


def weak(source: str) -> list[str]:
    """Those that somebody could guess."""
    sound = {"urandom", "token_urlsafe", "token_hex", "token_bytes"}
    return [name for name, octets in identifier_sources(source) if name not in sound or octets < 16]


def test_a_thousand_sessions_of_the_client() -> None:
    """AGTP-315: unique, and 22 base64url characters at the least."""
    found = {new_session_id() for _ in range(1000)}
    assert len(found) == 1000 and all(re.fullmatch(r"[A-Za-z0-9_-]{22,}", one) for one in found)


def test_every_session_id_has_128_random_bits() -> None:
    """AGTP-315: wherever one is made, by client, bridge or host, the system's randomness makes it."""
    sources = [path.read_text() for path in sorted(ROOT.rglob("*.py")) if path not in OTHERS]
    naming = [text for text in sources if "session_id" in text]
    assert [weak(text) for text in naming if weak(text)] == []
    assert any(list(identifier_sources(text)) for text in naming), "the search finds what is there"


def test_what_would_be_guessed_is_found() -> None:
    """The control: a UUID has six bits too few, eight octets are half of it, and a counter's like is no secret."""
    assert weak("session_id = str(uuid.uuid4())") == ["uuid4"]
    assert weak("call(session_id=os.urandom(8).hex())") == ["urandom"]
    assert weak("self.session_id = random.random()") == ["random"]
    assert weak("session_id = os.urandom(16).hex()") == []
