"""
``python -m tests.supply [DIR]``: SBOM and licences of what ``requirements/run.lock`` installs; DIR is ``dist``.

``python -m tests.supply release``: build what is released, and try it; see :mod:`tests.supply.release`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from agtphost import __version__
from tests.supply.lock import locked
from tests.supply.sbom import bill, licences


def main(folder: Path) -> None:
    """Write both files."""
    pins = locked("run")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sbom.cdx.json").write_text(json.dumps(bill(pins, __version__), indent=2) + "\n")
    (folder / "licences.txt").write_text(licences(pins))


if __name__ == "__main__":
    if sys.argv[1:2] == ["release"]:
        from tests.supply import release

        sys.exit(release.main(sys.argv[2:]))
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist"))
