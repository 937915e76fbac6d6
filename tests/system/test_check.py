"""``agtp check`` and a start find the same in the way, and check finds all of it at once."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest

from tests.system.hosting import agtp, free_port, running, sample
from tests.system.test_start_errors import edited, endpoint, store_of

Arrange = Callable[[Path], AbstractContextManager[object]]


def there(config: Path) -> dict[str, bytes]:
    """Every file of a deployment, but what SQLite keeps beside a database for its readers."""
    return {
        str(path): path.read_bytes()
        for path in config.parent.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.endswith(("-shm", "-wal"))
    }


def check(config: Path) -> list[str]:
    """What check says is wrong; it changes nothing."""
    before = there(config)
    done = agtp("check", str(config), "--json")
    assert there(config) == before
    problems = json.loads(done.stdout)["problems"]
    assert done.returncode == (2 if problems else 0), done.stderr
    return [problem["message"] for problem in problems]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A production host that was set up and ran: its ``host.toml``."""
    folder = tmp_path_factory.mktemp("served") / "work"
    port = str(free_port())
    done = agtp("init", str(folder), "--production", "--server-id", "localhost", "--port", port)
    assert done.returncode == 0, done.stderr
    config = folder / "host.toml"
    serve(config, "caller")
    return config


def serve(config: Path, newcomer: str) -> None:
    """Run once; that an agent was issued is on record then, and under a checkpoint."""
    done = agtp("agent", "new", newcomer, "--owner", "owner", cwd=config.parent)
    assert done.returncode == 0, done.stderr
    with running(config):
        pass


@pytest.fixture
def production(served: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(served.parent, tmp_path / "work")) / "host.toml"


def lose_store(config: Path) -> AbstractContextManager[object]:
    for path in (config.parent / "state").glob("agtphost.sqlite3*"):
        path.unlink()
    return nullcontext()


def lose_witness(config: Path) -> AbstractContextManager[object]:
    (config.parent / "state" / "checkpoint.txt").unlink()
    return nullcontext()


def older_store(config: Path) -> AbstractContextManager[object]:
    """The store of before, and the checkpoint of a later run."""
    state = config.parent / "state"
    old = {path.name: path.read_bytes() for path in state.glob("agtphost.sqlite3*")}
    serve(config, "latecomer")
    for path in state.glob("agtphost.sqlite3*"):
        path.unlink()
    for name, octets in old.items():
        if not name.endswith(".reserve"):
            (state / name).write_bytes(octets)
    return nullcontext()


def breaks_agent(config: Path) -> AbstractContextManager[object]:
    document = config.parent / "agents" / "assistant" / "document.json"
    document.write_text(document.read_text().replace("Answers for this host.", "Answers for nobody."))
    return nullcontext()


@contextmanager
def port_taken(config: Path) -> Iterator[None]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        found = re.search(r"port = \d+", config.read_text())
        assert found is not None
        edited((found[0], f"port = {other.getsockname()[1]}"))(config)
        yield


def no_such_name(config: Path) -> AbstractContextManager[object]:
    edited(append='\n[identity.server_names]\n"x.example.com" = "nobody"\n')(config)
    return nullcontext()


def damaged_history(config: Path) -> AbstractContextManager[object]:
    (config.parent / "state" / "manifest.json").write_text("{")
    return nullcontext()


def test_everything_is_told_at_once(tmp_path: Path) -> None:
    """A key, an endpoint, an agent, the port and the store, each of another layer, in one answer."""
    config = sample(tmp_path)
    edited(append="\n[limits]\nbody = -1\n")(config)
    endpoint("library.toml", 'method = "QUERY"', 'method = "query"')(config)
    (config.parent / "agents" / "broken.agent.json").write_text('{"name": 5}')
    (config.parent / "state").mkdir(mode=0o700)
    store_of(config).write_bytes(b"a letter to a friend\n" * 100)
    found = "\n".join(check(config))
    for reason in ("body", "query", "name: it is not a line of text", r"agtphost\.sqlite3"):
        assert re.search(reason, found), (reason, found)


def test_a_module_and_a_declaration_are_told_at_once(tmp_path: Path) -> None:
    """Two faults of one endpoint, of which the first used to hide the second; in which files, is summed up."""
    config = sample(tmp_path)
    endpoint("text.toml", "handlers.text.echo", "handlers.missing.echo")(config)
    endpoint("text.toml", "confidence = 1.0", "confidence = 7.0")(config)
    edited(append="\n[limits]\nbody = -1\n")(config)
    found = check(config)
    assert len(found) == 3, found
    for reason in ("handlers.missing cannot be imported", "confidence", "body"):
        assert any(reason in message for message in found), (reason, found)
    said = agtp("check", str(config)).stderr
    assert re.search(r"1 in \S*host\.toml, 2 in \S*text\.toml", said), said


