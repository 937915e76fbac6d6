"""What ``agtp init`` writes is worth committing: a clone of it is sound, is tested, and starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agtphost.cli.scaffold import optional_sections
from tests import forking
from tests.system.hosting import agtp, free_port, running
from tests.system.up_host import module, without_others

GIT = ("git", "-c", "user.name=me", "-c", "user.email=me@example.com", "-c", "init.defaultBranch=main")


def run(*words: str | Path, cwd: Path) -> str:
    """A command that succeeds, and what it says."""
    done = forking.run(words, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.release
def test_a_clone_is_a_deployment(tmp_path: Path) -> None:
    """
    init, git add, clone: nothing secret is in it and nothing needed is missing. The example's test passes there,
    ``agtp check`` finds it sound, and the host that starts from it answers the example.
    """
    folder = tmp_path / "work"
    assert agtp("init", "work", "--port", str(free_port()), cwd=tmp_path).returncode == 0
    # A host was started there, and a secret put beside it.
    with running(folder / "host.toml"):
        pass
    (folder / "secrets").mkdir()
    (folder / "secrets" / "key").write_text("s3cret")
    (folder / "host.log").write_text("lines")
    run(*GIT, "init", "-q", cwd=folder)
    run(*GIT, "add", "-A", cwd=folder)
    run(*GIT, "commit", "-qm", "A host", cwd=folder)
    assert run("git", "status", "--porcelain", cwd=folder) == ""
    clone = tmp_path / "clone"
    run("git", "clone", "-q", folder, clone, cwd=tmp_path)
    kept = sorted(str(path.relative_to(clone)) for path in clone.rglob("*") if ".git" not in path.parts)
    assert [name for name in kept if "." in Path(name).name] == [
        ".gitignore",
        "agents/assistant.agent.json",
        "endpoints/greeting.toml",
        "handlers/__init__.py",
        "handlers/greeting.py",
        "host.toml",
        "systemd/agtphost.service",
        "tests/test_greeting.py",
    ]
    assert f"--config {folder}/host.toml" in (clone / "systemd/agtphost.service").read_text()
    assert " passed" in run(*module("pytest", "-q", *without_others(), "-c", os.devnull, "."), cwd=clone)
    assert agtp("check", cwd=clone).returncode == 0
    with running(clone / "host.toml") as host:
        done = host.agtp("call", "-", "QUERY", "/greeting/Ada", "--verify")
        assert done.returncode == 0 and "Hello, Ada!" in done.stdout, done.stdout + done.stderr


def test_every_optional_section_is_sound(tmp_path: Path) -> None:
    """``agtp check`` passes each of the sections that are commented out, and notices a misspelt one (the control)."""
    assert agtp("init", "work", "--port", str(free_port()), cwd=tmp_path).returncode == 0
    file = tmp_path / "work" / "host.toml"
    text = file.read_text()
    assert text.endswith(optional_sections())
    lines = optional_sections().splitlines()
    taken = [line.removeprefix("# ") if line.startswith("# [") or " = " in line else line for line in lines]
    assert sum(line.startswith("[") for line in taken) == 9
    on = "\n".join(taken).replace("4481", str(free_port())).replace("9480", str(free_port()))
    file.write_text(text + on)
    done = agtp("check", "--json", cwd=file.parent)
    assert done.returncode == 0, done.stdout
    file.write_text(text + on.replace("access =", "acces ="))
    assert "did you mean" in agtp("check", cwd=file.parent).stderr


def test_directories_survive_where_nothing_is_in_them(tmp_path: Path) -> None:
    """Production begins without an example, and keeps its directories all the same."""
    words = ("--production", "--server-id", "agents.example.com")
    assert agtp("init", "work", *words, cwd=tmp_path).returncode == 0
    assert (tmp_path / "work/endpoints/.gitkeep").is_file()
    assert not (tmp_path / "work/agents/.gitkeep").exists() and not (tmp_path / "work/handlers").exists()
    run(*GIT, "init", "-q", cwd=tmp_path / "work")
    run(*GIT, "add", "-A", cwd=tmp_path / "work")
    added = run("git", "ls-files", cwd=tmp_path / "work")
    assert "host.toml" in added and ".key" not in added and "state/" not in added


def test_the_sample(tmp_path: Path) -> None:
    """``--sample`` begins with it, at the address that was asked for; an option that is wrong leaves nothing."""
    assert agtp("init", "work", "--sample", "--address", "localhost", cwd=tmp_path).returncode == 2
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    port = free_port()
    assert agtp("init", "work", "--sample", "--port", str(port), "--operator", "Ada", cwd=tmp_path).returncode == 0
    text = (tmp_path / "work/host.toml").read_text()
    assert f"port = {port}" in text and 'operator = "Ada"' in text
    assert agtp("check", cwd=tmp_path / "work").returncode == 0
    assert agtp("init", "other", "--sample", "--production", "--server-id", "x", cwd=tmp_path).returncode == 2
