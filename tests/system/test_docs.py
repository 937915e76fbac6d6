"""The pages under docs/ do what they say: their commands are run as they stand there, their configuration is read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agtphost.cli.root import agtp as command
from agtphost.config.loader import examine
from tests.rows import each_row
from tests.system.hosting import Host, free_port, running, sample
from tests.system.pages import DOCS, PAGES, STATUSES, Step, blocks, blocks_of, playing, shows, steps, steps_of
from tests.system.up_host import typed

PLAYED = {
    "agis.rst": "test_agis_page.py",
    "approvals.rst": "test_approvals_page.py",
    "authority-and-messages.rst": "standard/test_authority.py",
    "client.rst": "test_client_page.py",
    "frameworks.rst": "test_client_page.py",
    "data-methods.rst": "standard/test_data_page.py",
    "emergency.rst": "test_emergency.py",
    "operators.rst": "test_emergency.py",
    "first-minutes.rst": "test_first_minutes.py",
    "gateway.rst": "test_gateway_page.py",
    "grants.rst": "test_grants.py",
    "journeys.rst": "test_journeys.py",
    "openapi.rst": "test_openapi_page.py",
    "postgresql.rst": "test_postgresql_page.py",
    "standby.rst": "test_standby_page.py",
    "quic.rst": "test_quic.py",
    "registry.rst": "test_registry_page.py",
    "search.rst": "test_search_page.py",
    "mcp-front.rst": "test_mcp_front_page.py",
    "runbook.rst": "test_runbook.py",
    "standard-methods.rst": "standard/test_collections.py",
    "checks-and-quotes.rst": "standard/test_collections.py",
    "collections.rst": "standard/test_collections.py",
    "batches.rst": "standard/test_orchestration.py",
    "workflows.rst": "standard/test_orchestration.py",
}
"""Pages that need more than the sample host, and the modules that play them."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The sample host with a page, for all pages."""
    page = f'\n[admin]\nlisten = "ssl:{free_port()}:interface=127.0.0.1"\n'
    with running(sample(tmp_path_factory.mktemp("docs"), append=page)) as started:
        yield started


def test_there_are_pages() -> None:
    """And most of them have commands."""
    assert len(PAGES) >= 2
    assert sum(bool(steps(page)) for page in PAGES) >= 1


@each_row("page", [page for page in PAGES if steps(page) and page not in PLAYED])
def test_the_commands_of_a_page(page: str, host: Host) -> None:
    """One after the other, in the deployment's directory."""
    with playing(steps(page)) as player:
        for step in steps(page):
            shows(step, *player.type(step, host.config.parent))


def unplayed(pages: dict[str, str], players: dict[str, str]) -> list[str]:
    """
    Pages with commands that are typed neither by the test above nor by a module of their own in the same way.

    :param pages: names, and texts.
    :param players: the same of the modules of :data:`PLAYED`.
    """
    return [
        page
        for page, text in pages.items()
        if any(steps_of(block) for block in blocks_of(text))
        and page in PLAYED
        and not (" playing(" in (module := players.get(PLAYED[page], "")) and f'"{page}"' in module)
    ]


def test_every_page_is_typed_in_the_one_way() -> None:
    """
    As by somebody who has just come: :func:`playing` fails where a command of the page was not typed so, and nothing
    else has a page's commands. A page that nobody names is played by the test above.
    """
    players = {name: (Path(__file__).parent / name).read_text() for name in PLAYED.values()}
    pages = {name: (DOCS / name).read_text() for name in PAGES}
    assert unplayed(pages, players) == []
    assert set(PLAYED) <= {page for page in PAGES if steps(page)}
    # The control: a module that has the page and types it in another way, and one that types another page.
    other = {**players, "test_grants.py": 'PAGE = "grants.rst"\nfor step in steps(PAGE):\n    agtp(step.command)\n'}
    assert unplayed(pages, other) == ["grants.rst"]
    assert unplayed(pages, {**players, "test_grants.py": players["test_journeys.py"]}) == ["grants.rst"]


def test_a_command_that_is_not_typed_is_noticed(tmp_path: Path) -> None:
    """The control: one is left out, one is typed too early; again may be what had to be waited for."""
    one, two = steps_of("$ true\n$ echo two\ntwo")
    with playing([one, two]) as player:
        assert player.type(one, tmp_path) == (0, "")
        assert player.type(two, tmp_path) == player.type(two, tmp_path) == (0, "two\n")
    for wrong in ([one], [two, one], []):
        with pytest.raises(AssertionError, match="not every command"), playing([one, two]) as player:
            for step in wrong:
                player.type(step, tmp_path)


