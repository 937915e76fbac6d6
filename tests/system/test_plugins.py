"""The package of ``docs/extending``, built from the pages as they stand, installed apart, and used by a real host."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from tests import forking
from tests.system.hosting import BIN, Host, running, sample, until
from tests.system.up_host import module

PAGES = Path(__file__).resolve().parents[2] / "docs" / "extending"

BLOCK = re.compile(r"^\.\. code-block:: (?:python|toml)\n\n((?:    .*\n|\n)+)", re.MULTILINE)
NAME = re.compile(r"# (\S+)\n")
SHELF_LIST = "application/vnd.example.shelf-list+json"


def blocks() -> dict[str, str]:
    """The pages' pieces of code by the file that their first line names; those of one file one after the other."""
    found: dict[str, str] = {}
    for page in sorted(PAGES.glob("*.rst")):
        for block in BLOCK.findall(page.read_text(encoding="utf-8")):
            text = dedent(block).strip() + "\n"
            named = NAME.match(text)
            assert named is not None, f"{page.name}: a piece of code names no file"
            found[named[1]] = found.get(named[1], "") + "\n" + text
    return found


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's own tree."""
    source = tmp_path_factory.mktemp("source")
    for name, text in blocks().items():
        if name.endswith(".py") or name == "pyproject.toml":
            file = source / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
    (source / "shelf" / "__init__.py").write_text("")
    (source / "endpoints").mkdir()
    (source / "endpoints" / "shelf.toml").write_text(blocks()["endpoints/shelf.toml"], encoding="utf-8")
    return source


