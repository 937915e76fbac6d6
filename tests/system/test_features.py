"""A feature of a package outside the tree: checked, run by a real host, and changed by reloads under an open call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import forking
from tests.system.hosting import BIN, Host, running, sample, until
from tests.system.raw_link import RawLink, request
from tests.system.reload_host import refused, reload

FEATURE = """
from dataclasses import dataclass
from pathlib import Path

from twisted.application.service import Service
from twisted.internet.task import deferLater
from zope.interface import implementer

from agtphost.plugin import Assurance, Binding, ConfigFault, Contribution, IBuiltInHandler, IFeature


@dataclass(frozen=True)
class Settings:
    folder: Path
    word: str = "ding"
    bell: str = "brass"


class Bell(Service):
    def __init__(self, name, folder):
        self.name, self._folder = name, folder

    def startService(self):
        super().startService()
        if self.name == "cracked":
            raise RuntimeError("the bell is cracked")
        self.note("start")

    def stopService(self):
        super().stopService()
        self.note("stop")

    def note(self, what):
        with open(self._folder / "events", "a") as file:
            file.write(f"{what} {self.name}\\n")


@implementer(IBuiltInHandler)
class Ring:
    kind = "bell"

    def __init__(self, settings, reactor):
        self._settings, self._reactor = settings, reactor

    async def handle(self, context):
        if context.path == "/held":
            (self._settings.folder / "begun").touch()
            while not (self._settings.folder / "go").exists():
                await deferLater(self._reactor, 0.01)
        return {"word": self._settings.word}


@implementer(IFeature)
class Bells:
    settings_schema = Settings

    def check(self, settings, config):
        if settings.word == config.host.server_id:
            yield ConfigFault(location=("feature", "bells", "word"), message="is the name of the host")

    def build(self, settings, services, previous):
        bell = previous if previous and previous.name == settings.bell else Bell(settings.bell, settings.folder)
        ring = Ring(settings, services.reactor)

        async def read(context):
            return {"bell": bell.name, "running": bool(bell.running)}

        return Contribution(
            bindings=[Binding.native("QUERY", path, ring, "Rings.", Assurance.NONE) for path in ("/ring", "/held")],
            inspect_targets={"audit" if settings.word == "audit" else "bell": read},
            services=[bell],
            carried=bell,
        )
"""

TABLE = '\n[feature.bells]\nfolder = "{folder}"\n{more}'


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the package, as an installer leaves it."""
    target = tmp_path_factory.mktemp("target")
    (target / "bells.py").write_text(FEATURE)
    made = target / "bells-1.0.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: bells\nVersion: 1.0\n")
    (made / "entry_points.txt").write_text("[agtphost.features]\nbells = bells:Bells\n")
    return target


class Belfry:
    """A host that has the package, and the table of its feature, which changes."""

    def __init__(self, host: Host, folder: Path) -> None:
        self.host = host
        self.folder = folder
        self._plain = host.config.read_text()

    def write(self, more: str | None) -> None:
        """Write the table with further keys, or none."""
        table = "" if more is None else TABLE.format(folder=self.folder, more=more)
        self.host.config.write_text(self._plain + table)

    def events(self) -> list[str]:
        file = self.folder / "events"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def belfry(package: Path, tmp_path: Path) -> Iterator[Belfry]:
    """A host of its own, that starts without the table."""
    folder = tmp_path / "folder"
    folder.mkdir()
    with running(sample(tmp_path / "host"), environ={"PYTHONPATH": str(package)}) as host:
        yield Belfry(host, folder)


def check(config: Path, package: Path) -> tuple[int, str]:
    """What ``agtp check`` says."""
    done = forking.run([BIN / "agtp", "check", config], env={"NO_COLOR": "1", "PYTHONPATH": str(package)})
    return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('wrod = "dong"', 'wrod is unknown (did you mean "word"?)'),
        ("word = 7", "word must be text"),
        ('word = "localhost"', "word is the name of the host"),
        ('word = "audit"', "has the target 'audit' of INSPECT, which is taken"),
    ],
)
def test_agtp_check_names_a_wrong_key_with_its_line(more: str, said: str, package: Path, tmp_path: Path) -> None:
    """By the schema, by the feature's own check, and by what the host has; control: the table without the key."""
    config = sample(tmp_path)
    if more == 'word = "localhost"':
        more = f'word = "{_server_id(config)}"'
    plain = config.read_text()
    config.write_text(plain + TABLE.format(folder=tmp_path, more=""))
    assert check(config, package)[0] == 0
    config.write_text(plain + TABLE.format(folder=tmp_path, more=more))
    status, told = check(config, package)
    lines = config.read_text().splitlines()
    line = lines.index("[feature.bells]" if "audit" in more else more) + 1
    assert status == 2 and f"host.toml:{line}: [feature.bells] {said}" in told, told


