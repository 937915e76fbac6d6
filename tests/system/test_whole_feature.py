"""A feature outside the tree with a key, a method, a gate, an INSPECT target and an HTTP resource."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

import pytest

from tests.system.hosting import Host, free_port, running, sample
from tests.system.raw_link import RawLink
from tests.system.reload_host import refused, reload

MOST_FILES = 4
"""Files outside its own folder that a feature may change."""

LANTERN = """
from dataclasses import dataclass

from twisted.web.resource import Resource
from zope.interface import implementer

from agtphost.plugin import (
    Assurance, Binding, Contribution, ForeignReason, IBuiltInHandler, IFeature, IOperatorGate, PlacedGate, Refusal,
    ServedSurface, Status,
)


@dataclass(frozen=True)
class Settings:
    color: str


class Light(Resource):
    isLeaf, longest_body = True, 0
    color = ""

    def admit(self, request):
        return None

    def render_GET(self, request):
        return self.color.encode()


@implementer(IBuiltInHandler)
class Look:
    kind = "lantern"

    def __init__(self, color):
        self._color = color

    def handle(self, context):
        return {"color": self._color}


@implementer(IOperatorGate)
class Daylight:
    name = "daylight"

    def check(self, call):
        if call.path == "/noon":
            raise Refusal(ForeignReason("daylight", Status.CONFLICT), "Nobody sees a lantern at noon.")


@implementer(IFeature)
class Lantern:
    settings_schema = Settings

    def check(self, settings, config):
        return ()

    def build(self, settings, services, previous):
        light = previous or ServedSurface(name="feature.lantern", what="the lantern", resource=Light())
        light.resource.color = light.resource.color or settings.color

        async def read(context):
            return {"color": settings.color}

        look = Look(settings.color)
        return Contribution(
            bindings=[Binding.native("QUERY", path, look, "Looks.", Assurance.NONE) for path in ("/lantern", "/noon")],
            gates=[PlacedGate(gate=Daylight())],
            inspect_targets={"lantern": read},
            surfaces=[light],
            carried=light,
        )
"""

TABLE = '\n[feature.lantern]\ncolor = "red"\n[feature.lantern.http]\nlisten = "tcp:{port}:interface=127.0.0.1"\n'

PARTS = {"key", "method", "gate", "target", "HTTP"}


def install(folder: Path, source: str = LANTERN) -> dict[str, str]:
    """Write the package as an installer leaves it, and return the environment in which Python finds it."""
    made = folder / "lantern-1.0.dist-info"
    made.mkdir(parents=True)
    (folder / "lantern.py").write_text(source)
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: lantern\nVersion: 1.0\n")
    (made / "entry_points.txt").write_text("[agtphost.features]\nlantern = lantern:Lantern\n")
    return {"PYTHONPATH": str(folder)}


def digests(root: Path, folder: Path) -> Mapping[Path, str]:
    """The digest of each file below a directory that is not in the folder of the feature."""
    files = [each for each in root.rglob("*") if each.is_file() and not each.is_relative_to(folder)]
    return {each.relative_to(root): sha256(each.read_bytes()).hexdigest() for each in files}


def changed(before: Mapping[Path, str], after: Mapping[Path, str]) -> list[Path]:
    """Files that were added, removed or rewritten."""
    return sorted(each for each in before.keys() | after.keys() if before.get(each) != after.get(each))


def working_parts(host: Host, port: int) -> set[str]:
    """The parts of the feature that a running host has."""
    found = set()
    with RawLink(host) as link:
        looked = link.ask("QUERY", "/lantern", {})
        if looked.status == 200:
            found |= {"method"} | ({"key"} if looked.json()["result"] == {"color": "red"} else set())
        refusal = link.ask("QUERY", "/noon", {})
        if refusal.status == 409 and refusal.json()["reason"] == "daylight":
            found.add("gate")
        if link.ask("INSPECT", "/", {"target": "lantern"}).json().get("result") == {"color": "red"}:
            found.add("target")
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/")
        if connection.getresponse().read() == b"red":
            found.add("HTTP")
        connection.close()
    except ConnectionRefusedError:
        pass
    return found


@pytest.fixture
def lantern(tmp_path: Path) -> Iterator[tuple[Host, int]]:
    """A host with the feature, which changed at most so many files outside of its folder."""
    config, folder, port = sample(tmp_path), tmp_path / "package", free_port()
    before = digests(tmp_path, folder)
    environ = install(folder)
    config.write_text(config.read_text() + TABLE.format(port=port))
    touched = changed(before, digests(tmp_path, folder))
    assert touched == [config.relative_to(tmp_path)] and len(touched) <= MOST_FILES
    with running(config, environ=environ) as host:
        yield host, port


def test_whole_feature_changes_one_file_outside_its_folder(lantern: tuple[Host, int]) -> None:
    """All of its parts work, and a reload with another color or another listener says what it takes."""
    host, port = lantern
    assert working_parts(host, port) == PARTS
    text = host.config.read_text()
    host.config.write_text(text.replace(f'"tcp:{port}:', f'"tcp:{free_port()}:'))
    (problem,) = refused(host)
    assert "changes the HTTP surfaces of its feature, which only a start of the host takes" in problem["message"]
    host.config.write_text(text.replace('"red"', '"green"'))
    reload(host)
    assert working_parts(host, port) == {"method", "gate", "HTTP"}, "the lantern is green now"


def test_whole_feature_that_lacks_parts_is_noticed(tmp_path: Path) -> None:
    """The control: the package without its gate, target and HTTP resource, and one that needs five files."""
    source = LANTERN
    for line in ("gates=[PlacedGate(gate=Daylight())],", 'inspect_targets={"lantern": read},', "surfaces=[light],"):
        assert source.count(line) == 1
        source = source.replace(line, "")
    config, folder = sample(tmp_path), tmp_path / "package"
    before = digests(tmp_path, folder)
    environ = install(folder, source)
    config.write_text(config.read_text() + TABLE.partition("[feature.lantern.http]")[0])
    with running(config, environ=environ) as host:
        assert working_parts(host, free_port()) == {"key", "method"}
        assert host.stop() == 0
    for number in range(MOST_FILES):
        (config.parent / f"part{number}.toml").write_text("")
    after = {each: digest for each, digest in digests(tmp_path, folder).items() if "state" not in each.parts}
    assert len(changed(before, after)) > MOST_FILES
