"""Traces of connections: what they hold, what they leave out, and their bounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agtphost.config.quic import QuicSection
from agtphost.errors import ConfigurationError
from agtphost.protocols.quic import qlog
from agtphost.protocols.quic.core import reset_token
from agtphost.protocols.quic.listener import QuicListeningService
from tests.client.quic.sessions import SessionClient, call_of, credentials_of
from tests.protocols.loopback import Site
from tests.protocols.quic.network import SECRET, Network, QuicClient, QuicHost, quic_site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return quic_site(tmp_path)


def call_once(site: Site, folder: Path) -> Any:
    """Make a call over a connection that is traced, close it, and return the host's side of it."""
    network = Network()
    host = QuicHost(network, site, qlog=folder)
    client = SessionClient(network, credentials_of(site)).connect()
    assert client.call(call_of()).status == 200
    [core] = [link.core for link in host.endpoint._links]
    core.release = lambda: None  # type: ignore[method-assign]  # Tests look at what it was at its end.
    client.close()
    network.run(lambda: host.endpoint.links == 0)
    return core


def entries(file: Path) -> list[dict[str, Any]]:
    return [json.loads(each) for each in file.read_bytes().split(b"\x1e")[1:]]


def test_a_connection_is_traced(site: Site, tmp_path: Path) -> None:
    """Each packet of both sides is in the file, which is closed with the connection, and no token is."""
    folder = tmp_path / "traces"
    core = call_once(site, folder)
    [file] = folder.iterdir()
    head, *events = entries(file)
    assert (head["qlog_format"], head["trace"]["vantage_point"]["type"]) == ("JSON-SEQ", "server")
    frames = [frame for each in events for frame in each["data"].get("frames", ())]
    assert {"transport:packet_sent", "transport:packet_received"} <= {each["name"] for each in events}
    assert {"stream", "crypto", "new_connection_id"} <= {frame["frame_type"] for frame in frames}
    assert head["qlog_version"] == "0.3" and b"task-1" not in file.read_bytes(), "the request names its task"
    identifiers = [each.cid for each in core._host_cids]
    assert identifiers and not any(reset_token(SECRET, each).hex() in file.read_text() for each in identifiers)
    assert not any({"reset_token", "token", "stateless_reset_token"} & frame.keys() for frame in frames)
    assert core._quic_logger is None or core._quic_logger._file is None
    assert folder.stat().st_mode & 0o777 == 0o700


def test_traces_are_bounded(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In size and in number."""
    monkeypatch.setattr(qlog, "MOST_OCTETS", 3_000)
    call_once(site, tmp_path / "traces")
    [file] = (tmp_path / "traces").iterdir()
    assert 1_000 < file.stat().st_size <= 3_000 and entries(file)
    monkeypatch.setattr(qlog, "MOST_TRACES", 0)
    call_once(site, tmp_path / "none")
    assert list((tmp_path / "none").iterdir()) == []


def test_handshakes_that_fail_use_up_few_traces(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ones are kept, for who asks why they fail; further ones leave the room to connections."""
    monkeypatch.setattr(qlog, "MOST_TRACES", 4)
    monkeypatch.setattr(qlog, "MOST_FAILED", 2)
    network, folder = Network(), tmp_path / "traces"
    host = QuicHost(network, site, qlog=folder)
    for number in range(6):
        client = QuicClient(network, site, address=("198.51.100.7", number + 1))
        del network.receivers[client.address]  # It never reads the host's answer.
        network.run(lambda: host.endpoint.links == 1)
        network.run(lambda: host.endpoint.links == 0)
    assert len(list(folder.iterdir())) == 2
    for number in range(3):
        client = QuicClient(network, site, address=("198.51.100.8", number + 1)).connect()
        client.wait(client.call())
        client.close()
        network.run(lambda: host.endpoint.links == 0)
    assert len(list(folder.iterdir())) == 4


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """The host does not start."""
    (tmp_path / "file").write_text("")
    section = QuicSection(enabled=True, qlog=tmp_path / "file" / "traces")
    nothing: Any = None
    with pytest.raises(ConfigurationError) as caught:
        QuicListeningService(section, nothing, nothing, nothing, nothing, "127.0.0.1", bytes)
    assert "[quic] qlog: " in str(caught.value) and "name a directory" in str(caught.value)
