"""What may lie in the root of the repository: a stray file there is a stray in every sdist and image."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

from tests.supply.source_tree import INCLUDED

ROOT = Path(__file__).resolve().parents[1]

KNOWN: dict[str, str] = {
    ".ci": "what continuous integration runs",
    ".dockerignore": "what goes into an image",
    ".gitattributes": "how git merges generated files",
    ".gitignore": "what git leaves out",
    "CHANGELOG.rst": "changes, by release",
    "CONTRIBUTING.rst": "how to work on it",
    "Containerfile": "the image's recipe",
    "LICENSE": "the licence",
    "README.rst": "what it is",
    "SECURITY.md": "how to report a vulnerability",
    "agtphost": "the package",
    "compose.yaml": "the image in a deployment",
    "docs": "the documentation",
    "etc": "the sample deployment, and what operators take over",
    "packages": "distributions of their own",
    "pyproject.toml": "metadata, and settings of tools",
    "requirements": "lock files",
    "tests": "the tests",
    "twisted": "the plugin that makes `twistd agtp` known",
}
"""Every file and directory, and why it has to be there."""

OF_GIT = (".git",)


def find_strays(root: Path) -> list[str]:
    """Return what lies in a root that is neither known nor ignored by git."""
    ignored = [line.strip("/") for line in (root / ".gitignore").read_text().splitlines() if line]
    names = (path.name for path in root.iterdir())
    return sorted(
        name for name in names if name not in {*KNOWN, *OF_GIT} and not any(fnmatch(name, p) for p in ignored)
    )


def test_nothing_else_lies_in_the_root() -> None:
    """A new file there needs a reason, which stands in the table."""
    assert find_strays(ROOT) == []
    assert [name for name in KNOWN if not (ROOT / name).exists()] == []


def test_a_stray_is_noticed(tmp_path: Path) -> None:
    """The control: notes, output and scripts of somebody's are named; what git ignores is not."""
    for name in (*KNOWN, "notes.txt", "stall.sh", "twistd.pid", "dist"):
        (tmp_path / name).mkdir()
    (tmp_path / ".gitignore").rmdir()
    (tmp_path / ".gitignore").write_text((ROOT / ".gitignore").read_text())
    assert find_strays(tmp_path) == ["notes.txt", "stall.sh"]


def test_a_release_is_built_from_all_of_it() -> None:
    """What is copied for a build is what lies here, but for what is git's own."""
    assert sorted(INCLUDED) == sorted(set(KNOWN) - {".gitattributes"})
