"""Sections that share a listener."""

from __future__ import annotations

from pathlib import Path

import pytest

from agtphost.config import load, surfaces
from agtphost.config.http import Listener, listener_of
from agtphost.config.surfaces import Surface
from agtphost.errors import ConfigurationError
from agtphost.vocabulary.mount_paths import MountPath
from tests.config.test_broken import HEAD, HTTP, WELL
from tests.rows import each_row

SHARED = WELL + HTTP + "tokens = ['env:TOKEN']\nlisten = 'ssl:8443:interface=127.0.0.1'\n"


def written(folder: Path, text: str) -> Path:
    file = folder / "host.toml"
    file.write_text(HEAD + text)
    return file


@each_row(
    ("listen", "listener", "local"),
    [
        ("ssl:8443", Listener("ssl", "8443", ""), False),
        ("ssl:port=8443:interface=127.0.0.1", Listener("ssl", "8443", "127.0.0.1"), True),
        ("tcp:080:interface=localhost:backlog=5", Listener("tcp", "80", "localhost"), True),
        (r"tcp6:80:interface=\:\:1", Listener("tcp6", "80", r"\:\:1"), True),
        ("tcp:80:interface=127.0.0.1.example.com", Listener("tcp", "80", "127.0.0.1.example.com"), False),
        ("unix:/run/x.sock:mode=660", Listener("unix", "/run/x.sock", ""), True),
        ("unix:address=/run/x.sock", Listener("unix", "/run/x.sock", ""), True),
    ],
)
def test_listeners_are_told_apart(listen: str, listener: Listener, local: bool) -> None:
    """By kind, port and interface, however they are written; who can connect is told by the interface alone."""
    assert listener_of(listen) == listener
    assert listener.local is local


@each_row("port", ["99999", "65536", "http", "-1", "8 0", ""])
def test_a_listener_has_the_number_of_a_port(port: str, tmp_path: Path) -> None:
    """``agtp check`` says so; before, the host started without that listener and logged a line."""
    with pytest.raises(ConfigurationError, match="is not a number from 1 to 65535"):
        load(written(tmp_path, f"[metrics]\nlisten = 'tcp:{port}:interface=127.0.0.1'\n"), {})


@each_row(
    ("listen", "said"),
    [
        ("tcp:8080:interface=127.0.0.1:timeout=5", "has the option 'timeout', which tcp does not take here.*leave"),
        ("ssl:8443:privateKey=a:certKey=b", "'certKey'.*leave it out, and name the files in certificate and key"),
        (f"unix:/tmp/{'x' * 120}", "has a path of 125 octets.*choose one of at most 103"),
    ],
)
def test_an_endpoint_string_that_cannot_be_used_is_a_start_error(listen: str, said: str, tmp_path: Path) -> None:
    """The fault names the option or the path; before, it was the text of Twisted, or of the system at the start."""
    with pytest.raises(ConfigurationError, match=said):
        load(written(tmp_path, f"[metrics]\nlisten = '{listen}'\n"), {})


def test_sections_share_a_listener(tmp_path: Path) -> None:
    """Each has paths of its own; one agent alone is at the root too."""
    config = load(written(tmp_path, SHARED), {"TOKEN": "x" * 32})
    wellknown, front = surfaces.surfaces(config)
    assert wellknown.listener == front.listener
    assert {str(path) for path in front.paths} >= {"/", "/agents", "/.well-known/agent-card.json"}


def test_origins_are_spelled_as_browsers_send_them(tmp_path: Path) -> None:
    """A browser leaves out the port of the scheme, and writes an address of IPv6 in its shortest form."""
    given = ["https://a.example:443", "http://a.example:80", "HTTP://B.example:443", "http://[0:0::1]:80"]
    config = load(written(tmp_path, WELL + f"origins = {given}\n"), {})
    (section,) = [each.section for each in surfaces.surfaces(config)]
    assert section.origins == ("https://a.example", "http://a.example", "http://b.example:443", "http://[::1]")


