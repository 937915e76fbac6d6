"""The image's recipe, step by step in bare root directories, and the README's npx server in what comes of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programmes import CHOSEN
from tests.supply.bare_root import (
    Builder,
    Stage,
    StepFailed,
    context_files,
    debootstrap,
    instructions,
    is_ignored,
    words_of,
)
from tests.supply.lock import ROOT, locked
from tests.supply.source_tree import copy_tree
from tests.supply.test_supply import OF_EXTRAS
from tests.system.hosting import READY, free_port, until

RECIPE = (ROOT / "Containerfile").read_text()
README = (ROOT / "README.rst").read_text()


@pytest.mark.release
def test_the_context_has_what_is_built_and_nothing_of_a_deployment(tmp_path: Path) -> None:
    """Keys, tests, caches and other people's files stay out; what the wheel is made of is in."""
    tree = copy_tree(tmp_path / "tree")
    planted = (
        *(
            "etc/state/ca.key",
            "agtphost/__pycache__/x.pyc",
            "agtphost/deep/__pycache__/y.pyc",
            "my-host/state/signing.key",
        ),
        *("docs/node_modules/x.js", ".venv/bin/python", "notes.txt", "twisted/plugins/dropin.cache"),
    )
    for name in planted:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
    found = {str(path) for path in context_files(tree)}
    assert not found & set(planted)
    assert not [name for name in found if name.startswith(("tests/", ".git/", ".ci/"))]
    wanted = {"pyproject.toml", "README.rst", "LICENSE", "agtphost/__init__.py", "twisted/plugins/agtphost_plugin.py"}
    assert wanted | {"requirements/run.lock", "requirements/tools.lock", "etc/host.toml", "docs/index.rst"} <= found


@pytest.mark.parametrize(
    ("name", "rules", "ignored"),
    [
        ("a/b", ["*"], True),
        ("a/b", ["*", "!a"], False),
        ("a/b", ["*", "!a", "a/b"], True),
        ("a/x/b", ["**/b"], True),
        ("a/bc", ["**/b"], False),
        ("a/b/c", ["a/*"], True),
        ("b/a/c", ["a/*"], False),
    ],
)
def test_rules_of_the_context(name: str, rules: list[str], ignored: bool) -> None:
    """The last rule that matches decides, as in Docker's own file."""
    assert is_ignored(Path(name), rules) is ignored


def test_every_extra_of_a_host_is_locked() -> None:
    """What an image installs has all of them, and uv beside it; no stage asks an index for anything else."""
    pins = {pin.name for pin in locked("run")}
    extras = {name: wanted - {"agtphost"} for name, wanted in OF_EXTRAS.items() if name not in ("test", "docs", "dev")}
    assert {name: wanted - pins for name, wanted in extras.items() if name != "testing" and wanted - pins} == {}
    assert {pin.name for pin in locked("tools")} == {"uv"}


def test_the_stages_end_as_the_same_user() -> None:
    """The last stage has what npx and uvx need; both stages end as the host's own user, and start in the same way."""
    stages = re.split(r"^FROM .* AS (\w+)$", RECIPE, flags=re.MULTILINE)
    parts = dict(zip(stages[1::2], stages[2::2], strict=True))
    assert list(parts) == ["build", "slim", "full"]
    for name in ("slim", "full"):
        users = [rest for instruction, rest in instructions(parts[name]) if instruction == "USER"]
        assert users[-1] == "10001"
    assert "nodejs npm" in parts["full"] and "tools.lock" in parts["full"]
    assert "ENTRYPOINT" not in parts["full"], "it is that of the stage before"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The last stage, built."""
    if not CHOSEN.whole:
        pytest.skip("a root directory takes minutes: --programmes makes one")
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        pytest.skip("root directories need root and debootstrap")
    room = tmp_path_factory.mktemp("image")
    debootstrap(room / "base")
    stages = room / "stages"
    stages.mkdir()
    yield Builder(room / "base", copy_tree(room / "context"), stages).build(RECIPE)
    shutil.rmtree(room)


def ask(image: Stage, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the image as its user."""
    return subprocess.run(image.command(words), capture_output=True, text=True, timeout=300)


def inside(image: Stage, *words: str) -> str:
    """Run a program of the image as its user; return what it printed."""
    done = ask(image, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_image_runs_the_readmes_npx_server(image: Stage) -> None:
    """
    As the recipe says it is run: a production deployment with the README's filesystem server, started by npx.

    It becomes ready and healthy, a tool reads a file, and SIGTERM ends it. uvx is there too.
    """
    (server,) = set(re.findall(r"npx -y (@modelcontextprotocol/server-filesystem)", README))
    port = free_port()
    folder = image.root / "etc" / "agtphost"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "one.txt").write_text("what is on the note")
    os.chown(folder, 10001, 10001)
    words = ("--production", "--server-id", "localhost", "--address", "127.0.0.1", "--port", str(port))
    inside(image, "agtp", "init", ".", *words, "--mcp", f"notes=npx -y {server} /etc/agtphost/notes")
    config = folder / "host.toml"
    # A production deployment has no agent yet, and answers no stranger.
    inside(image, "agtp", "agent", "new", "reader", "--scope", "mcp:tools:execute", "--owner", "Example Ltd",
           "--config", "/etc/agtphost/host.toml")  # fmt: skip
    # npx fetches the server at the first start, which may take longer than a server that is there; killed meanwhile, it
    # leaves half of it in its cache.
    config.write_text(config.read_text().replace('name = "notes"\n', 'name = "notes"\nstart_timeout = 600\n'))
    process = subprocess.Popen(
        image.command([*words_of(image, "ENTRYPOINT"), *words_of(image, "CMD")]),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    late = threading.Timer(1200, process.kill)
    late.start()
    printed = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            printed.append(line)
            if READY.search(line):
                break
        else:
            pytest.fail("".join(printed)[-3000:])
        threading.Thread(target=process.stdout.read, daemon=True).start()
        # The first start has npx fetch the server; until that runs, the host serves and is not healthy.
        until(lambda: ask(image, *words_of(image, "HEALTHCHECK")).returncode == 0, 600)
        said = inside(
            image, "agtp", "tools", "call", "notes.read_text_file", "path=/etc/agtphost/notes/one.txt", "--json",
            "--config", "/etc/agtphost/host.toml", "--as", "reader",
        )  # fmt: skip
        assert "what is on the note" in json.dumps(json.loads(said))
        assert inside(image, "uvx", "--version").startswith("uvx ")
        process.terminate()
        assert process.wait(120) == 0, printed
    finally:
        late.cancel()
        process.kill()
        process.wait()


@pytest.mark.programme
@pytest.mark.timeout(3600)
def test_a_step_that_fails_is_named(image: Stage, tmp_path: Path) -> None:
    """The control: a command that is not there, and a stage that is not there."""
    broken = RECIPE.replace("nodejs npm", "no-such-package-of-debian")
    builder = Builder(image.root, ROOT, tmp_path)
    builder.stages["slim"] = image
    with pytest.raises(StepFailed, match="no-such-package-of-debian"):
        builder.build(broken[broken.index("FROM slim AS full") :])
    with pytest.raises(StepFailed, match="no such stage"):
        builder.build("FROM nothing AS x")
