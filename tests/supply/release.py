"""
``python -m tests.supply release``: build what is released, and try it as a stranger does.

Wheel and sdist are built from a copy of this tree and compared; their metadata is read as a package index reads it.
Then both are installed in environments that have nothing else, with each Python that a release supports, and the
README's story is told by what the wheel alone brings.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from typing import Any

from agtphost import __version__
from tests.supply.compiled import lend_compiled
from tests.supply.lock import ROOT
from tests.supply.source_tree import copy_tree
from tests.system.hosting import free_port
from tests.system.test_readme import STORY

VERSIONS = ("3.11", "3.12", "3.13")
"""What a release supports; classifiers and docs/stability.rst say the same."""

LATER = ("3.14",)
"""Tried where it can be had."""

EPOCH = "1577836800"
PLACEHOLDER = ".example"
"""What the names of places end with that nobody has filled yet."""

COMMANDS = ("agtp", "agtp-catalog-diff")
PATIENCE = 300.0
"""Seconds after which a command that does not end, or a host that is not ready, has failed."""

INSTALL_PATIENCE = 1500.0
"""The same for a program that installs: on a busy machine a fresh environment with all dependencies takes minutes."""

Say = Callable[[str], object]
Story = Sequence[tuple[str, int, tuple[str, ...]]]
"""Lines of a shell, each with its exit status and what its output has."""

SHORT = ("agtp tools ls", "agtp tools call files.list_files", "agtp audit verify")
"""What of the README's story the suite tells with a wheel. ``tests/system/test_readme.py`` tells all of it."""


def short_story() -> Story:
    """Return the lines of the README's story that go to the directory and are in ``SHORT``, each once."""
    first = {line: each for each in reversed(STORY) if (line := each[0]) in SHORT}
    return [STORY[0], *(first[line] for line in SHORT)]


class ReleaseError(Exception):
    """Something that a release must be is not so; the message says what."""


@dataclass
class Report:
    """What was tried, what is wrong, and what could not be tried."""

    faults: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


# Building


def build(source: Path, target: Path, *kinds: str) -> list[Path]:
    """
    Build distributions of a source tree.

    :param kinds: ``wheel``, ``sdist``.
    :raises ReleaseError: one cannot be built.
    """
    environ = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
    for kind in kinds:
        command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
        done = subprocess.run(command, cwd=source, env=environ, capture_output=True, text=True)
        if done.returncode:
            raise ReleaseError(f"the {kind} of {source.name} cannot be built: {done.stderr[-2000:]}")
    return sorted(target.iterdir())


def unpack_sdist(sdist: Path, target: Path) -> Path:
    """Unpack a source distribution; return its top directory."""
    with tarfile.open(sdist) as archive:
        archive.extractall(target, filter="data")
    (top,) = target.iterdir()
    return top


def compare_with_sdist(wheel: Path, sdist: Path, room: Path) -> list[str]:
    """Say what a wheel that is built from the sdist has otherwise than the wheel of the tree."""
    (again,) = build(unpack_sdist(sdist, room / "unpacked"), room / "again", "wheel")
    return compare_wheels(wheel, again, sdist.name)


def compare_wheels(wheel: Path, again: Path, source: str) -> list[str]:
    """Say what differs between a wheel and another one, which was built from ``source``."""
    if again.read_bytes() == wheel.read_bytes():
        return []
    ours, theirs = ({info.filename: info.CRC for info in zipfile.ZipFile(path).infolist()} for path in (wheel, again))
    names = sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
    return [f"the wheel that is built from {source} differs: {', '.join(names[:5]) or 'in its archive'}"]


# Metadata


def read_metadata(distribution: Path) -> Message:
    """Return the metadata of a wheel or an sdist."""
    if distribution.suffix == ".whl":
        archive = zipfile.ZipFile(distribution)
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return BytesParser().parsebytes(archive.read(name))
    with tarfile.open(distribution) as opened:
        (entry,) = [name for name in opened.getnames() if name.count("/") == 1 and name.endswith("/PKG-INFO")]
        found = opened.extractfile(entry)
        assert found is not None
        return BytesParser().parsebytes(found.read())


