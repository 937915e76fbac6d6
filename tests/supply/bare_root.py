"""
The steps of ``Containerfile``, run in bare root directories.

No image can be built where the tests run. So each stage is a directory with a minimal Debian, in which RUN is a
``chroot``, and COPY, ENV, USER and WORKDIR are what they say. What stands for the base image is made by debootstrap.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

SUITE, MIRROR = "trixie", "http://deb.debian.org/debian"
"""The release that the base image is made of, whose Python is 3.13."""

PACKAGES = "ca-certificates,python3,python3-venv"
PASSED_ON = ("PIP_CERT", "PIP_DEFAULT_TIMEOUT", "PIP_INDEX_URL", "NPM_CONFIG_REGISTRY", "http_proxy", "https_proxy")
"""Variables that tell the ordinary clients of this machine where registries are."""

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class StepFailed(Exception):
    """A step of the recipe did not work; the message has what it printed."""


@dataclass
class Stage:
    """One stage of the recipe, as a directory."""

    root: Path
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": PATH, "HOME": "/root"})
    user: str = "0"
    workdir: str = "/"
    arguments: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    """What tells how to run it: ENTRYPOINT, CMD, HEALTHCHECK, STOPSIGNAL, EXPOSE."""

    def command(self, words: Sequence[str]) -> list[str]:
        """
        Return how words are run inside, as the stage's user.

        ``/proc`` is mounted as in a container, in a namespace that ends with the command.
        """
        user = f"{self.user}:{self.user}"
        given = {**self.environment, **{name: os.environ[name] for name in PASSED_ON if name in os.environ}}
        inner = f"cd {shlex.quote(self.workdir)} && exec " + shlex.join(words)
        variables = [f"{name}={value}" for name, value in given.items()]
        mounted = 'mount -t proc proc "$0/proc" && exec chroot "$@"'
        outer = ["unshare", "--mount", "sh", "-c", mounted, str(self.root), f"--userspec={user}", str(self.root)]
        return [*outer, "/usr/bin/env", "-i", *variables, "sh", "-c", inner]


def debootstrap(target: Path) -> None:
    """
    Make what stands for the base image.

    :raises StepFailed: debootstrap failed.
    """
    words = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(target), MIRROR]
    done = subprocess.run(words, capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise StepFailed(f"debootstrap: {(done.stdout + done.stderr)[-2000:]}")
    for name in ("resolv.conf", "hosts"):
        shutil.copy(f"/etc/{name}", target / "etc" / name)
    certificates = Path("/etc/ssl/certs/ca-certificates.crt")
    if certificates.exists():
        shutil.copy(certificates, target / "etc/ssl/certs/ca-certificates.crt")


def instructions(recipe: str) -> Iterator[tuple[str, str]]:
    """Yield each instruction and what follows it; continued lines are joined, comments left out."""
    text = re.sub(r"^\s*#.*\n", "", recipe, flags=re.MULTILINE)
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            yield name, " ".join(rest.split()) if name != "RUN" else rest


def context_files(context: Path) -> Iterator[Path]:
    """Yield the files of a build context that ``.dockerignore`` lets into it, relative to the context."""
    rules = [line for line in (context / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    for folder, folders, names in os.walk(context):
        folders[:] = [name for name in folders if name not in (".git", ".venv", ".mypy_cache")]
        for name in names:
            path = (Path(folder) / name).relative_to(context)
            if not is_ignored(path, rules):
                yield path


def is_ignored(path: Path, rules: Sequence[str]) -> bool:
    """Return whether the last rule that matches a path, or a directory above it, leaves it out."""
    ignored = False
    above = [path, *path.parents][:-1]
    for rule in rules:
        pattern = rule.removeprefix("!")
        if any(matches(str(each), pattern) for each in above):
            ignored = not rule.startswith("!")
    return ignored


def matches(name: str, pattern: str) -> bool:
    """Return whether a rule's pattern is that of a path: ``**/`` is any number of directories, ``*`` no slash."""
    if pattern.startswith("**/"):
        return any(matches(part, pattern[3:]) for part in _tails(name))
    parts, wanted = name.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatch, parts, wanted))


def _tails(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[at:]) for at in range(len(parts))]


class Builder:
    """
    Builds the stages of a recipe.

    :param base: the root directory that stands for the base image.
    :param context: what COPY copies from.
    :param room: gets a directory for each stage.
    """

    def __init__(self, base: Path, context: Path, room: Path) -> None:
        self._base = base
        self._context = context
        self._room = room
        self.stages: dict[str, Stage] = {}

    def build(self, recipe: str) -> Stage:
        """
        Run every step.

        :return: the last stage.
        :raises StepFailed: a step failed.
        """
        stage: Stage | None = None
        for name, rest in instructions(recipe):
            if name == "FROM":
                stage = self._begin(rest)
            elif name == "ARG" and stage is None:
                continue
            else:
                assert stage is not None
                self._run(stage, name, rest)
        assert stage is not None
        return stage

    def _begin(self, rest: str) -> Stage:
        source, _, name = rest.partition(" AS ")
        before = self.stages.get(source)
        if before is None and source != "${BASE}":
            raise StepFailed(f"FROM {source}: there is no such stage")
        root = self._room / name
        subprocess.run(
            ["cp", "-a", "--reflink=auto", str(before.root if before else self._base), str(root)], check=True
        )
        (root / "dev").mkdir(exist_ok=True)
        stage = Stage(root=root)
        if before is not None:
            stage.environment, stage.user, stage.workdir = dict(before.environment), before.user, before.workdir
            stage.metadata = dict(before.metadata)
        self.stages[name] = stage
        return stage

    def _run(self, stage: Stage, name: str, rest: str) -> None:
        if name == "ARG":
            key, _, value = rest.partition("=")
            stage.arguments[key] = value
        elif name == "ENV":
            stage.environment.update(word.partition("=")[::2] for word in shlex.split(rest))
        elif name == "WORKDIR":
            stage.workdir = rest
            (stage.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif name == "USER":
            stage.user = rest
        elif name == "COPY":
            self._copy(stage, rest.split())
        elif name == "RUN":
            command = re.sub(r"\$\{(\w+)\}", lambda found: stage.arguments.get(found[1], found[0]), rest)
            done = subprocess.run(stage.command(["sh", "-c", command]), capture_output=True, text=True, timeout=1200)
            if done.returncode:
                raise StepFailed(f"RUN {command}\n{(done.stdout + done.stderr)[-3000:]}")
        elif name in ("ENTRYPOINT", "CMD", "HEALTHCHECK", "STOPSIGNAL", "EXPOSE"):
            stage.metadata[name] = rest
        else:
            raise StepFailed(f"{name} is an instruction that is not known here")

    def _copy(self, stage: Stage, words: list[str]) -> None:
        source = None
        if words[0].startswith("--from="):
            source = self.stages[words.pop(0).removeprefix("--from=")].root
        *names, target = words
        place = stage.root / stage.workdir.lstrip("/") if target == "." else stage.root / target.strip("/")
        place.mkdir(parents=True, exist_ok=True)
        if source is None:
            assert names == ["."], "the whole context is copied"
            for path in context_files(self._context):
                (place / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self._context / path, place / path)
            return
        for name in names:
            found = source / name.strip("/")
            if found.is_dir():
                shutil.copytree(found, place, dirs_exist_ok=True)
            else:
                shutil.copy(found, place)


def words_of(stage: Stage, name: str) -> list[str]:
    """Return the words of ENTRYPOINT, CMD or the command of HEALTHCHECK."""
    text = stage.metadata[name]
    found: list[str] = json.loads(text[text.index("[") :])
    return found
