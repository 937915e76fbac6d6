"""What a good configuration becomes."""

from __future__ import annotations

import ipaddress
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from agtphost.config import Config, load
from agtphost.config.policies import SEED_ALIASES
from agtphost.identity.peer import Assurance

MINIMAL = '[host]\nserver_id = "h"\nprofile = "development"\n'


def loaded(folder: Path, text: str = "", environ: dict[str, str] | None = None) -> Config:
    """The configuration of :data:`MINIMAL` and ``text``."""
    path = folder / "host.toml"
    path.write_text(MINIMAL + text)
    return load(path, environ or {})


def test_defaults(tmp_path: Path) -> None:
    """A development host needs a name only; everything else has the documented default."""
    config = loaded(tmp_path)
    state = tmp_path / "state"
    assert (config.listen.address, config.listen.port, config.listen.loopback) == ("127.0.0.1", 4480, True)
    assert config.host.state_dir == state
    assert (config.tls.certificate, config.tls.key) == (state / "server.pem", state / "server.key")
    assert (config.tls.client_ca, config.tls.client_auth) == (state / "ca.pem", "optional")
    assert (config.audit.key, config.audit.signing, config.audit.read_acl) == (
        state / "signing.key",
        True,
        "public",
    )
    assert config.store.url == f"sqlite:{state / 'agtphost.sqlite3'}"
    assert config.identity.known_agents == state / "agents"
    assert config.lifecycle.auth == "genesis_issuer"
    assert dict(config.policies.methods.aliases) == SEED_ALIASES
    assert (config.file, config.folder) == (tmp_path / "host.toml", tmp_path)


def test_limits_are_those_of_the_threat_model(tmp_path: Path) -> None:
    """Security section 2.2 names each of these numbers (T-LM, T-DS); AGTP-010: idle is 60 s or more."""
    limits = loaded(tmp_path).limits
    assert limits.model_dump() == {
        "request_line": 8192,
        "header_line": 8192,
        "header_block": 32768,
        "header_count": 100,
        "body": 1048576,
        "handshake_timeout": 10,
        "header_timeout": 10,
        "body_gap_timeout": 10,
        "body_min_rate": 1024,
        "idle_timeout": 75,
        "write_timeout": 30,
        "request_timeout": 60,
        "connections": 10000,
        "connections_per_address": 64,
        "handshakes_per_second_per_address": 10,
        "exempt_addresses": (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128")),
        "requests_per_minute": 600000,
        "requests_per_minute_per_principal": 6000000,
        "keyed_requests_per_agent": 100000,
        "keyed_octets_per_agent": 67108864,
        "keyed_requests_in_all": 1000000,
        "keyed_octets_in_all": 536870912,
        "anonymous_requests_per_minute": 6000,
        "rate_burst": 60,
        "requests_per_connection": 10000,
        "connection_age": 3600,
        "output_high_water": 65536,
        "drain_timeout": 30,
        "drain_delay": 0,
    }


def test_a_locally_chosen_port(tmp_path: Path) -> None:
    """AGTP-096: any port can be configured; seconds may be whole or fractional numbers."""
    config = loaded(tmp_path, "[listen]\nport = 50443\naddress = '::1'\n[limits]\nidle_timeout = 60.5\n")
    assert (config.listen.port, config.listen.loopback, config.limits.idle_timeout) == (50443, True, 60.5)


def test_relative_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the process stands, a path means the same (interface section 1)."""
    (tmp_path / "deploy" / "endpoints").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deploy" / "host.toml").write_text(
        MINIMAL + "state_dir = 'var'\n[endpoints]\ndirectory = 'endpoints'\npython_path = ['.']\n"
        "[store]\nurl = 'sqlite:x.db'\n"
    )
    config = load("deploy/host.toml", {})
    folder = tmp_path / "deploy"
    assert config.host.state_dir == folder / "var"
    assert config.tls.key == folder / "var" / "server.key"
    assert config.endpoints.directory == folder / "endpoints"
    assert config.endpoints.python_path == (folder,)
    assert config.store.url == f"sqlite:{folder / 'x.db'}"


def test_the_environment_overrides_the_state_directory(tmp_path: Path) -> None:
    """``AGTPHOST_STATE_DIR`` moves everything the host writes; empty, it does nothing."""
    other = tmp_path / "elsewhere"
    config = loaded(tmp_path, "state_dir = 'var'\n", {"AGTPHOST_STATE_DIR": str(other)})
    assert config.host.state_dir == other
    assert config.tls.certificate == other / "server.pem"
    assert config.store.url == f"sqlite:{other / 'agtphost.sqlite3'}"
    assert loaded(tmp_path, "state_dir = 'var'\n", {"AGTPHOST_STATE_DIR": ""}).host.state_dir == tmp_path / "var"


def test_an_mcp_server_over_stdio(tmp_path: Path) -> None:
    """It runs beside the file; ``{python}`` is this interpreter wherever it stands; overrides go by tool name."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "serve"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    config = loaded(
        tmp_path,
        "[[mcp.server]]\nname = 'files'\ncommand = ['{python}', '--run={python}', '{python}', 'x.py']\n"
        "[mcp.server.tools.read]\nimpact = 'informational'\nmin_assurance = 'header'\nscopes = ['fs:read']\n"
        "[[mcp.server]]\nname = 'local'\ncommand = ['bin/serve']\ncwd = 'bin'\nmax_concurrency = 3\n",
    )
    files, local = config.mcp.server
    assert files.command == (sys.executable, f"--run={sys.executable}", sys.executable, "x.py")
    assert files.cwd == tmp_path
    assert files.scopes == ("mcp:tools:execute",)
    override = files.tools["read"]
    assert (override.impact, override.min_assurance, override.scopes) == (
        "informational",
        Assurance.HEADER,
        ("fs:read",),
    )
    assert (local.command, local.cwd, local.max_concurrency) == ((str(program),), tmp_path / "bin", 3)


