"""What a release and an image are built from."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.supply.lock import ROOT

INCLUDED = (
    *(".ci", "agtphost", "docs", "etc", "packages", "requirements", "tests", "twisted"),
    *(".dockerignore", ".gitignore", "CHANGELOG.rst", "CONTRIBUTING.rst", "Containerfile", "LICENSE", "README.rst"),
    *("SECURITY.md", "compose.yaml", "pyproject.toml"),
)


def copy_tree(target: Path) -> Path:
    """Copy what a release is built from: no cache, no state, nothing that git ignores."""
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", "dropin.cache", "state", "node_modules", "*.egg-info")
    target.mkdir(parents=True)
    for name in INCLUDED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=ignored, symlinks=True)
        else:
            shutil.copy(source, target / name)
    return target