def _server_id(config: Path) -> str:
    (line,) = (line for line in config.read_text().splitlines() if line.startswith("server_id"))
    return line.split('"')[1]


def test_a_table_of_no_feature_is_refused_with_its_line(package: Path, tmp_path: Path) -> None:
    """The hint has the name that is close; a feature of the host itself is none of another package."""
    for name, hint in (("bels", 'did you mean "bells"?'), ("metrics", "installed: bells")):
        config = sample(tmp_path / name, append=f"\n[feature.{name}]\n")
        status, told = check(config, package)
        line = config.read_text().splitlines().index(f"[feature.{name}]") + 1
        assert status == 2 and f"host.toml:{line}: [feature.{name}]" in told, told
        assert f"no installed package has a feature '{name}'" in told and hint in told, told


def test_a_reload_adds_changes_and_removes_a_feature_under_an_open_call(belfry: Belfry) -> None:
    """Its service starts before the switch, continues with other settings, and stops after the last call."""
    host = belfry.host
    with RawLink(host) as link, RawLink(host) as held:
        assert link.ask("QUERY", "/ring", {}).status in (404, 405, 459)
        belfry.write("")
        assert reload(host)["taken"] == ["configuration ([feature])"]
        assert belfry.events() == ["start brass"]
        assert link.ask("QUERY", "/ring", {}).json()["result"] == {"word": "ding"}
        shown = link.ask("INSPECT", "/", {"target": "bell"}).json()["result"]
        assert shown == {"bell": "brass", "running": True}
        held.send(request("QUERY", "/held", {}))
        until((belfry.folder / "begun").exists)
        belfry.write('word = "dong"\n')
        reload(host)
        assert link.ask("QUERY", "/ring", {}).json()["result"] == {"word": "dong"}
        assert belfry.events() == ["start brass"], "the same service continues"
        belfry.write('bell = "iron"\n')
        reload(host)
        assert belfry.events() == ["start brass", "start iron"], "an open call is of a configuration with the other"
        belfry.write(None)
        reload(host)
        assert link.ask("QUERY", "/ring", {}).status in (404, 405, 459)
        assert link.ask("INSPECT", "/", {"target": "bell"}).status == 422
        until(lambda: "stop iron" in belfry.events())
        assert "stop brass" not in belfry.events()
        (belfry.folder / "go").touch()
        answer = held.answer()
        assert answer is not None and answer.json()["result"] == {"word": "ding"}
        until(lambda: "stop brass" in belfry.events())
    assert belfry.events() == ["start brass", "start iron", "stop iron", "stop brass"]


def test_a_refused_candidate_leaves_nothing_of_its_feature(belfry: Belfry) -> None:
    """By its schema, by what is taken, and by a service that does not start; then a sound one is taken, and stops."""
    host = belfry.host
    belfry.write("")
    reload(host)
    with RawLink(host) as link:
        for more, said in (
            ("word = 7\n", "word must be text"),
            ('word = "audit"\nbell = "tin"\n', "of INSPECT, which is taken"),
            ('word = "dong"\nbell = "cracked"\n', "the bell is cracked"),
        ):
            belfry.write(more)
            problems = refused(host)
            assert any(said in each["message"] for each in problems), problems
            assert link.ask("QUERY", "/ring", {}).json()["result"] == {"word": "ding"}
        assert [each for each in belfry.events() if "brass" in each] == ["start brass"]
        assert "start tin" not in belfry.events()
        belfry.write('word = "dong"\n')
        reload(host)
        assert link.ask("QUERY", "/ring", {}).json()["result"] == {"word": "dong"}
    assert host.stop() == 0
    assert belfry.events()[-1] == "stop brass"


def test_a_service_that_cannot_start_keeps_the_host_from_starting(package: Path, tmp_path: Path) -> None:
    """The message has the reason; the process ends."""
    config = sample(tmp_path, append=TABLE.format(folder=tmp_path, more='bell = "cracked"\n'))
    host = Host(config, environ={"PYTHONPATH": str(package)})
    assert host.process.wait(60) != 0
    host.stop()
    assert "the service 'cracked' cannot be started" in " ".join(host.output.split())