def test_who_types_has_just_come(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of who runs the tests: no variable, no home, no program; and the usual port is another host's."""
    folder = tmp_path / "etc"
    folder.mkdir()
    monkeypatch.setenv("AGTPHOST_STATE_DIR", "/nowhere")
    assert host.agtp("audit", "verify").returncode == 0, "so are all that tests/system/hosting.py starts"
    ((step),) = steps_of("$ env && ls -A ~ && exec 3<>/dev/tcp/127.0.0.1/$AGTPHOST_PORT")
    with playing([step]) as player:
        status, said = player.type(step, folder)
    assert status == 0, said
    told = dict(line.partition("=")[::2] for line in said.splitlines())
    assert {*told} - {"PWD", "SHLVL", "_"} == {"PATH", "HOME", "NO_COLOR", "LANG", "AGTPHOST_PORT"}
    assert Path(told["HOME"]) not in (Path.home(), folder) and not told["PATH"].count(str(Path.home() / ".local"))
    assert {"/usr/bin", "/bin"} < set(told["PATH"].split(":")) and len(told["PATH"].split(":")) <= 6


NAMES = ("notify.groups", "notify.people")
"""Tables whose keys are names of the operator's choice."""


def snippets() -> list[tuple[str, str]]:
    """Every block that is a piece of host.toml."""
    return [(page, block) for page in PAGES for block in blocks(page) if re.match(r"\[\[?[a-z]", block)]


def checked(file: Path) -> Result:
    """``agtp check``, in this process: there are dozens of pieces."""
    return CliRunner().invoke(command, ["check", str(file)], prog_name="agtp")


@each_row(("page", "snippet"), snippets)
def test_every_piece_of_configuration_is_read(page: str, snippet: str, tmp_path: Path) -> None:
    """``agtp check`` knows each section and key that a page names; what it finds wrong is never a name."""
    file = tmp_path / "host.toml"
    file.write_text(f'[host]\nserver_id = "localhost"\nprofile = "development"\n\n{snippet}\n')
    said = checked(file)
    assert "not a known" not in said.output and "unknown" not in said.output, said.output
    tables = re.findall(r"^\[+([a-z0-9_.]+)\]+", snippet, flags=re.MULTILINE)
    if tables[-1] in NAMES:
        return
    key = re.findall(r"^([a-z_]+) =", snippet, flags=re.MULTILINE)[-1]
    file.write_text(file.read_text().replace(f"\n{key} =", f"\n{key}x ="))
    # What `agtp check` begins with, and all that it does about such a key.
    assert any(f"{key}x" in problem.message for problem in examine(file).problems)


def test_control_an_output_that_is_not_shown_is_noticed(host: Host) -> None:
    """The comparison fails where a page promises what no command says."""
    status, output = typed(host.config.parent, "agtp can demo DISCOVER /methods")
    assert status == 0 and "no: demo may not" not in output
    with pytest.raises(AssertionError, match="is not shown by"):
        shows(Step("agtp can demo DISCOVER /methods", 0, ("no: demo may not...",)), status, output)


@each_row(
    ("shown", "line", "alike"),
    [
        ("status  active", "  status           active", True),
        ("active", "status           active", False),
        ("record verified: 3984...", "record verified: 939150cea39a2ccdf07e9be4df78fdd4", True),
        ("record verified: 3984...", "record verified: none", False),
        ("2  2026-...Z  active", "2    2029-11-28T17:05:04.218Z  active", True),
        ("2  2026-...Z  active", "2    never  active", False),
        ("has version ...; run ...", "has version 12; run a later one", True),
        ("has version ...; run ...", "has version 12, run a later one", False),
    ],
)
def test_a_line_of_a_page_is_whole_or_says_where_it_is_cut(shown: str, line: str, alike: bool) -> None:
    """A fragment of a line is no line; identifiers and times are any of their kind."""
    step = Step("true", 0, ("before", shown))
    if alike:
        shows(step, 0, f"before\nbetween\n{line}\n")
        return
    with pytest.raises(AssertionError, match="is not shown by"):
        shows(step, 0, f"before\nbetween\n{line}\n")


def test_no_page_has_marks_of_exit_statuses() -> None:
    """
    Statuses other than 0 are in ``exit_statuses.toml``, where each row is of a command that a page has so many times.

    A reader took ``# 1`` behind a command for a part of it.
    """
    assert [step.command for page in PAGES for step in steps(page) if re.search(r"  # \d+$", step.command)] == []
    for page, statuses in STATUSES.items():
        found = Counter(step.command for step in steps(page))
        assert {command: found[command] for command in statuses} == {key: len(each) for key, each in statuses.items()}
        assert all(map(any, statuses.values())), page