def test_surfaces_that_overlap_are_a_start_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both lines are told."""
    every = surfaces.surfaces

    def rooted(config: surfaces.Config) -> list[Surface]:
        first, *others = every(config)
        # Cures are tried, one of which is a front that listens nowhere.
        return [Surface(name="x", location=first.location, section=first.section, paths=(MountPath("/"),)), *others]

    monkeypatch.setattr(surfaces, "surfaces", rooted)
    with pytest.raises(ConfigurationError) as caught:
        load(written(tmp_path, SHARED), {"TOKEN": "x" * 32})
    (problem,) = caught.value.problems
    assert problem.line == 11
    assert problem.message == "[a2a.front] listen is where [wellknown] has /, which overlaps /agents here (line 4)"


def test_the_gateway_has_what_other_surfaces_leave(tmp_path: Path) -> None:
    """But where agents have their addresses, nobody else is: the A2A front wants a listener of its own."""
    gateway = "[gateway]\nlisten = 'ssl:8443:interface=127.0.0.1'\n"
    well = WELL.replace("'ssl:8443'", "'ssl:8443:interface=127.0.0.1'")
    first, second = surfaces.surfaces(load(written(tmp_path, well + gateway), {}))
    assert first.listener == second.listener and (first.name, second.name) == ("wellknown", "gateway")
    with pytest.raises(ConfigurationError) as caught:
        load(written(tmp_path, SHARED + gateway), {"TOKEN": "x" * 32})
    (problem,) = caught.value.problems
    assert problem.message.startswith("[gateway] listen is where [a2a.front] has /agents, which overlaps /agents here")


def test_a_listener_has_one_certificate(tmp_path: Path) -> None:
    """Two sections that share one name the same files, or neither names any."""
    for name in ("c.pem", "c.key"):
        (tmp_path / name).touch(0o600)
    own = "certificate = 'c.pem'\nkey = 'c.key'\n"
    both = WELL + own + HTTP + own + "tokens = ['env:TOKEN']\nlisten = 'ssl:8443:interface=127.0.0.1'\n"
    load(written(tmp_path, both), {"TOKEN": "x" * 32})
    with pytest.raises(ConfigurationError) as caught:
        load(written(tmp_path, WELL + own + SHARED.removeprefix(WELL)), {"TOKEN": "x" * 32})
    (problem,) = caught.value.problems
    assert problem.line == 13
    assert problem.message == "[a2a.front] listen is shared with [wellknown], which has another certificate (line 4)"


def test_a_token_that_others_can_read_is_a_start_error(tmp_path: Path) -> None:
    """A key that opens the host is its owner's alone."""
    file = tmp_path / "a.token"
    file.touch(0o600)
    file.write_text("x" * 32)
    text = "[[http.client]]\nname = 'a'\nagent = 'x'\ntoken = 'file:a.token'\n"
    assert [client.name for client in load(written(tmp_path, text), {}).http.client] == ["a"]
    for mode in (0o640, 0o604):
        file.chmod(mode)
        with pytest.raises(ConfigurationError) as caught:
            load(written(tmp_path, text), {})
        (problem,) = caught.value.problems
        assert (problem.line, "can be read by others than its owner" in problem.message) == (7, True)


def test_a_clients_token_is_no_token_of_the_front(tmp_path: Path) -> None:
    """Who calls could not be told."""
    text = (
        HTTP + "listen = 'tcp:0:interface=127.0.0.1'\ntokens = ['env:TOKEN']\n"
        "[[http.client]]\nname = 'a'\nagent = 'x'\ntoken = 'env:TOKEN'\n"
    )
    with pytest.raises(ConfigurationError, match="is the same as a token of"):
        load(written(tmp_path, text), {"TOKEN": "x" * 32})


SECTIONS = {
    "registry": "[registry]\nurl = 'http://a.example'\nlisten = '{listen}'\n",
    "gateway": "[gateway]\nlisten = '{listen}'\n",
    "mcp.front": "[mcp.front]\nlisten = '{listen}'\n",
    "a2a.front": "[a2a.front]\nlisten = '{listen}'\n",
}


@each_row("section", SECTIONS)
def test_what_others_reach_speaks_tls(tmp_path: Path, section: str) -> None:
    """HAIDIP-041: no surface offers plain HTTP to others, and this machine's own loopback is the one exception."""

    def refused(listen: str) -> bool:
        try:
            load(written(tmp_path, SECTIONS[section].format(listen=listen)), {})
        except ConfigurationError as error:
            return "must be ssl, except on this machine's own loopback addresses" in str(error)
        return False

    assert refused("tcp:8443")
    assert refused("tcp:8443:interface=0.0.0.0")
    assert not refused("ssl:8443")
    assert not refused("tcp:8443:interface=127.0.0.1")
