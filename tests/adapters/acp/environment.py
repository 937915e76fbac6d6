"""The ACP SDK in an environment of its own: it needs an older uvicorn than the MCP SDK does."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

WANTED = ("acp-sdk==1.0.3", "uvicorn==0.35.0")
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "agtphost-tests"


def interpreter() -> str:
    """The Python that has the SDK; made with pip where it does not exist yet."""
    home = CACHE / f"acp-sdk-1.0.3-{sys.version_info.major}.{sys.version_info.minor}"
    python = home / "bin" / "python"
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"{home.name}.lock", "w") as lock:
        # Several test processes may want it at once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "complete").exists():
            shutil.rmtree(home, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *WANTED], check=True)
            (home / "complete").touch()
    return str(python)