def test_files_beside_one_that_is_no_toml_are_looked_at(tmp_path: Path) -> None:
    """Nothing follows from it, but each file that is none either is named, with its line."""
    config = sample(tmp_path)
    edited(append="\n[oh\n")(config)
    (config.parent / "endpoints" / "text.toml").write_text("method = \n")
    done = agtp("check", str(config), "--json")
    files = {Path(problem["file"]).name: problem["line"] for problem in json.loads(done.stdout)["problems"]}
    assert done.returncode == 2 and files["text.toml"] == 1 and files["host.toml"] > 40, files


def test_what_rests_on_a_fault_is_said(tmp_path: Path) -> None:
    """A fault in [host] keeps other layers from being looked at: that is told, and what can be read is."""
    config = sample(tmp_path)
    edited(('profile = "development"', 'profile = "testing"'))(config)
    (config.parent / "endpoints" / "text.toml").write_text("method = \n")
    done = agtp("check", str(config))
    assert "were not checked: they depend on [host]" in done.stderr and "text.toml:1: it is not TOML" in done.stderr


def test_a_fault_is_told_once_and_without_its_consequences(tmp_path: Path) -> None:
    """Of a table that cannot be read, nothing is concluded: methods that it would have made known are not blamed."""
    config = sample(tmp_path)
    endpoint("library.toml", 'method = "QUERY"', 'method = "FROBNICATE"')(config)
    edited(append='\n[policies.methods]\ncustom = ["FROBNICATE", "not a method"]\n')(config)
    found = check(config)
    assert len(found) == 1, found
    assert "not a method" in found[0]


def test_of_a_host_that_runs_store_and_port_are_left_alone(tmp_path: Path) -> None:
    """Before a restart the configuration is checked while the host serves: that is sound, and said."""
    config = sample(tmp_path)
    with running(config) as host:
        done = agtp("check", str(config))
        assert done.returncode == 0, done.stderr
        assert re.search(rf"a host, pid {host.process.pid}, uses this state", done.stderr)


def test_a_production_host_is_set_up_again_knowingly(production: Path) -> None:
    """Without its store it does not start; with ``--again`` it does, and what was there is kept."""
    state = production.parent / "state"
    key = (state / "signing.key").read_bytes()
    lose_store(production)
    assert check(production)
    again: subprocess.CompletedProcess[str] = agtp("init", str(production.parent), "--production", "--again")
    assert again.returncode == 0, again.stderr
    assert list(state.glob("checkpoint.txt.*")), again.stdout
    assert (state / "signing.key").read_bytes() == key
    assert check(production) == []
    with running(production):
        # And not while it runs.
        refused = agtp("init", str(production.parent), "--production", "--again")
        assert refused.returncode == 2
        assert "another host" in refused.stderr


def test_who_has_the_port_is_told(tmp_path: Path) -> None:
    """By number and name, as far as the system says: here it is this process."""
    config = sample(tmp_path)
    port = int(re.findall(r"port = ([0-9]+)", config.read_text())[0])
    with socket.create_server(("127.0.0.1", port)):
        done = agtp("check", str(config), "--json")
    (problem,) = json.loads(done.stdout)["problems"]
    assert done.returncode == 2 and "cannot listen" in problem["message"]
    assert problem["hint"].startswith(f"pid {os.getpid()} ("), problem
    assert agtp("check", str(config)).returncode == 0, "the control: nobody has it now"


def test_a_disk_that_is_nearly_full_is_noted(tmp_path: Path) -> None:
    """It keeps no host from starting, and would have all requests answered 503."""
    config = sample(tmp_path, append=f"\n[store]\nfree_space_floor = {10**15}\n")
    (tmp_path / "etc" / "state").mkdir()
    notes = json.loads(agtp("check", str(config), "--json").stdout)["notes"]
    (note,) = [each for each in notes if "free_space_floor" in each]
    assert "requests are answered 503. Make room there" in note
    config.write_text(config.read_text().replace(f"free_space_floor = {10**15}", "free_space_floor = 1"))
    notes = json.loads(agtp("check", str(config), "--json").stdout)["notes"]
    assert not any("free_space_floor" in each for each in notes)


def test_a_collection_without_its_scopes_is_told(production: Path) -> None:
    """In production: file, line, and the line to add, which a start reads as well; with both lines it is sound."""
    text = production.read_text()
    added = '\n[methods]\nstandard = "reading"\n\n[[methods.collection]]\nname = "orders"\nread = []\n'
    production.write_text(text + added)
    line = len((text + added).splitlines()) - 1
    done = agtp("check", str(production), "--json")
    [problem] = json.loads(done.stdout)["problems"]
    assert (problem["file"], problem["line"]) == (str(production), line) and "write is missing" in problem["message"]
    assert 'add write = ["orders:write"]' in problem["hint"] and "write = []" in problem["hint"]
    production.write_text(text + added + 'write = ["orders:write"]\n')
    assert check(production) == []
