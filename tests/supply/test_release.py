"""``python -m tests.supply release``: each of its checks finds what it is for, and the whole of it works here."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tarfile
import zipfile
from email.message import Message
from pathlib import Path

import pytest

import twisted
from agtphost import __version__
from tests import forking
from tests.programmes import CHOSEN
from tests.supply import release
from tests.supply.release import ReleaseError
from tests.supply.source_tree import copy_tree
from tests.supply.test_supply import PROJECT, tracked
from tests.system.hosting import BIN, agtp, free_port, newcomer, until

BORROWED = Path(twisted.__file__).parents[1]
"""Where the packages are that stand for what pip would fetch."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A wheel and an sdist of this tree."""
    room = tmp_path_factory.mktemp("release")
    sdist, wheel = sorted(
        release.build(copy_tree(room / "source"), room / "dist", "wheel", "sdist"),
        key=lambda path: path.suffix == ".whl",
    )
    return wheel, sdist


@pytest.mark.release
def test_the_metadata_is_whole(built: tuple[Path, Path]) -> None:
    """Of wheel and sdist: version, licence, author, places, Python versions, and a description that renders."""
    for path in built:
        assert release.check_metadata(release.read_metadata(path)) == []
        assert __version__ in path.name
    assert __version__ == "0.2.0"


def test_sample_and_pages_are_in_the_sdist(built: tuple[Path, Path]) -> None:
    """All of both, beside the code and its tests."""
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"{folder}/{name}" for folder in ("etc", "docs") for name in tracked(folder)} <= names


