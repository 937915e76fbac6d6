"""Every command that the documentation shows is run by a test, and this list says by which."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import click
import pytest
from click.testing import CliRunner

from agtphost.cli.root import COMMANDS, agtp
from agtphost.contract.service import UPSTREAM_ERRORS
from tests import forking
from tests.rows import each_row
from tests.supply.test_supply import PROJECT
from tests.system.up_host import module

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.rst")), *(ROOT / name for name in ("README.rst", "CONTRIBUTING.rst"))]
PAGES = [page for page in PAGES if page.parent.name != "changes" and page.name not in ("configuration.rst",)]
TEXTS = [*PAGES, ROOT / "SECURITY.md", ROOT / "docs" / "configuration.rst"]

README = "tests/system/test_readme.py::"
TRY_IT = README + "test_try_it_line_by_line"
SELECTION = "tests/docs/test_commands.py::test_a_selection_of_tests_is_not_empty"
CONTAINER = "tests/supply/test_supply.py::test_the_commands_of_the_container_recipe_work"

CHART = "tests/supply/test_chart.py::"
COMPOSE = "tests/supply/test_container.py::test_what_compose_runs_works"

RUN_BY: dict[tuple[str, str], str] = {
    ("docs/a2a.rst", "-32005 This agent takes data"): "tests/a2a/test_front_text.py::",
    ("docs/a2a.rst", "note: [a2a.front] no call of agent planner is"): "tests/host/test_client_reach.py::"
    "test_clients_that_cannot_call_a_relayed_agent_are_told",
    ("docs/mcp-front.rst", "note: [mcp.front] no tool of files is shown to"): "tests/host/test_client_reach.py::"
    "test_clients_that_reach_no_tool_are_told",
    ("README.rst", "python3 -m venv .venv && .venv/bin/pip install -q '.[samples]'"): README
    + "test_the_start_commands_install_and_start",
    ("README.rst", "cd demo && export PATH="): TRY_IT,
    ("README.rst", "agtp tools "): TRY_IT,
    ("README.rst", "agtp audit "): TRY_IT,
    ("README.rst", "agtp agent "): TRY_IT,
    ("README.rst", "agtp up my-tools"): README + "test_two_commands_to_an_editor",
    ("README.rst", "agtp client connect"): README + "test_two_commands_to_an_editor",
    ("README.rst", "python3 -m venv .venv && .venv/bin/pip install -q --require-hashes"): README
    + "test_ci_runs_the_documented_command",
    ("README.rst", "agtp init my-host"): README + "test_init_makes_the_documented_deployment",
    ("README.rst", "twistd -n agtp --config my-host/host.toml"): "tests/system/test_new_host.py::",
    ("CONTRIBUTING.rst", "python3 -m venv .venv &&"): README + "test_ci_runs_the_documented_command",
    ("CONTRIBUTING.rst", ".venv/bin/python -m pytest "): SELECTION,
    ("CONTRIBUTING.rst", ".venv/bin/python -m ruff check ."): "tests/test_static.py::test_ruff_finds_nothing",
    ("CONTRIBUTING.rst", ".venv/bin/python -m ruff format --check ."): "tests/test_static.py::"
    "test_the_formatter_changes_nothing",
    (
        "CONTRIBUTING.rst",
        ".venv/bin/python -m mypy --no-error-summary",
    ): "tests/test_static.py::test_mypy_finds_nothing",
    ("CONTRIBUTING.rst", ".venv/bin/python docs/generate.py"): "tests/docs/test_commands.py::test_the_generator_is_run",
    (
        "CONTRIBUTING.rst",
        ".venv/bin/python -m sphinx -W --keep-going -b html docs build/site",
    ): "tests/docs/test_site.py::test_every_page_is_in_the_site",
    ("docs/a2a.rst", "agtp upstreams "): "tests/system/test_web_upstreams.py::",
    ("docs/approvals.rst", "import sys"): "tests/system/test_approvals_page.py::test_the_program_waits",
    ("docs/client.rst", "import sys"): "tests/system/test_merchant.py::test_the_pages_buyer_buys",
    ("docs/quic.rst", "from agtphost"): "tests/system/test_quic.py::test_the_page_is_played",
    ("docs/frameworks.rst", "import asyncio"): "tests/system/test_client_page.py::test_a_framework_uses_governed_tools",
    **{
        ("docs/client.rst", beginning): "tests/system/test_client_page.py::test_a_program_prints_what_the_page_shows"
        for beginning in ("from agtphost", "from pathlib", "from threading", "import asyncio")
    },
    ("docs/client.rst", "from twisted"): "tests/system/test_client_page.py::test_a_program_prints_what_the_page_shows",
    ("docs/operations.rst", "agtp agent new desk --hosted --package"): "tests/cli/test_identity_commands.py::",
    ("docs/operations.rst", "AGTPHOST_LOG_FILE="): "tests/system/test_operation.py::"
    "test_the_log_is_for_the_hosts_user_alone",
    **{
        ("docs/metrics.rst", beginning): "tests/system/test_metrics.py::test_the_page_shows_what_a_host_says"
        for beginning in ("curl -s ", '{"status":', "agtphost_")
    },
    **{
        (
            "docs/http.rst",
            beginning,
        ): "tests/system/test_http_listeners.py::test_the_pages_command_shows_what_a_host_says"
        for beginning in ("curl -s ", "HTTP/1.1 421")
    },
    ("docs/recipes.rst", 'definitions = "stripe'): "tests/contract/test_definitions.py::",
    ("docs/recipes.rst", 'type = "external_service"'): "tests/docs/test_commands.py::"
    "test_the_handler_of_an_external_service_is_read",
    **{
        ("docs/testing.rst", beginning): "tests/testing/test_fixture.py::test_the_pages_example_passes"
        for beginning in ("from agtphost import", "method = ", "import pytest")
    },
    ("docs/testing.rst", "host = agtp_host()"): "tests/testing/test_memory_host.py::",
    **{
        ("docs/agis-publication.rst", beginning): "tests/contract/test_for_tools.py::"
        "test_both_reach_the_manifest_and_the_tool"
        for beginning in ("mcp_tool_name = ", "parameter_hints = ")
    },
    ("docs/extending/index.rst", "pip install ./shelf"): "tests/system/test_plugins.py::test_a_handler_answers",
    ("docs/extending/index.rst", "agtp check host.toml"): "tests/system/test_plugins.py::"
    "test_a_plugin_that_cannot_be_used_is_told_with_its_line",
    ("docs/extending/index.rst", "host.toml:57:"): "tests/system/test_plugins.py::"
    "test_a_wrong_setting_is_told_with_its_key_and_line",
    ("docs/testing.rst", "host = agtp_host("): "tests/testing/test_waiting_handlers.py::"
    "test_gates_and_observers_of_plugins_are_given_to_the_host",
    ("CONTRIBUTING.rst", ".venv/bin/python -m tests.supply release"): "tests/supply/test_release.py::"
    "test_wheel_and_sdist_install_and_tell_the_story",
    ("docs/extending/adapter.rst", "agtp call - EXECUTE"): "tests/system/test_plugins.py::test_an_adapter_carries",
    # No container is built where the tests run: they run what its recipe runs.
    ("docs/supply-chain.rst", "podman "): CONTAINER,
    **{
        ("docs/supply-chain.rst", beginning): COMPOSE
        for beginning in ("agtp init deployment", "chown ", "docker compose up", "docker compose exec")
    },
    **{
        ("docs/standby.rst", beginning): CHART + "test_the_deployment_of_the_page_is_sound"
        for beginning in ("agtp init deployment", "mv deployment/", "touch ", "echo /keys/", "sed -i ", "openssl rand")
    },
    # Neither a container nor a cluster is started where the tests run, as the page says: they check what these name.
    ("docs/standby.rst", "chown "): COMPOSE,
    ("docs/standby.rst", "docker compose "): "tests/supply/test_container.py::test_the_compose_file_is_one",
    **{
        ("docs/standby.rst", beginning): CHART + "test_the_commands_of_the_page_name_what_the_chart_has"
        for beginning in ("helm ", "kubectl ")
    },
    **{
        ("docs/traces.rst", beginning): "tests/system/test_traces.py::test_the_pages_commands_show_the_trace"
        for beginning in ("agtp call - ECHO", "agtp explain")
    },
    ("docs/threats.rst", "python -m tests.attacks"): "tests/attacks/test_programme.py::test_the_host_withstands",
}
"""Page and beginning of a line to the test, or the module of tests, that runs it."""

SOURCES = ("from ", "import ", "type = ", "method = ", "host = ")
"""What a file begins with whose text a page shows: it is known by its first line."""

SHOWN: dict[str, tuple[str, ...]] = {
    "README.rst": ("MCP clients ----",),
    "docs/agis.rst": ("on: pull_request",),
    "docs/bridge.rst": ('{"code": -32010,',),
    "docs/first-minutes.rst": ("{",),
    "docs/evidence.rst": ("1,204 refusals of agent-unauthenticated",),
    "docs/mcp-front.rst": ('{"jsonrpc"', "url = "),
    "docs/metrics.rst": ("scrape_configs:", '{"kind":"agtp"'),
    "docs/operations.rst": ("AGTP-Agent-Warning: deprecated;", '{"time":'),
    "docs/traces.rst": ("trace    {",),
    "docs/design/interface.rst": ("ca.pem ",),
    "docs/architecture.rst": ("  agents (TLS 1.3, client certificates)", "agents (TLS 1.3, client certificates)"),
}
"""Blocks that are no commands: what a host says, and drawings."""


def blocks(text: str) -> list[str]:
    """The literal blocks of a page, without their indentation."""
    return [dedent(block).strip("\n") for block in re.findall(r"::\n\n((?:(?: {4}.*)?\n)+?)(?=\S|\Z)", text + "\n")]


def commands(page: str, text: str) -> Iterator[str]:
    """
    The lines of a page that nothing else runs by their form alone.

    ``tests/system/test_docs.py`` runs ``$`` lines of the pages under docs/ and reads their pieces of host.toml, and
    ``tests/system/test_readme.py`` those of the README.
    """
    for block in blocks(text):
        if (page.startswith("docs/") and page.count("/") == 1 and block.startswith("$ ")) or re.match(
            r"\[\[?[a-z]", block
        ):
            continue
        if any(block.startswith(beginning) for beginning in SHOWN.get(page, ())):
            continue
        if block.startswith(SOURCES):
            yield block.splitlines()[0]
        else:
            yield from (line for line in block.replace("\\\n", " ").splitlines() if line)


def unknown(page: str, text: str) -> list[str]:
    """Lines that no test is named for."""
    known = [beginning for where, beginning in RUN_BY if where == page]
    return [line for line in commands(page, text) if not any(line.startswith(each) for each in known)]


@each_row("page", [str(page.relative_to(ROOT)) for page in PAGES])
def test_a_test_is_known_for_every_command(page: str) -> None:
    """Whoever adds a command to a page says which test runs it."""
    assert unknown(page, (ROOT / page).read_text()) == []


def test_an_unknown_command_is_noticed() -> None:
    """The control: in a page of its own kind, and in one below docs/design, whose lines nothing runs by their form."""
    planted = "Title\n=====\n\nDo this::\n\n    {}agtp tools ls --loudly\n\nAnd go on.\n"
    assert unknown("docs/mcp.rst", planted.format("")) == ["agtp tools ls --loudly"]
    assert unknown("docs/mcp.rst", planted.format("$ ")) == []
    assert unknown("docs/design/security.rst", planted.format("$ ")) == ["$ agtp tools ls --loudly"]


@each_row("key", list(RUN_BY), ids=lambda key: " ".join(key))
def test_what_is_known_is_there(key: tuple[str, str]) -> None:
    """The line still stands in its page, and the test in its module."""
    page, beginning = key
    assert any(line.startswith(beginning) for line in commands(page, (ROOT / page).read_text()))
    module, _, name = RUN_BY[key].partition("::")
    defined = [
        node.name for node in ast.walk(ast.parse((ROOT / module).read_text())) if isinstance(node, ast.FunctionDef)
    ]
    assert any(each.startswith("test_") for each in defined)
    assert not name or name in defined


def inline(text: str) -> list[list[str]]:
    """Commands inside the text, as words: in double back quotes (in Markdown, in single ones)."""
    found = re.findall(r"``?((?:agtp|python -m|pip install|twistd|requirements/lock) ?[^`]*)``?", text)
    return [re.sub(r"\s+", " ", each).strip().split(" ") for each in found]


def wrong(words: list[str]) -> str:
    """What is wrong with a command that the text names; empty where it exists with its options."""
    if words[0] == "python":
        module = words[2] if words[1] == "-m" else ""
        return "" if not module or importlib.util.find_spec(module) else f"no module {module}"
    if words[:2] == ["pip", "install"]:
        extra = re.search(r"\[([a-z,]+)\]", words[-1])
        asked = set(extra.group(1).split(",")) if extra else set()
        return "" if asked <= set(PROJECT["optional-dependencies"]) else f"no extra {asked}"
    if words[0] == "requirements/lock":
        return "" if os.access(ROOT / words[0], os.X_OK) else "not a command"
    if words[0] != "agtp":
        return ""
    command: click.Command = agtp
    context = click.Context(command)
    rest = words[1:]
    while isinstance(command, click.Group) and rest and re.fullmatch(r"[a-z][a-z-]*", rest[0]):
        found = command.get_command(context, rest[0])
        if found is None:
            return f"no command {' '.join(words[: len(words) - len(rest) + 1])}"
        command, rest = found, rest[1:]
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    said = {word.partition("=")[0] for word in rest if word.startswith("--")}
    return f"no option {sorted(said - options)}" if said - options - {"--help"} else ""


@each_row("page", [str(page.relative_to(ROOT)) for page in TEXTS])
def test_commands_inside_the_text_exist(page: str) -> None:
    """Each ``agtp`` command with its options, each module, extra and script that a sentence names."""
    found = {" ".join(words): wrong(words) for words in inline((ROOT / page).read_text())}
    assert {words: why for words, why in found.items() if why} == {}


@each_row("text", ["agtp tools lst", "agtp check --asc", "python -m tests.attack", "pip install 'agtphost[x]'"])
def test_a_command_that_does_not_exist_is_noticed(text: str) -> None:
    """The control."""
    (words,) = inline(f"Run ``{text}``.")
    assert wrong(words)


CONTRIBUTING = (ROOT / "CONTRIBUTING.rst").read_text()
SELECTIONS = [line for block in blocks(CONTRIBUTING) for line in block.splitlines() if " -m pytest " in line]


def test_a_selection_of_tests_is_not_empty() -> None:
    """
    What CONTRIBUTING.rst shows collects tests (and its smallest runs them, below). Not ``--programmes`` of the whole
    suite: collecting all of it takes a minute, and it is the same option. Lines with the same options are collected at
    once, and each of their paths has tests.
    """
    together: dict[tuple[str, ...], set[str]] = {}
    for line in SELECTIONS:
        words = line.split()[3:]
        paths = {word for word in words if word.startswith("tests/")}
        if paths and "-k" not in words:
            together.setdefault(tuple(word for word in words if word not in paths), set()).update(paths)
    assert len(together) >= 2
    for options, paths in together.items():
        asked = module("pytest", *options, *sorted(paths), "-n", "0", "--collect-only", "-q")
        done = forking.run(asked, cwd=ROOT, timeout=300)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        assert re.search(r"^[1-9][0-9/]* tests collected", done.stdout, re.MULTILINE), done.stdout[-2000:]
        for path in paths:
            assert re.search(rf"^{re.escape(path)}\b.*::", done.stdout, re.MULTILINE), path


@pytest.mark.release
def test_the_smallest_selection_runs() -> None:
    """By word, as documented."""
    (line,) = [line for line in SELECTIONS if " -k " in line]
    program, option, *words = line.split()
    assert (program, option) == (".venv/bin/python", "-m")
    done = forking.run(module(*words), cwd=ROOT, timeout=300)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]


PAGES_WITH_TABLES = (
    "docs/architecture.rst",
    "docs/audit-search.rst",
    "docs/standard-methods.rst",
    "docs/supply-chain.rst",
)


def test_the_generator_is_run(tmp_path: Path) -> None:
    """In a copy, from pages that are gone: it writes what is here."""
    (tmp_path / "docs" / "changes").mkdir(parents=True)
    for name in (
        "generate.py",
        "endpoint_reference.py",
        "endpoint-members.toml",
        "examples.toml",
        *(f"changes/{each.name}" for each in ROOT.glob("docs/changes/*.rst")),
    ):
        (tmp_path / "docs" / name).write_text((ROOT / "docs" / name).read_text())
    (tmp_path / "tests").mkdir()
    for name in (*("CHANGELOG.rst", "SECURITY.md", "pyproject.toml", "tests/test_layering.py"), *PAGES_WITH_TABLES):
        (tmp_path / name).write_text((ROOT / name).read_text())
    done = subprocess.run([sys.executable, "docs/generate.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in ("CHANGELOG.rst", "docs/configuration.rst", *PAGES_WITH_TABLES):
        assert (tmp_path / name).read_text() == (ROOT / name).read_text()


def test_the_handler_of_an_external_service_is_read(tmp_path: Path) -> None:
    """The piece of an endpoint's file in docs/recipes.rst, as ``[handler]`` of a whole one, passes ``agtp check``."""
    (piece, *_) = [
        block for block in blocks((ROOT / "docs" / "recipes.rst").read_text()) if block.startswith("type = ")
    ]
    (tmp_path / "endpoints").mkdir()
    (tmp_path / "host.toml").write_text(
        '[host]\nserver_id = "localhost"\nprofile = "development"\n\n'
        '[listen]\nport = 0\n\n[endpoints]\ndirectory = "endpoints"\n'
    )
    whole = (ROOT / "etc" / "endpoints" / "library.toml").read_text()
    for old, new in (
        ("/library/{isbn}", "/orders/{order_id}"),
        ("isbn", "order_id"),
        ('["book_unknown"]', str(["order_unknown", *UPSTREAM_ERRORS]).replace("'", '"')),
    ):
        whole = whole.replace(old, new)
    endpoint = re.sub(r"(?<=\[handler\]\n)(.+\n)+", piece + "\n", whole)
    assert piece in endpoint and "handlers.library" not in endpoint
    file = tmp_path / "endpoints" / "orders.toml"
    file.write_text(endpoint)
    words, environ = ["check", str(tmp_path / "host.toml")], {"ORDERS_TOKEN": "Bearer x"}
    done = CliRunner().invoke(agtp, words, prog_name="agtp", env=environ)
    assert done.exit_code == 0, done.output
    file.write_text(endpoint.replace("timeout_seconds", "timeout_secs"))
    broken = CliRunner().invoke(agtp, words, prog_name="agtp", env=environ)
    assert broken.exit_code == 2 and "timeout_secs" in broken.output


def told_commands(source: str) -> list[list[str]]:
    """Return the ``agtp`` commands that the texts of a module name, as words; what is filled in counts as a value."""
    found = re.findall(r"(?<![\w:/.-])agtp ([a-z][a-z-]*(?: [^`\n;,()&]+)?)", source)
    words = [["agtp", *(word.strip("'\".") for word in re.sub(r'" *f?"', "", each).split())] for each in found]
    return [each for each in words if each[1] in COMMANDS and "{verb}" not in each]


def test_commands_that_messages_name_exist() -> None:
    """A remedy, a refusal or a help text names only commands and options that there are."""
    told = {
        (path.name, *words): wrong(words)
        for path in sorted((ROOT / "agtphost").rglob("*.py"))
        for words in told_commands(path.read_text())
    }
    assert len(told) > 100
    assert {words: why for words, why in told.items() if why} == {}


def test_a_message_with_an_absent_command_is_noticed() -> None:
    """The control: a verb and an option that do not exist, after text that names no command."""
    source = 'raise Refusal(f"{name} runs agtp and so on; `agtp agent creat {name}`, or agtp check --asc.")'
    assert [wrong(words) for words in told_commands(source)] == ["no command agtp agent creat", "no option ['--asc']"]
