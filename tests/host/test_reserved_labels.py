"""What names an agent that a takeover leaves out: no other agent gets its place."""

from __future__ import annotations

from pathlib import Path

from agtphost.config import load
from agtphost.host.reserved_labels import _leave_out_bindings
from agtphost.identity.directory import AgentDirectory
from tests.dispatch.hosts import agent
from tests.system.hosting import free_port, sample

LEFT, NAMESAKE, OTHER = "1" * 64, "2" * 64, "3" * 64
CLIENTS = """
[gateway]
listen = "tcp:{0}:interface=127.0.0.1"
agent = "newcomer"
[registry]
listen = "tcp:{1}:interface=127.0.0.1"
agent = "{other}"
[[http.client]]
name = "left"
token = "file:one"
agent = "newcomer"
[[http.client]]
name = "kept"
token = "file:two"
agent = "{other}"
"""


def test_a_caller_of_the_same_label_is_not_called_for(tmp_path: Path) -> None:
    """With the hosted agent gone, the label would name the caller: its clients would call with another's rights."""
    file = sample(tmp_path, append=CLIENTS.format(free_port(), free_port(), other=OTHER))
    for number, name in enumerate(("one", "two")):
        (file.parent / name).write_text(str(number) * 40)
        (file.parent / name).chmod(0o600)
    known = [
        agent(LEFT, "newcomer", hosted=True),
        agent(NAMESAKE, "newcomer", hosted=False),
        agent(OTHER, "other", hosted=False),
    ]
    config = _leave_out_bindings(load(file, {}), AgentDirectory(known), {LEFT})
    assert [client.name for client in config.http.client] == ["kept"]
    assert config.gateway.agent == "" and config.registry is not None and config.registry.agent == OTHER