def test_an_mcp_server_over_http(tmp_path: Path) -> None:
    """Plain http is for this machine's loopback alone."""
    config = loaded(
        tmp_path,
        "[[mcp.server]]\nname = 'a'\nurl = 'http://127.0.0.1:3000/mcp'\n"
        "[[mcp.server]]\nname = 'b'\nurl = 'https://mcp.example/x?y=1'\nbearer = 'env:TOKEN'\n",
        {"TOKEN": "canary"},
    )
    assert [server.url for server in config.mcp.server] == [
        "http://127.0.0.1:3000/mcp",
        "https://mcp.example/x?y=1",
    ]
    bearer = config.mcp.server[1].bearer
    assert bearer is not None
    assert bearer.reveal() == "canary"
    assert "canary" not in repr(config)


def test_the_environment_of_a_child_is_secret(tmp_path: Path) -> None:
    """T-SE-1: values of env are read, and shown nowhere, plain ones included."""
    (tmp_path / "token").write_text("from-file\n")
    config = loaded(
        tmp_path,
        "[[mcp.server]]\nname = 'a'\ncommand = ['{python}']\n[mcp.server.env]\n"
        "PLAIN = 'plain-value'\nMIXED = 'Bearer ${T}!'\nNAMED = 'env:T'\nFILED = 'file:token'\n",
        {"T": "from-environment"},
    )
    env = config.mcp.server[0].env
    assert {name: value.reveal() for name, value in env.items()} == {
        "PLAIN": "plain-value",
        "MIXED": "Bearer from-environment!",
        "NAMED": "from-environment",
        "FILED": "from-file",
    }
    shown = f"{config!r}{config}{config.model_dump()!r}{config.mcp.server[0]}"
    assert "***" in shown
    assert not any(value in shown for value in ("plain-value", "from-environment", "from-file"))


def test_the_leak_detector_detects() -> None:
    """The control of the two tests above: an ordinary string does show in a representation."""
    assert "canary" in repr({"bearer": "canary"})


def test_a_method_policy(tmp_path: Path) -> None:
    """API-086 to API-092: lists, words, aliases in one hop, redirects with optional paths."""
    config = loaded(
        tmp_path,
        "[policies.methods]\nallow = ['BOOK']\ndisallow = ['TRANSFER']\nlegacy = '*'\naliases = {}\n"
        "[[policies.methods.redirects]]\nfrom_method = 'BOOK'\nfrom_path = '/room'\nto_method = 'RESERVE'\n",
    )
    methods = config.policies.methods
    assert (methods.allow, methods.disallow, methods.legacy) == (("BOOK",), ("TRANSFER",), "*")
    assert dict(methods.aliases) == {}
    redirect = methods.redirects[0]
    assert (redirect.from_path, redirect.to_method, redirect.to_path) == ("/room", "RESERVE", None)


@pytest.mark.parametrize(
    ("endpoint", "loopback"),
    [
        ("tcp:4480:interface=127.0.0.1", True),
        ("tcp:port=4480:interface=127.0.0.1:backlog=5", True),
        ("tcp6:4480:interface=\\\\:\\\\:1", True),
        ("unix:/run/agtp", True),
        ("tcp:4480", False),
        ("tcp:4480:interface=0.0.0.0", False),
        ("tcp:4480:interface=127.0.0.1.example", False),
        ("systemd:domain=INET:index=0", False),
    ],
)
def test_which_endpoints_only_this_machine_reaches(tmp_path: Path, endpoint: str, loopback: bool) -> None:
    """``auth = "open"`` and the development profile depend on this, so what is not clear counts as open."""
    assert loaded(tmp_path, f'[listen]\nendpoint = "{endpoint}"\n').listen.loopback is loopback


def test_open_lifecycle_where_it_is_allowed(tmp_path: Path) -> None:
    """AGTP-246: development on loopback."""
    assert loaded(tmp_path, "[lifecycle]\nauth = 'open'\n").lifecycle.auth == "open"


def test_a_configuration_does_not_change(tmp_path: Path) -> None:
    """Frozen through and through: a reload makes a new one (security invariant 13)."""
    config = loaded(tmp_path)
    with pytest.raises(ValidationError):
        config.listen.port = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        config.policies.methods.aliases["A"] = "B"  # type: ignore[index]


def test_production_with_all_its_files(tmp_path: Path) -> None:
    """The production profile starts once keys and certificates lie where they are expected."""
    state = tmp_path / "state"
    state.mkdir()
    for name in ("server.pem", "server.key", "ca.pem", "signing.key"):
        (state / name).write_text("x")
        (state / name).chmod(0o600)
    (tmp_path / "host.toml").write_text("[host]\nserver_id = 'h'\n")
    assert not load(tmp_path / "host.toml", {}).host.development


def test_production_without_client_certificates_needs_no_authority(tmp_path: Path) -> None:
    """``client_auth = "none"`` asks for no client CA."""
    state = tmp_path / "state"
    state.mkdir()
    for name in ("server.pem", "server.key", "signing.key"):
        (state / name).write_text("x")
        (state / name).chmod(0o600)
    (tmp_path / "host.toml").write_text("[host]\nserver_id = 'h'\n[tls]\nclient_auth = 'none'\n")
    assert load(tmp_path / "host.toml", {}).tls.client_auth == "none"
