"""A host as ``agtp init`` writes it, seen from outside."""

from __future__ import annotations

from pathlib import Path

from tests.system.hosting import agtp, free_port, running
from tests.system.test_operation import manifest


def test_a_new_host_publishes_a_sound_manifest_and_has_no_tools(tmp_path: Path) -> None:
    """Operator and contact are published; without MCP servers nobody is refused a tool."""
    folder = tmp_path / "work"
    port = str(free_port())
    assert agtp("init", str(folder), "--port", port, "--operator", "Example Ltd").returncode == 0
    with running(folder / "host.toml") as host:
        done = host.agtp("manifest", "validate", host.uri, "--as", "demo")
        assert done.returncode == 0, done.stdout + done.stderr
        server = manifest(host)["server"]
        assert isinstance(server, dict)
        assert (server["operator"], server["contact"]) == ("Example Ltd", "postmaster@localhost")
        listed = host.agtp("tools", "ls", "--as", "demo")
        assert listed.returncode == 0, listed.stderr
        assert "the host has no tools" in listed.stderr
