"""What is checked without running anything: style, types, and what a wheel contains."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.npm import cache
from tests.supply.compiled import lend_compiled
from tests.supply.test_supply import copy
from tests.supply.test_supply import wheel as build_wheel
from tests.words.__main__ import measure_tree
from tests.words.measure import Measure, is_bare_name, is_fragment, measure_source

ROOT = Path(__file__).resolve().parents[1]


def run(*words: str | Path, cwd: Path = ROOT, timeout: float = 300, **environ: str) -> subprocess.CompletedProcess[str]:
    """A command with the present interpreter's environment."""
    arguments = [str(word) for word in words]
    return subprocess.run(
        arguments, capture_output=True, text=True, cwd=cwd, env={**os.environ, **environ}, timeout=timeout
    )


def python(*words: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    """A module of the present interpreter."""
    return run(sys.executable, "-m", *words, **options)  # type: ignore[arg-type]


def test_ruff_finds_nothing() -> None:
    """The whole tree follows the rules of pyproject.toml."""
    done = python("ruff", "check", "--no-cache", ".")
    assert done.returncode == 0, done.stdout[-4000:]


def test_ruff_would_find_something(tmp_path: Path) -> None:
    """The control: the same command is not satisfied with everything."""
    (tmp_path / "wrong.py").write_text("import os\nl = lambda: 1\n")
    done = python("ruff", "check", "--no-cache", "--config", ROOT / "pyproject.toml", tmp_path)
    assert done.returncode == 1


def test_the_formatter_changes_nothing() -> None:
    """One layout for the whole tree: ``ruff format .`` is what makes it."""
    done = python("ruff", "format", "--check", "--no-cache", ".")
    assert done.returncode == 0, done.stdout[-4000:]


def test_the_formatter_would_change_something(tmp_path: Path) -> None:
    """The control: the same command is not satisfied with every layout."""
    (tmp_path / "wrong.py").write_text("x = {  'a':1 }\n")
    done = python("ruff", "format", "--check", "--no-cache", "--config", ROOT / "pyproject.toml", tmp_path)
    assert done.returncode == 1


PUBLIC = ("agtphost", "client")
"""Packages of public modules: each docstring begins with a sentence, and those of functions with a verb."""

BARE, MANNERED = 1.5, 1.5
"""Functions with a bare name in percent, and mannered words per 1,000, that a package and the docs may have."""

LEFT = {"names": 21, "mannered": 57, "mannered_messages": 0, "fragments": 0, "nouns": 206}
"""What all packages together may still have. Lower these when you can, and never raise them."""


def faults_of_words(name: str, measure: Measure) -> list[str]:
    """Return which bounds of plain words a package breaks."""
    found = {"bare names": measure.name_share, "mannered words": measure.mannered_share}
    bounds = {"bare names": BARE, "mannered words": MANNERED}
    return [f"{name}: {what} {share:.1f} > {bounds[what]}" for what, share in found.items() if share > bounds[what]]


def test_every_package_is_in_plain_words() -> None:
    """``python -m tests.words --places names --only PACKAGE`` prints what is meant."""
    measures = measure_tree()
    assert [fault for name in measures for fault in faults_of_words(name, measures[name])] == []
    assert [each for name in PUBLIC for each in (*measures[name].fragments, *measures[name].nouns)] == []
    total = Measure()
    for name, measure in measures.items():
        if name != "docs":
            total.add(measure)
    assert {kind: len(getattr(total, kind)) for kind in LEFT if len(getattr(total, kind)) > LEFT[kind]} == {}


def test_control_mannered_code_is_noticed() -> None:
    """A bare name, a mannered comment and a docstring without a sentence are each counted; plain forms are not."""
    mannered = 'def told() -> None:\n    """Of it."""\n    # Nobody hears of it.\n'
    plain = 'def render() -> None:\n    """Return the text of an event."""\n    # The client reads it later.\n'
    found = measure_source(ROOT / "wrong.py", mannered)
    assert (len(found.names), len(found.mannered), len(found.fragments)) == (1, 2, 1)
    assert faults_of_words("wrong", found) == ["wrong: bare names 100.0 > 1.5", "wrong: mannered words 333.3 > 1.5"]
    assert faults_of_words("right", measure_source(ROOT / "right.py", plain)) == []
    assert is_bare_name("_received") and not is_bare_name("dataReceived")
    assert is_fragment("What it is.") and not is_fragment("Return the newest record of each chain.")
    noun = 'def key() -> None:\n    """The key."""\n\n\n@property\ndef name() -> None:\n    """The name."""\n'
    assert len(measure_source(ROOT / "nouns.py", noun).nouns) == 1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_mypy_finds_nothing() -> None:
    """Every line of the package is typed, strictly, interfaces included."""
    # What is as it was has been looked at: 28 s of a processor's time become one, in another clone as well.
    done = python("mypy", "--no-error-summary", "--cache-dir", cache().parent / "mypy", timeout=800)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_mypy_would_find_a_class_that_breaks_its_interface(tmp_path: Path) -> None:
    """The control: the interfaces are really compared, through mypy-zope."""
    wrong = tmp_path / "wrong_gate.py"
    wrong.write_text(
        "from zope.interface import implementer\n"
        "from agtphost.iagtp import IGate\n\n\n"
        "@implementer(IGate)\n"
        "class Wrong:\n"
        '    """It has no check."""\n\n'
        '    name = "wrong"\n'
    )
    done = python("mypy", "--config-file", ROOT / "pyproject.toml", wrong)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "missing following 'IGate' interface members: check" in done.stdout, done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of a checkout in which Twisted has left its cache."""
    checkout = copy(tmp_path_factory.mktemp("checkout"))
    (checkout / "twisted" / "plugins" / "dropin.cache").write_bytes(b"left by an earlier run")
    target = tmp_path_factory.mktemp("wheel")
    build_wheel(checkout, target, 0o022)
    (found,) = target.glob("agtphost-*.whl")
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_wheel_has_the_plugin_and_no_cache(wheel: Path) -> None:
    """``twisted/plugins/agtphost_plugin.py`` is in, ``dropin.cache`` and package markers above the plugin are not."""
    names = zipfile.ZipFile(wheel).namelist()
    assert "twisted/plugins/agtphost_plugin.py" in names
    assert not [name for name in names if name.endswith("dropin.cache")]
    assert [name for name in names if name.startswith("twisted/")] == ["twisted/plugins/agtphost_plugin.py"]
    assert not [name for name in names if name.split("/")[0] in ("tests", "etc")]
    assert "agtphost/py.typed" in names
    for needed in ("agtphost/vocabulary/methods.json", "agtphost/stores/schema/"):
        assert any(name.startswith(needed) for name in names), needed


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_installed_wheel_is_found_by_twistd(wheel: Path, tmp_path: Path) -> None:
    """``twistd --help`` lists agtp from the wheel alone, apart from this checkout, and its options open."""
    target = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(target)
    lend_compiled(target)
    # Isolated from the checkout and from an editable installation of it: the target comes first.
    code = (
        f"import sys; sys.path.insert(0, {str(target)!r}); import agtphost; "
        f"assert agtphost.__file__.startswith({str(target)!r}), agtphost.__file__; "
        "from twisted.scripts.twistd import run\n"
        "for words in (['--help'], ['agtp', '--help']):\n"
        "    sys.argv[1:] = words\n"
        "    try: run()\n"
        "    except SystemExit as ended: print(chr(0), ended.code or 0, chr(0), sep='')"
    )
    done = run(sys.executable, "-c", code, cwd=tmp_path, PYTHONPATH=str(target))
    helped, status, options, other, _ = done.stdout.split("\0")
    assert (status, other, done.returncode) == ("0", "0", 0), done.stderr[-4000:]
    assert any(line.split()[:1] == ["agtp"] for line in helped.splitlines()), helped
    assert "--config" in options, options