@pytest.fixture(scope="module")
def installed(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that the package is installed in, and nothing else."""
    target = tmp_path_factory.mktemp("target")
    # As the page says, but for the directory; what it depends on is the tree that is tested.
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        [*command, "--target", str(target), "."],
        cwd=source,
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def deployment(directory: Path) -> Path:
    """The sample host with every piece of configuration of the pages; files that they name lie in the directory."""
    pieces = blocks()
    more = pieces["host.toml"].replace("/var/lib/journal", str(directory)).replace("/run/shelf", str(directory))
    config = sample(directory, append=more.replace("/var/lib/shelf", str(directory / "etc" / "state")))
    (config.parent / "endpoints" / "shelf.toml").write_text(pieces["endpoints/shelf.toml"], encoding="utf-8")
    return config


def environ(installed: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(installed)}


@pytest.fixture(scope="module")
def host(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host that names every plugin, in a new interpreter: the others are forked, with the package on their path."""
    config = deployment(tmp_path_factory.mktemp("host"))
    with running(config, environ=environ(installed), prefix=("env",)) as host:
        yield host


def test_the_pages_make_the_whole_package() -> None:
    """Control: every page has a module, and the package names one plugin or feature for each."""
    pieces = blocks()
    pages = {page.stem for page in PAGES.glob("*.rst")} - {"index"}
    assert {Path(name).stem for name in pieces if name.startswith("shelf/")} == pages
    assert set(re.findall(r'"shelf\.(\w+):', pieces["pyproject.toml"])) == pages
    index = (PAGES / "index.rst").read_text(encoding="utf-8")
    assert all(f":doc:`{page}`" in index for page in pages)


def test_a_handler_answers(host: Host) -> None:
    """The endpoint is answered by the plugin, its errors are the declared ones, and the record is sealed."""
    assert host.agtp_json("call", "-", "QUERY", "/shelf", "title=Emma", "--verify")["body"]["result"] == {
        "title": "Emma",
        "place": "A3",
    }
    lost = host.agtp("call", "-", "QUERY", "/shelf", "title=Ulysses", "--json")
    assert lost.returncode != 0 and "not_on_the_shelf" in lost.stdout + lost.stderr


def test_a_gate_refuses(host: Host) -> None:
    """403 with the plugin's reason, sealed and verified like any other outcome."""
    refused = host.agtp("call", "-", "QUERY", "/shelf", "title=Persuasion", "--json", "--verify")
    assert refused.returncode != 0
    assert "closed-stacks" in refused.stdout + refused.stderr and "Ask a librarian" in refused.stdout + refused.stderr


def test_a_feature_contributes(host: Host) -> None:
    """Its method is answered, and its service has counted the call when an operator asks."""
    hours = host.agtp_json("call", "-", "QUERY", "/hours", "--verify")
    assert hours["body"]["result"] == {"opens": 9, "closes": 17}
    shown = host.agtp_json("call", "-", "INSPECT", "target=visits", "--as", "registrar")
    assert shown["body"]["result"]["count"] > 0
    refused = host.agtp("call", "-", "INSPECT", "target=visits", "--json")
    assert refused.returncode == 1 and "Only operators may see the visits." in refused.stdout


def test_an_adapter_carries(host: Host) -> None:
    """Its payload type is carried, its tool listed, its input checked, its own refusal answered."""

    def ask(action: str, payload: str) -> subprocess.CompletedProcess[str]:
        words = ("EXECUTE", f"action={action}", f"payload_type={SHELF_LIST}", f"payload:={payload}")
        return host.agtp("call", "-", *words, "--json")

    sorting = ask("shelf.lists.sort", '{"titles": ["Persuasion", "Emma"]}')
    assert sorting.returncode == 0, sorting.stdout + sorting.stderr
    assert re.search(r'"titles": \[\s*"Emma",\s*"Persuasion"\s*\]', sorting.stdout)
    assert "shelf-lists.sort" in host.agtp("call", "-", "DISCOVER", "/tools", "--json").stdout
    by_name = host.agtp_json("tools", "call", "shelf-lists.sort", 'titles:=["Persuasion", "Emma"]')
    assert by_name["result"] == {"titles": ["Emma", "Persuasion"]}
    for action, payload, said in (
        ("shelf.lists.sort", '{"titles": 7}', "titles"),
        ("shelf.lists.burn", "{}", "Use shelf.lists.sort"),
    ):
        refused = ask(action, payload)
        assert refused.returncode != 0 and said in refused.stdout + refused.stderr


def test_an_observer_sees(host: Host) -> None:
    """Every record reaches it, soon."""
    host.agtp_json("call", "-", "QUERY", "/shelf", "title=Emma")
    counts = host.config.parent.parent / "counts.txt"
    until(lambda: counts.exists() and "QUERY 200" in counts.read_text(encoding="utf-8"))


def test_a_witness_notices_a_store_that_was_rolled_back(installed: Path, tmp_path: Path) -> None:
    """
    An older copy of the whole state directory is started: its own witness file agrees with it, the journal does not.

    Control: the state as it was left starts.
    """
    config = deployment(tmp_path)
    state, older = config.parent / "state", tmp_path / "older"
    for _ in range(2):
        with running(config, environ=environ(installed)) as host:
            host.agtp_json("call", "-", "QUERY", "/shelf", "title=Emma")
        if not older.exists():
            shutil.copytree(state, older)
    journal = tmp_path / "shelf.txt"
    assert journal.read_text(encoding="utf-8").endswith("\f")
    shutil.rmtree(state)
    shutil.copytree(older, state)
    again = Host(config, environ=environ(installed))
    assert again.process.wait(60) != 0
    again.stop()
    assert f"the journal {journal} has seen a checkpoint" in again.output


def book(config: Path) -> Path:
    return config.parent / "state" / "records.book"


def test_a_store_keeps_the_records_over_a_restart(installed: Path, tmp_path: Path) -> None:
    """
    They are read and verified beside the running host and after it, and exported; a second start goes on from them.

    Control: an octet of a record that is changed, and an older copy of the store, are noticed.
    """
    config = deployment(tmp_path)
    audit_ids: list[str] = []
    for _ in range(2):
        with running(config, environ=environ(installed)) as host:
            answer = host.agtp_json("call", "-", "QUERY", "/shelf", "title=Emma", "--verify")
            audit_ids.append(answer["audit_id"])
            assert audit_ids[0] in str(host.agtp_json("audit", "get", audit_ids[0]))
            beside = json.loads(said(installed, "audit", "verify", "--json", "--config", str(config)).stdout)
            assert beside["verified"] and "the store of the plugin book" in beside["source"]
    found = json.loads(said(installed, "audit", "verify", "--json", "--config", str(config)).stdout)
    assert found["verified"] and found["records"] >= beside["records"] >= 2
    export = said(installed, "audit", "export", "--config", str(config)).stdout
    assert all(audit_id in export for audit_id in audit_ids)
    assert said(installed, "agent", "ls", "--config", str(config)).returncode == 0
    whole = book(config).read_bytes()
    at = whole.rindex(audit_ids[1].encode()) if audit_ids[1].encode() in whole else whole.rindex(b"eyJ") + 8
    book(config).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    changed = said(installed, "audit", "verify", "--config", str(config))
    assert changed.returncode == 4 and "not what was signed" in changed.stdout + changed.stderr


def test_an_older_copy_of_a_plugins_store_is_noticed(installed: Path, tmp_path: Path) -> None:
    """The witness file has seen more: neither a start nor ``agtp audit verify`` takes it."""
    config = deployment(tmp_path)
    for turn in range(2):
        with running(config, environ=environ(installed)) as host:
            host.agtp_json("call", "-", "QUERY", "/shelf", "title=Emma")
        if not turn:
            older = book(config).read_bytes()
    book(config).write_bytes(older)
    found = said(installed, "audit", "verify", "--config", str(config))
    assert found.returncode == 4 and "records are missing" in " ".join((found.stdout + found.stderr).split())
    again = Host(config, environ=environ(installed))
    assert again.process.wait(60) != 0
    again.stop()
    assert "checkpoint" in again.output


def test_a_store_that_is_not_there_yet_is_told(installed: Path, tmp_path: Path) -> None:
    """No command falls back to a file of the host's own, which is not made; a check says what it did not look at."""
    config = deployment(tmp_path)
    missing = said(installed, "audit", "export", "--config", str(config))
    assert missing.returncode == 2 and "there is no book" in " ".join((missing.stdout + missing.stderr).split())
    with running(config, environ=environ(installed)):
        assert not (config.parent / "state" / "agtphost.sqlite3").exists()
    checked_again = checked(config, installed)
    told = " ".join((checked_again.stdout + checked_again.stderr).split())
    assert checked_again.returncode == 0 and "the content of the plugin store book was not checked" in told, told


@pytest.mark.release
def test_the_suite_for_stores_runs_in_the_package(source: Path, installed: Path) -> None:
    """The tests of the pages, as their author runs them: those of the store, and of the handler in a host in memory."""
    command = module("pytest", "-q", "-p", "no:cacheprovider", "tests")
    done = forking.run(command, cwd=source, timeout=120, env={**os.environ, **environ(installed)})
    assert done.returncode == 0 and re.search(r"^3\d passed", done.stdout, re.MULTILINE), done.stdout + done.stderr


def said(installed: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command on the host's machine, with the package."""
    context = {**os.environ, "NO_COLOR": "1", **environ(installed)}
    return forking.run([BIN / "agtp", *words], env=context)


# What is wrong is told before anything runs

RAISING = "raise RuntimeError('the shelf fell over')\n"
OTHER = (
    "from zope.interface import implementer\nfrom agtphost.plugin import IHandler\n\n\n"
    "@implementer(IHandler)\nclass Other:\n    kind = 'other'\n\n"
    "    def __init__(self, settings):\n        pass\n\n"
    "    def handle(self, context):\n        return {}\n"
)
WRONG_SIGNATURE = (
    "from zope.interface import implementer\nfrom agtphost.plugin import IOperatorGate\n\n\n"
    "@implementer(IOperatorGate)\nclass Gate:\n    name = 'wrong'\n\n"
    "    def __init__(self, settings):\n        pass\n\n"
    "    def check(self):\n        pass\n"
)
NO_NAME = WRONG_SIGNATURE.replace("    name = 'wrong'\n\n", "").replace("check(self)", "check(self, exchange)")
DECLARED = WRONG_SIGNATURE.replace(
    "    name = ", "    settings_schema = {'properties': {'titles': {'type': 'array'}}}\n    name = "
)
UNDECLARED = WRONG_SIGNATURE.replace("    name = ", "    settings_schema = 7\n    name = ")
CHOOSY = WRONG_SIGNATURE.replace("        pass\n\n", "        raise ValueError('titles are missing')\n\n", 1)


def package(target: Path, name: str, module: str, attribute: str) -> Path:
    """An installed package with one plugin, as an installer leaves it."""
    (target / f"{name}.py").write_text(module)
    made = target / f"{name}-1.0.dist-info"
    made.mkdir(parents=True)
    (made / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (made / "entry_points.txt").write_text(f"[agtphost.plugins]\nodd = {name}:{attribute}\n")
    return target


Arrange = Callable[[Path], object]

FAULTS: dict[str, tuple[Arrange, str]] = {
    "missing": (lambda target: None, "no installed package has a plugin 'odd'"),
    "raises": (lambda target: package(target, "one", RAISING, "Gate"), "the shelf fell over"),
    "exits": (lambda target: package(target, "one", "raise SystemExit(3)\n", "Gate"), "SystemExit"),
    "no-such-name": (lambda target: package(target, "one", "", "Gate"), "cannot be imported"),
    "not-callable": (lambda target: package(target, "one", "Gate = 7\n", "Gate"), "is not callable"),
    "other-interface": (lambda target: package(target, "one", OTHER, "Other"), "does not provide IOperatorGate"),
    "signature": (
        lambda target: package(target, "one", WRONG_SIGNATURE, "Gate"),
        "does not implement IOperatorGate: .*check",
    ),
    "attribute": (lambda target: package(target, "one", NO_NAME, "Gate"), "does not implement IOperatorGate: .*name"),
    "factory": (lambda target: package(target, "one", CHOOSY, "Gate"), "titles are missing"),
    "setting": (lambda target: package(target, "one", DECLARED, "Gate"), r"titles is not of type array"),
    "declaration": (lambda target: package(target, "one", UNDECLARED, "Gate"), "settings_schema is int"),
    "twice": (
        lambda target: (package(target, "one", OTHER, "Other"), package(target, "two", OTHER, "Other")),
        "more than one package has a plugin 'odd': one, two",
    ),
}


def checked(config: Path, target: Path) -> subprocess.CompletedProcess[str]:
    context = {**os.environ, "NO_COLOR": "1", "PYTHONPATH": str(target)}
    return forking.run([BIN / "agtp", "check", config], env=context)


@pytest.mark.parametrize("name", FAULTS)
def test_a_plugin_that_cannot_be_used_is_told_with_its_line(name: str, tmp_path: Path) -> None:
    """``agtp check`` says which key, in which line, and why; one way for every kind of plugin."""
    arrange, said = FAULTS[name]
    target = tmp_path / "target"
    target.mkdir()
    arrange(target)
    config = sample(tmp_path, append='\n[[gate]]\nplugin = "odd"\nsettings = { titles = 1 }\n')
    wrong = checked(config, target)
    told = " ".join((wrong.stdout + wrong.stderr).split())
    assert wrong.returncode == 2 and re.search(said, told), told
    key = "settings" if name in ("factory", "setting") else "plugin"
    line = config.read_text().splitlines().index(f'{key} = "odd"' if key == "plugin" else "settings = { titles = 1 }")
    assert f"host.toml:{line + 1}:" in told, told


@pytest.mark.parametrize("section", ["[adapter]", "[observer]", "[audit.witness_plugin]", "store"])
def test_each_place_wants_its_own_interface(section: str, tmp_path: Path) -> None:
    """A handler is no adapter, no observer, no witness and no store."""
    target = tmp_path / "target"
    target.mkdir()
    package(target, "one", OTHER, "Other")
    config = sample(tmp_path, append=f'\n[{section}]\nplugin = "odd"\n')
    wrong = checked(config, target)
    told = " ".join((wrong.stdout + wrong.stderr).split())
    line = config.read_text().splitlines().index('plugin = "odd"') + 1
    assert wrong.returncode == 2 and "does not provide I" in told and f"host.toml:{line}:" in told, told


STORES = {
    "missing": (None, "no installed package has a plugin 'odd'"),
    "raises": (RAISING, "the shelf fell over"),
    "half": (
        "from zope.interface import implementer\nfrom agtphost.plugin import IPluggableStore\n\n\n"
        "@implementer(IPluggableStore)\nclass Gate:\n    def __init__(self, settings):\n        pass\n",
        "does not implement IPluggableStore",
    ),
}


@pytest.mark.parametrize("name", STORES)
def test_a_store_that_cannot_be_used_is_told_with_its_line(name: str, tmp_path: Path) -> None:
    """By ``agtp check``, by a start, and by the commands that would read it."""
    module, message = STORES[name]
    target = tmp_path / "target"
    target.mkdir()
    if module is not None:
        package(target, "one", module, "Gate")
    config = sample(tmp_path, append='\n[store]\nplugin = "odd"\n')
    line = config.read_text().splitlines().index('plugin = "odd"') + 1
    wrong = checked(config, target)
    told = " ".join((wrong.stdout + wrong.stderr).split())
    assert wrong.returncode == 2 and f"host.toml:{line}:" in told and message in told, told
    start = Host(config, environ=environ(target))
    assert start.process.wait(60) != 0
    start.stop()
    assert f"host.toml:{line}:" in start.output
    command = said(target, "audit", "verify", "--config", str(config))
    assert command.returncode == 2 and message in " ".join((command.stdout + command.stderr).split())


def test_a_store_of_a_plugin_stands_alone(tmp_path: Path) -> None:
    """What is the host's own store's cannot stand beside it, and a plugin's settings not without it."""
    for key, table in (
        ("url", 'plugin = "odd"\nurl = "sqlite:"'),
        ("free_space_reserve", 'plugin = "odd"\nfree_space_reserve = 0'),
        ("settings", "settings = { a = 1 }"),
    ):
        config = sample(tmp_path / key, append=f"\n[store]\n{table}\n")
        wrong = checked(config, tmp_path)
        told = " ".join((wrong.stdout + wrong.stderr).split())
        line = next(at for at, text in enumerate(config.read_text().splitlines(), 1) if text.startswith(key))
        assert wrong.returncode == 2 and f"host.toml:{line}:" in told and "plugin" in told, told


def test_a_handler_that_is_missing_is_told_with_its_line(tmp_path: Path) -> None:
    """The line of ``plugin`` in the endpoint's file, at a start as in ``agtp check``."""
    config = deployment(tmp_path)
    config.write_text(config.read_text().partition("\n# host.toml")[0])
    file = config.parent / "endpoints" / "shelf.toml"
    line = file.read_text().splitlines().index('plugin = "shelf"') + 1
    empty = tmp_path / "empty"
    empty.mkdir()
    wrong = checked(config, empty)
    told = " ".join((wrong.stdout + wrong.stderr).split())
    assert (
        wrong.returncode == 2 and f"shelf.toml:{line}:" in told and "no installed package has a plugin 'shelf'" in told
    )
    start = Host(config)
    assert start.process.wait(60) != 0
    start.stop()
    assert f"shelf.toml:{line}:" in start.output


def test_a_wrong_setting_is_told_with_its_key_and_line(installed: Path, tmp_path: Path) -> None:
    """Of a gate in ``host.toml`` and of a handler in an endpoint's file; control: the pages' own settings are right."""
    config = deployment(tmp_path)
    file = config.parent / "endpoints" / "shelf.toml"
    assert checked(config, installed).returncode == 0
    right = 'settings = { titles = ["Persuasion"] }'
    wrong = '[gate.settings]\ntitles = [\n  "Persuasion",\n  7,\n]\ntitle = "Emma"\n'
    config.write_text(config.read_text().replace(right, wrong))
    file.write_text(file.read_text().replace('Emma = "A3"', "Emma = 3"))
    done = checked(config, installed)
    told = " ".join((done.stdout + done.stderr).split())
    lines = config.read_text().splitlines()
    line = lines.index('title = "Emma"') + 1
    assert done.returncode == 2 and f"host.toml:{line}:" in told and 'did you mean "titles"?' in told, told
    line = file.read_text().splitlines().index("Emma = 3") + 1
    assert f"shelf.toml:{line}:" in told and "settings.places.Emma is not of type string" in told, told
    config.write_text(config.read_text().replace('title = "Emma"\n', ""))
    told = " ".join((done := checked(config, installed)).stdout.split()) + " ".join(done.stderr.split())
    assert f"host.toml:{lines.index('  7,') + 1}:" in told and "titles[2] must be text" in told, told


def test_two_adapters_of_one_name_are_told(installed: Path, tmp_path: Path) -> None:
    """By ``agtp check`` and by a start, with the line of the later one; control: one of them starts (above)."""
    config = deployment(tmp_path)
    config.write_text(config.read_text() + '\n[[adapter]]\nplugin = "shelf-lists" # again\n')
    line = config.read_text().splitlines().index('plugin = "shelf-lists" # again') + 1
    message = "names an adapter for 'shelf-lists', which another adapter has"
    wrong = checked(config, installed)
    told = " ".join((wrong.stdout + wrong.stderr).split())
    assert wrong.returncode == 2 and f"host.toml:{line}:" in told and message in told, told
    start = Host(config, environ=environ(installed))
    assert start.process.wait(60) != 0
    start.stop()
    assert f"host.toml:{line}:" in start.output and message in " ".join(start.output.split())


def test_a_gate_stands_where_it_can(installed: Path, tmp_path: Path) -> None:
    """Neither before the caller is known nor after its key is taken; the line is that of ``after``."""
    for after in ("framing", "idempotency", "nowhere"):
        config = deployment(tmp_path / after)
        config.write_text(config.read_text().replace('after = "schema"', f'after = "{after}"'))
        wrong = checked(config, installed)
        told = " ".join((wrong.stdout + wrong.stderr).split())
        line = config.read_text().splitlines().index(f'after = "{after}"') + 1
        assert wrong.returncode == 2 and f"host.toml:{line}:" in told and "claimed scopes" in told, told
