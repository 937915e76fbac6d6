"""``[audit] witnesses``, ``[[audit.witness_host]]`` and ``[[witness.logs]]``: what is made of them."""

from __future__ import annotations

import time
from pathlib import Path

from twisted.internet.task import Clock

from agtphost.audit.state import StateTable
from agtphost.config import Config
from agtphost.identity.keys import SigningKey
from agtphost.methods.inspection.access import ReadACL
from agtphost.stores import MemoryStore
from agtphost.witnessing.feature import witness_bindings
from agtphost.witnessing.witnesses import Witnesses
from tests.config.test_load import loaded
from tests.identity.samples import key_of
from tests.methods.hosts import reading

KEY = key_of("witnessing key")


def built(config: Config) -> Witnesses:
    return Witnesses(Clock(), config, KEY, reading(MemoryStore()), lambda size, line: None)


def test_by_default_nobody_witnesses_and_nothing_is_witnessed(tmp_path: Path) -> None:
    """Nothing leaves the host, and ``/checkpoints`` is not bound, unless the operator says so."""
    config = loaded(tmp_path)
    assert config.audit.read_acl == ReadACL.PUBLIC.value
    assert built(config).witnesses == [] and witness_bindings(config, StateTable(), KEY, time.time) == ()


def test_witnesses_and_how_they_are_reached(tmp_path: Path) -> None:
    """Certificate, authority and key of one witness; the other takes the platform's."""
    for name in ("ca.crt", "w.crt", "w.key"):
        (tmp_path / name).write_text("x")
    config = loaded(
        tmp_path,
        f"""
[audit]
witnesses = ["agtp://w.example.com", "agtp://127.0.0.1:4481"]
witness_required = true
witness_seconds = 1.5

[[audit.witness_host]]
uri = "agtp://127.0.0.1:4481"
cert = "w.crt"
key = "w.key"
ca = "ca.crt"
signing_key = "{KEY.public.text}"
""",
    )
    assert [witness.name for witness in built(config).witnesses] == list(config.audit.witnesses)
    (entry,) = config.audit.witness_host
    assert entry.ca == tmp_path / "ca.crt"
    assert config.audit.witness_seconds == 1.5


def test_logs_that_are_witnessed(tmp_path: Path) -> None:
    """CONFIRM and QUERY of ``/checkpoints`` are bound; keys of one log add up, in the file or beside it."""
    KEY.public.save(tmp_path / "log.pub")
    config = loaded(
        tmp_path,
        f"""
[[witness.logs]]
origin = "a.test"
key = "file:log.pub"
client = "{"ab" * 32}"
[[witness.logs]]
origin = "a.test"
key = "{SigningKey.generate().public.text}"
""",
    )
    bound = witness_bindings(config, StateTable(), KEY, time.time)
    assert [(binding.method, binding.path) for binding in bound] == [
        ("CONFIRM", "/checkpoints"),
        ("QUERY", "/checkpoints"),
    ]
    assert [binding.state_changing for binding in bound] == [True, False]
    assert witness_bindings(config, StateTable(), None, time.time) == ()
