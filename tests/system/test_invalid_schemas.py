"""Schemas of hosted tools that are no JSON Schema: told, and that tool is off."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding

from agtphost.identity.certificates import load_certificate, parse_peer_certificate
from agtphost.identity.provisioning import provision_development
from tests.system.hosting import agtp, running, sample, until

SERVER = """
[[mcp.server]]
name = "odd"
command = ["{{python}}", "{script}"]
scopes = ["mcp:tools:execute"]
"""
PLACES = ("/properties/a/type", "/properties/b/title", "/required")


def test_a_tool_with_an_invalid_schema_is_off_and_the_others_are_on(tmp_path: Path) -> None:
    """In the log, in ``upstreams ls`` and by ``check --ask``, each place with its path; calls say that it is off."""
    config = sample(tmp_path)
    folder = config.parent
    provision_development(folder / "state", server_id="localhost", hosted=[folder / "agents" / "librarian.agent.json"])
    certificate = load_certificate(folder / "state" / "agents" / "demo" / "agent.pem").public_bytes(Encoding.DER)
    operator = f'[audit]\noperators = ["{parse_peer_certificate(certificate).fingerprint}"]\n'
    script = Path(__file__).with_name("invalid_server.py")
    config.write_text(config.read_text() + SERVER.format(script=script) + operator)
    asked = agtp("check", str(config), "--ask")
    assert asked.returncode == 0, asked.stderr
    assert all(place in asked.stderr for place in PLACES), asked.stderr
    with running(config) as host:
        until(lambda: "tool 'wrong_input' is off" in host.output and "tool 'wrong_output' is off" in host.output)
        listed = host.agtp("upstreams", "ls", "--as", "demo").stderr
        assert all(place in listed for place in PLACES), listed
        assert "tool sound" not in listed
        for tool in ("wrong_input", "wrong_output"):
            refused = host.agtp("tools", "call", f"odd.{tool}", "--as", "demo")
            assert "tool-schema-invalid" in refused.stderr, refused.stderr
        done = host.agtp("tools", "call", "odd.sound", "--as", "demo")
        assert done.returncode == 0, done.stderr
        names = host.agtp("tools", "ls", "--as", "demo").stdout
        assert "odd.sound" in names and "wrong" not in names
