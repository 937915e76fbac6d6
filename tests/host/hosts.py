"""The sample deployment as a configuration, for tests that build parts of a host without running one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agtphost.config import Config, load
from tests.system.hosting import sample


def configured(directory: Path, *, edit: tuple[tuple[str, str], ...] = (), append: str = "") -> Config:
    """The configuration of a copy of ``etc/``."""
    return reloaded(sample(directory, edit=edit, append=append))


def reloaded(file: Path, environ: Mapping[str, str] | None = None) -> Config:
    """The configuration as the file has it now."""
    return load(file, environ or {})