FAULTS = {
    "Version": ("9.9", "the version is 9.9"),
    "Author-email": ("", "Author-email is missing"),
    "Requires-Python": ("", "Requires-Python is missing"),
    "Description-Content-Type": ("text/markdown", "of type text/markdown"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_metadata_is_found(built: tuple[Path, Path], name: str) -> None:
    """The control, for each field."""
    value, said = FAULTS[name]
    metadata: Message = release.read_metadata(built[0])
    del metadata[name]
    if value:
        metadata[name] = value
    (fault,) = release.check_metadata(metadata)
    assert said in fault


def test_a_missing_place_and_python_are_found(built: tuple[Path, Path]) -> None:
    """Without any address or classifier, each that is wanted is named."""
    metadata = release.read_metadata(built[0])
    del metadata["Project-URL"]
    del metadata["Classifier"]
    assert len(release.check_metadata(metadata)) == 5 + len(release.VERSIONS)


@pytest.mark.parametrize(
    "text",
    [
        "A longer title\n======\n\n" + "text " * 300,
        "A `broken link`_. " * 80,
        ".. include:: README.rst\n\n" + "t " * 600,
        "",
    ],
)
def test_a_description_that_no_index_renders_is_found(text: str) -> None:
    """Wrong markup, links to nowhere, files, and nothing at all."""
    assert release.check_readme(text, "text/x-rst") != []


def test_placeholders_are_told_and_filled_by_one_setting(tmp_path: Path) -> None:
    """Each is named as long as it is one."""
    found = release.find_placeholders()
    project = (release.ROOT / "pyproject.toml").read_text()
    (tmp_path / "pyproject.toml").write_text(project.replace("agtphost.example", "agtphost.org"))
    assert release.find_placeholders(tmp_path) == []
    assert bool(found) == ("agtphost.example" in project)


@pytest.mark.release
def test_the_wheel_of_the_sdist_is_the_same(built: tuple[Path, Path], tmp_path: Path) -> None:
    """Octet for octet; a file that the sdist leaves out is named (the control)."""
    wheel, sdist = built
    assert release.compare_with_sdist(wheel, sdist, tmp_path / "same") == []
    planted = Path(shutil.copy(wheel, tmp_path / "planted.whl"))
    with zipfile.ZipFile(planted, "a") as archive:
        archive.writestr("agtphost/planted.py", "")
    (again,) = (tmp_path / "same" / "again").iterdir()
    (fault,) = release.compare_wheels(planted, again, sdist.name)
    assert "agtphost/planted.py" in fault


def test_the_versions_of_python_are_said_alike() -> None:
    """By the release, the classifiers, and the page of what is promised."""
    assert PROJECT["requires-python"] == f">={release.VERSIONS[0]}"
    classified = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert tuple(classified) == release.VERSIONS
    page = (release.ROOT / "docs" / "stability.rst").read_text()
    assert all(version in page for version in release.VERSIONS)


def test_a_python_that_is_not_there_is_missing() -> None:
    """No other version stands for it."""
    assert release.find_interpreter("3.99") is None
    here = release.find_interpreter(f"{sys.version_info.major}.{sys.version_info.minor}")
    assert here is not None and here.exists()


@pytest.mark.release
@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_wheel_and_sdist_install_and_tell_the_story(built: tuple[Path, Path], tmp_path: Path) -> None:
    """
    In environments of their own, from the wheel alone: the README's commands, ``twistd agtp``, ``agtp run``.

    Shortened, the wheel for this Python, with the packages that are here, and the lines of the story that need most of
    it: the wheel of the sdist has the same octets. Whole, wheel and sdist for all Pythons, fetched, and by pipx and uv.
    """
    if CHOSEN.whole:
        report = release.make_release(tmp_path / "dist", tmp_path / "room", release.VERSIONS, ("pipx", "uv"), print)
        assert report.faults == []
    else:
        room, story = tmp_path / "room", release.short_story()
        programs = release.try_wheel(Path(sys.executable), built[0], room, borrowed=BORROWED, story=story)
        archive = zipfile.ZipFile(built[0])
        sizes = {each.filename: each.file_size for each in archive.infolist() if ".dist-info/" not in each.filename}
        assert release.installed_files(programs) == sizes


def test_a_line_of_the_story_that_fails_is_named(tmp_path: Path) -> None:
    """The control: another status, and another output."""
    (tmp_path / "programs").mkdir()
    script = tmp_path / "programs" / "agtp"
    script.write_text("#!/bin/sh\necho ready\nexec sleep 600\n")
    script.chmod(0o755)
    for line, said in ((("true", 1, ()), "ended with 0"), (("echo one", 0, ("two",)), "said: one")):
        with pytest.raises(ReleaseError, match=said):
            release.tell_story(tmp_path / "programs", tmp_path, (line,))
    with pytest.raises(ReleaseError, match="early"):
        release.tell_story(tmp_path / "programs", tmp_path, (("exit 0", 0, ()), ("true", 0, ())))


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A host that ``agtp init`` wrote."""
    folder = tmp_path_factory.mktemp("deployment")
    command = [str(BIN / "agtp"), "init", "my-host", "--port", str(free_port())]
    forking.run(command, cwd=folder, env=newcomer(folder / "home")).check_returncode()
    return folder


@pytest.mark.parametrize("words", [("run", "my-host/host.toml"), ("run", "--config", "my-host"), ("run",)])
def test_agtp_run_starts_what_twistd_starts(deployment: Path, words: tuple[str, ...]) -> None:
    """By its file, by its directory, or where it is; it answers, ends well on SIGTERM, and keeps no pid file."""
    where = deployment / "my-host" if words == ("run",) else deployment
    ready = "agtphost ready: agtp://"
    with release.started(BIN / "agtp", *words, cwd=where, ready=ready, start=forking.start) as printed:
        done = agtp("call", "-", "DISCOVER", "/methods", "--config", str(deployment / "my-host"), cwd=where)
        assert done.returncode == 0, done.stderr
        assert any("agtphost ready" in line for line in printed)
    assert not (where / "twistd.pid").exists()


def test_agtp_run_keeps_pid_and_log_where_it_is_told(deployment: Path, tmp_path: Path) -> None:
    """Both files are there while it runs; the log has what would be on standard output."""
    pid, log = tmp_path / "host.pid", tmp_path / "host.log"
    words = ("run", "my-host", "--pid-file", pid, "--log-file", log)
    command = [str(BIN / "agtp"), *map(str, words)]
    process = forking.start(command, cwd=deployment, env={**os.environ, "HOME": str(tmp_path)})
    try:
        until(lambda: log.exists() and "agtphost ready" in log.read_text())
        assert int(pid.read_text()) == process.pid
    finally:
        process.terminate()
        assert process.wait(60) == 0
    assert not pid.exists()


def test_agtp_run_says_why_it_cannot_start(deployment: Path, tmp_path: Path) -> None:
    """As ``twistd agtp`` does: with file and line, and status 1; without any host.toml, and with two, status 2."""
    (tmp_path / "host.toml").write_text((deployment / "my-host" / "host.toml").read_text() + "\n[listne]\nport = 1\n")
    wrong = forking.run([BIN / "agtp", "run"], cwd=tmp_path)
    assert wrong.returncode == 1 and "host.toml:" in wrong.stderr and "listne" in wrong.stderr, wrong.stderr
    told = forking.run([BIN / "agtp", "run", "--json"], cwd=tmp_path)
    assert told.returncode == 2 and "listne" in str(json.loads(told.stdout)), told
    (tmp_path / "empty").mkdir()
    for words, said in (((), "no host.toml"), (("a.toml", "--config", "b.toml"), "")):
        done = forking.run([BIN / "agtp", "run", *words], cwd=tmp_path / "empty")
        assert done.returncode == 2 and said in done.stderr, done.stderr