def check_metadata(metadata: Message) -> list[str]:
    """Say what a package index would refuse, or a stranger would miss."""
    faults = []
    if metadata["Version"] != __version__:
        faults.append(f"the version is {metadata['Version']}, and the package says {__version__}")
    wanted = ("Summary", "License-Expression", "License-File", "Requires-Python", "Author-email", "Keywords")
    faults += [f"{name} is missing" for name in wanted if not metadata[name]]
    urls = dict(value.split(", ", 1) for value in metadata.get_all("Project-URL", []))
    labels = ("Homepage", "Documentation", "Source", "Issues", "Changelog")
    faults += [f"Project-URL {label} is missing" for label in labels if not urls.get(label, "").startswith("https://")]
    classified = {each.rpartition(" :: ")[2] for each in metadata.get_all("Classifier", [])}
    faults += [f"no classifier for Python {version}" for version in VERSIONS if version not in classified]
    return faults + check_readme(metadata.get_payload(), metadata["Description-Content-Type"])


def check_readme(text: Any, content_type: str | None) -> list[str]:
    """Say why an index could not render a description: it runs docutils without files and raw parts."""
    if content_type != "text/x-rst":
        return [f"the description is of type {content_type}"]
    from docutils.core import publish_parts
    from docutils.utils import SystemMessage

    settings = {"raw_enabled": False, "file_insertion_enabled": False, "halt_level": 2, "report_level": 5}
    try:
        body = publish_parts(str(text), writer="html5", settings_overrides=settings)["html_body"]
    except SystemMessage as error:
        return [f"the description does not render: {error}"]
    return [] if len(body) > 1000 else ["the description is empty"]


def find_placeholders(root: Path = ROOT) -> list[str]:
    """Return what ``[tool.agtphost.publication]`` has not been filled with yet."""
    setting = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["agtphost"]["publication"]
    return [f"{name} = {value!r}" for name, value in setting.items() if PLACEHOLDER in value]


# Interpreters and environments


def find_interpreter(version: str) -> Path | None:
    """Return a Python of a version: on the path, or one that pyenv has."""
    places = [shutil.which(f"python{version}"), *sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))]
    for place in filter(None, places):
        code = "import sys, ensurepip; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([str(place), "-c", code], capture_output=True, text=True)
        if done.stdout.strip() == version:
            return Path(place)
    return None


