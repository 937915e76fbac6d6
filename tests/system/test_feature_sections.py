"""Sections of the host's own features, added, changed and removed by reloads under an open call; one test for all."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from agtphost.host.feature_loading import HOST_FEATURES
from tests.identity.samples import key_of
from tests.system.hosting import Host, free_port, running, until
from tests.system.raw_link import RawLink, request
from tests.system.reload_host import changing, refused, reload


@dataclass(frozen=True, kw_only=True)
class Case:
    """The section of one feature."""

    name: str
    table: str
    """With ``{port}`` where it listens."""

    change: tuple[str, str]
    """A replacement in the table, after which it says something else."""

    wrong: tuple[str, str]
    """A replacement after which it is refused."""

    waiting: str
    """What a reload that adds or removes the section says waits for a restart."""

    is_taken: bool = False
    """Whether a reload takes the change; else it waits, too."""

    serves: Callable[[RawLink, int], bool] | None = None
    """Returns whether the feature is there; None where only another machine could tell."""


def bound(method: str, path: str) -> Callable[[RawLink, int], bool]:
    """A question whether a method is bound on a path."""
    return lambda link, port: link.ask(method, path, {}).status not in (404, 405, 459)


def answers(path: str, status: int) -> Callable[[RawLink, int], bool]:
    """A question whether something answers GET over HTTP with a status."""

    def ask(link: RawLink, port: int) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == status
        except ConnectionRefusedError:
            return False
        finally:
            connection.close()

    return ask


CASES = (
    Case(
        name="traces",
        table='[traces]\nendpoint = "http://127.0.0.1:9"\nagents = true\n',
        change=("true", "false"),
        wrong=("true", "7"),
        waiting="[traces]",
    ),
    Case(
        name="metrics",
        table='[metrics]\nlisten = "tcp:{port}:interface=127.0.0.1"\nagents = true\n',
        change=("true", "false"),
        wrong=("true", "7"),
        waiting="[metrics]",
        serves=answers("/healthz", 200),
    ),
    Case(
        name="witness",
        table=f'[[witness.logs]]\norigin = "a.example"\nkey = "{key_of("log").public.text}"\n',
        change=("a.example", "b.example"),
        wrong=('"a.example"', "7"),
        waiting="[witness]",
        serves=bound("QUERY", "/checkpoints"),
    ),
    Case(
        name="admin",
        table='[admin]\nlisten = "ssl:{port}:interface=127.0.0.1"\nwrites = true\n',
        change=("true", "false"),
        wrong=("true", "7"),
        waiting="[admin] listen",
        is_taken=True,
        serves=bound("QUERY", "/page"),
    ),
    Case(
        name="mcp",
        table='[mcp.front]\nlisten = "tcp:{port}:interface=127.0.0.1"\nanonymous = "demo"\nsearch = true\n',
        change=("true", "false"),
        wrong=("true", "7"),
        waiting="[mcp] front",
        serves=answers("/nothing", 404),
    ),
    Case(
        name="gateway",
        table='[gateway]\nlisten = "tcp:{port}:interface=127.0.0.1"\nstream = true\n',
        change=("true", "false"),
        wrong=("true", "7"),
        waiting="[gateway] listen",
        is_taken=True,
        serves=answers("/.well-known/api-catalog", 200),
    ),
    Case(
        name="registry",
        table='[registry]\nlisten = "tcp:{port}:interface=127.0.0.1"\npath = "/registry"\nforget_days = 2\n',
        change=("= 2", "= 3"),
        wrong=("= 2", '= "two"'),
        waiting="[registry] listen",
        is_taken=True,
        serves=answers("/registry/agents", 200),
    ),
    Case(
        name="a2a",
        table='[a2a.front]\nlisten = "tcp:{port}:interface=127.0.0.1"\nagent_id = "demo"\ntimeout = 20\n'
        '[[a2a.front.agent]]\nname = "librarian"\n',
        change=("20", "30"),
        wrong=("20", '"long"'),
        waiting="[a2a] front",
        serves=answers("/nothing", 404),
    ),
)


def test_every_feature_has_a_case() -> None:
    """One that becomes a feature later is tested as well."""
    assert sorted(case.name for case in CASES) == sorted(HOST_FEATURES)


class Sections:
    """
    A host, and the sections of its features, which change.

    :param tables: by the names of the cases, those that the host starts with.
    """

    def __init__(self, config: Path, tables: dict[str, str]) -> None:
        self._config, self._plain, self._tables = config, config.read_text(), tables
        self.ports = {case.name: free_port() for case in CASES}
        self.write("", None)

    def write(self, name: str, table: str | None) -> None:
        """Write the file with another table of one feature, or without it."""
        tables = {**self._tables, name: table}
        texts = [text.format(port=self.ports[each]) for each, text in tables.items() if text is not None]
        self._config.write_text("\n".join([self._plain, *texts]))

    @contextmanager
    def open_call(self, host: Host, folder: Path) -> Iterator[None]:
        """Keep a call open meanwhile, which began under the configuration before, and must be answered by it."""
        begun, go = folder / "begun", folder / "go"
        with RawLink(host) as held:
            held.send(request("FETCH", "/wait", {"begun": str(begun), "file": str(go)}))
            until(begun.exists)
            yield
            go.touch()
            answer = held.answer()
            assert answer is not None and answer.json()["result"] == {"done": True}


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Sections]]:
    """A host that starts without any of the sections."""
    config = changing(tmp_path_factory.mktemp("without"))
    sections = Sections(config, {})
    with running(config) as host:
        yield host, sections


@pytest.fixture(scope="module")
def having(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Sections]]:
    """A host that starts with all of them."""
    config = changing(tmp_path_factory.mktemp("having"))
    sections = Sections(config, {case.name: case.table for case in CASES})
    with running(config) as host:
        yield host, sections


def refuse_wrong(host: Host, sections: Sections, case: Case) -> None:
    """Have a wrong candidate refused with the section."""
    sections.write(case.name, case.table.replace(*case.wrong))
    problems = refused(host)
    assert any(case.name in each["message"] for each in problems), problems


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_section_that_a_reload_adds_waits(case: Case, without: tuple[Host, Sections], tmp_path: Path) -> None:
    """The feature is not there before the restart; a refused candidate and the removal leave nothing of it."""
    host, sections = without
    with RawLink(host) as link, sections.open_call(host, tmp_path):
        sections.write(case.name, case.table)
        assert case.waiting in reload(host)["waiting"]
        refuse_wrong(host, sections, case)
        assert case.serves is None or not case.serves(link, sections.ports[case.name])
        sections.write(case.name, None)
        assert reload(host)["waiting"] == []
        assert case.serves is None or not case.serves(link, sections.ports[case.name])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_section_that_a_reload_changes_continues(case: Case, having: tuple[Host, Sections], tmp_path: Path) -> None:
    """A change is taken or waits, a removal waits, and a refused candidate changes nothing; the feature is there."""
    host, sections = having
    with RawLink(host) as link, sections.open_call(host, tmp_path):
        sections.write(case.name, case.table.replace(*case.change))
        told = reload(host)
        if case.is_taken:
            assert told["taken"] == [f"configuration ([{case.name}])"] and told["waiting"] == []
        else:
            assert told["taken"] == [] and told["waiting"] == [case.waiting]
        refuse_wrong(host, sections, case)
        assert case.serves is None or case.serves(link, sections.ports[case.name])
        sections.write(case.name, None)
        assert case.waiting in reload(host)["waiting"]
        assert case.serves is None or case.serves(link, sections.ports[case.name])
        sections.write(case.name, case.table)
        assert reload(host)["waiting"] == []