def run(*words: str | Path, cwd: Path, **environ: str) -> str:
    """
    Run a program in an environment of a stranger's.

    :return: what it printed.
    :raises ReleaseError: it failed.
    """
    command = [str(word) for word in words]
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=stranger(cwd, **environ),
            capture_output=True,
            text=True,
            timeout=INSTALL_PATIENCE if "install" in command else PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise ReleaseError(f"{' '.join(command)} does not end") from None
    if done.returncode:
        raise ReleaseError(f"{' '.join(command)} failed with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
    return done.stdout + done.stderr


def stranger(home: Path, **environ: str) -> dict[str, str]:
    """Return an environment that knows nothing of this tree."""
    kept = {name: os.environ[name] for name in os.environ if name.startswith(("PIP_", "UV_", "SSL_", "http", "HTTP"))}
    path = ":".join(part for part in os.environ["PATH"].split(":") if ".venv" not in part and "shims" not in part)
    return {**kept, "PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "NO_COLOR": "1", **environ}


def install(interpreter: Path, room: Path, wanted: str, *, borrowed: Path | None = None) -> Path:
    """
    Install a distribution in a new environment.

    :param room: gets ``.venv``.
    :param wanted: what pip is given, such as ``/dist/agtphost-0.2.0-py3-none-any.whl[samples]``.
    :param borrowed: packages that stand for what pip would fetch, for a wheel; None to have it fetched.
    :return: the directory of its programs.
    """
    run(interpreter, "-m", "venv", *(["--without-pip"] if borrowed else []), ".venv", cwd=room)
    programs = room / ".venv" / "bin"
    if borrowed is None:
        run(programs / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", wanted, cwd=room)
        return programs
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    quiet = ["-q", "--no-deps", "--no-index", "--no-compile"]
    plain = re.sub(r"\[.*\]$", "", wanted)
    run(*pip, "--python", programs / "python", "install", *quiet, plain, cwd=room)
    (site,) = (room / ".venv").glob("lib/python3*/site-packages")
    lend_compiled(site)
    (site / "borrowed.pth").write_text(f"{borrowed}\n")
    (programs / "twistd").write_text(
        f"#!{programs}/python\nimport sys\nfrom twisted.scripts.twistd import run\nsys.exit(run())\n"
    )
    (programs / "twistd").chmod(0o755)
    return programs


def installed_files(programs: Path) -> dict[str, int]:
    """Return the files of the package in an environment, with their sizes."""
    (site,) = programs.parent.glob("lib/python3*/site-packages")
    found = [*(site / "agtphost").rglob("*"), *(site / "twisted" / "plugins").glob("agtphost*")]
    return {
        str(path.relative_to(site)): path.stat().st_size
        for path in found
        if path.is_file() and "__pycache__" not in path.parts
    }


# The README's story


@contextmanager
def started(
    *words: str | Path, cwd: Path, ready: str, start: Callable[..., Any] = subprocess.Popen, **environ: str
) -> Iterator[list[str]]:
    """
    Run a host until the block ends; yield the lines that it printed.

    :param ready: what a line has once it is ready.
    :param start: takes what :class:`subprocess.Popen` takes.
    :raises ReleaseError: it does not become ready, or does not end well.
    """
    command = [str(word) for word in words]
    process = start(
        command, cwd=cwd, env=stranger(cwd, **environ), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    late = threading.Timer(PATIENCE, process.kill)
    late.start()
    assert process.stdout is not None
    printed: list[str] = []
    try:
        for line in process.stdout:
            printed.append(line)
            if ready in line:
                break
        else:
            raise ReleaseError(f"{' '.join(command)} is not ready: {''.join(printed)[-2000:]}")
        drained = threading.Thread(target=lambda: printed.extend(process.stdout or ()))
        drained.start()
        yield printed
        process.send_signal(signal.SIGTERM)
        if (status := process.wait(PATIENCE)) != 0:
            raise ReleaseError(f"{' '.join(command)} ended with {status}: {''.join(printed)[-2000:]}")
        drained.join()
    finally:
        late.cancel()
        process.kill()
        process.wait()


def tell_story(programs: Path, room: Path, story: Story = STORY) -> None:
    """
    Run the README's "Try it" as it stands there, with programs of a wheel.

    :param room: where ``.venv`` is, as the README has it.
    :param story: the lines to run.
    :raises ReleaseError: a line does not do what the README says.
    """
    with started(programs / "agtp", "up", "demo", cwd=room, ready="ready", AGTPHOST_PORT=str(free_port())):
        script = "\n".join(f"{{ {line}\n}} 2>&1; printf '\\0%d\\0' $?" for line, _, _ in story)
        told = run("bash", "-c", script, cwd=room).split("\0")
        for (line, status, parts), output, got in zip(story, told[0::2], told[1::2], strict=False):
            if int(got) != status or not all(part in output for part in parts):
                raise ReleaseError(f"{line!r} ended with {got} and said: {output[-1500:]}")
        if len(told) // 2 != len(story):
            raise ReleaseError("the story ended early")


def run_deployment(programs: Path, room: Path) -> None:
    """
    Start what ``agtp init`` writes, by ``twistd agtp`` and by ``agtp run``, and verify its records.

    :param programs: with ``agtp``, and ``twistd`` where it is there.
    :raises ReleaseError: one of them does not.
    """
    agtp = programs / "agtp"
    run(agtp, "init", "my-host", "--port", str(free_port()), cwd=room)
    ways = [[agtp, "run", "--config", "my-host/host.toml"]]
    if (programs / "twistd").exists():
        ways.append([programs / "twistd", "-n", "agtp", "--config", "my-host/host.toml"])
    for words in ways:
        with started(*words, cwd=room, ready="agtphost ready: agtp://"):
            run(agtp, "call", "-", "DISCOVER", "/methods", "--verify", "--config", "my-host", cwd=room)
    said = run(agtp, "audit", "verify", "--config", "my-host", cwd=room)
    if "verified" not in said:
        raise ReleaseError(f"agtp audit verify said: {said}")


def check_commands(programs: Path, room: Path) -> None:
    """
    Ask every program of the wheel for its help.

    :raises ReleaseError: one is missing, or of another version.
    """
    for name in COMMANDS:
        run(programs / name, "--help", cwd=room)
    if (said := run(programs / "agtp", "--version", cwd=room).strip()) != f"agtphost {__version__}":
        raise ReleaseError(f"agtp --version says {said}")


# All of it


def try_wheel(
    interpreter: Path, wheel: Path, room: Path, *, borrowed: Path | None = None, story: Story = STORY
) -> Path:
    """
    Install the wheel with one Python, and tell the story.

    :return: the directory of its programs.
    :raises ReleaseError: something does not work.
    """
    room.mkdir(parents=True)
    programs = install(interpreter, room, f"{wheel}[samples]", borrowed=borrowed)
    check_commands(programs, room)
    tell_story(programs, room, story)
    run_deployment(programs, room)
    return programs


def try_python(interpreter: Path, wheel: Path, sdist: Path, room: Path) -> None:
    """
    Install wheel and sdist with one Python, compare them, and tell the story.

    :raises ReleaseError: something does not work.
    """
    programs = try_wheel(interpreter, wheel, room / "wheel")
    (room / "sdist").mkdir()
    other = install(interpreter, room / "sdist", str(sdist))
    check_commands(other, room / "sdist")
    if (ours := installed_files(programs)) != (theirs := installed_files(other)):
        raise ReleaseError(f"the sdist installs other files: {sorted(set(ours.items()) ^ set(theirs.items()))[:5]}")


def try_tool(tool: str, interpreter: Path, wheel: Path, room: Path) -> None:
    """
    Install the wheel as a tool, by ``pipx`` or ``uv``, and run what it puts on the path.

    :raises ReleaseError: a program that the texts name is not there, or does not run.
    """
    room.mkdir(parents=True)
    run(interpreter, "-m", "venv", ".installer", cwd=room)
    installer, programs = room / ".installer" / "bin", room / "bin"
    run(installer / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", tool, cwd=room)
    if tool == "uv":
        places = {"UV_TOOL_DIR": str(room / "tools"), "UV_TOOL_BIN_DIR": str(programs), "UV_PYTHON_DOWNLOADS": "never"}
        words = [installer / "uv", "tool", "install", "--quiet", "--python", interpreter, f"{wheel}[samples]"]
    else:
        places = {"PIPX_HOME": str(room / "tools"), "PIPX_BIN_DIR": str(programs)}
        words = [installer / "pipx", "install", "--quiet", "--python", interpreter, f"{wheel}[samples]"]
    run(*words, cwd=room, **places)
    check_commands(programs, room)
    run_deployment(programs, room)


def make_release(target: Path, room: Path, versions: Sequence[str], tools: Sequence[str], say: Say) -> Report:
    """
    Build into a directory, and try all of it.

    :param target: gets wheels and sdists.
    :param room: for environments; removed by the caller.
    """
    report = Report()
    shutil.rmtree(target, ignore_errors=True)
    source = copy_tree(room / "source")
    sdist, wheel = build(source, target, "wheel", "sdist")
    if wheel.suffix != ".whl":
        sdist, wheel = wheel, sdist
    for each in sorted((source / "packages").iterdir()):
        build(each, target, "wheel", "sdist")
    say(f"built {', '.join(path.name for path in sorted(target.iterdir()))}")
    for path in (wheel, sdist):
        report.faults += [f"{path.name}: {fault}" for fault in check_metadata(read_metadata(path))]
    report.faults += compare_with_sdist(wheel, sdist, room / "compared")
    report.missing += [f"[tool.agtphost.publication] {each} is a placeholder" for each in find_placeholders()]
    say(f"metadata and sdist: {'; '.join(report.faults) or 'sound'}")
    for version in (*versions, *LATER):
        interpreter = find_interpreter(version)
        if interpreter is None:
            report.missing.append(f"Python {version} is not on this machine")
            continue
        _attempt(
            report,
            say,
            f"Python {version}",
            lambda path=interpreter, name=version: try_python(  # type: ignore[misc]
                path, wheel, sdist, room / name
            ),
        )
    for tool in tools:
        _attempt(
            report,
            say,
            f"{tool} install",
            lambda name=tool: try_tool(  # type: ignore[misc]
                name, Path(sys.executable), wheel, room / name
            ),
        )
    return report


def _attempt(report: Report, say: Say, what: str, attempt: Callable[[], None]) -> None:
    try:
        attempt()
    except ReleaseError as error:
        report.faults.append(f"{what}: {error}")
        say(f"{what}: FAILED: {error}")
    else:
        say(f"{what}: works")


def main(arguments: Sequence[str]) -> int:
    """Read the command line, make a release, and print what is wrong and what was not tried."""
    import tempfile

    parser = argparse.ArgumentParser(prog="python -m tests.supply release", description=__doc__)
    parser.add_argument("target", type=Path, nargs="?", default=ROOT / "dist", help="gets what is built (dist)")
    parser.add_argument("--python", action="append", metavar="VERSION", help=f"instead of {', '.join(VERSIONS)}")
    parser.add_argument("--no-tools", action="store_true", help="leave out pipx and uv")
    options = parser.parse_args(arguments)
    tools = () if options.no_tools else ("pipx", "uv")
    with tempfile.TemporaryDirectory(prefix="agtp-release-") as room:
        report = make_release(
            options.target.absolute(),
            Path(room),
            options.python or VERSIONS,
            tools,
            lambda line: print(line, flush=True),
        )
    for line in report.missing:
        print(f"not tried, or to be filled: {line}")
    for line in report.faults:
        print(f"fault: {line}")
    print("sound" if not report.faults else f"{len(report.faults)} faults")
    return 1 if report.faults else 0
