"""A real host after a catalog upgrade: what is left out is named, the rest serves, old clients are understood."""

from __future__ import annotations

import json
from pathlib import Path

from tests.system.hosting import running, sample
from tests.vocabulary.test_catalog_set import document

CONFIGURED = """
[catalog]
path = "new.json"
versions = ["old.json"]
[policies.methods]
disallow = ["GRADE"]
"""


def test_an_upgrade_leaves_what_is_still_valid(tmp_path: Path) -> None:
    """API-012, API-016, API-017, API-019, API-020, API-024: BOOK is gone for good; 1.1.0 still has ECHO."""
    file = sample(tmp_path, append=CONFIGURED)
    folder = file.parent
    new = document("2.0.0", BOOK=None, GRADE=None, ECHO=None, QUERY={"deprecated_in": "2.0.0", "successor": "FETCH"})
    (folder / "new.json").write_text(json.dumps(new))
    (folder / "old.json").write_text(json.dumps(document("1.1.0", BOOK=None, GRADE=None)))
    with running(file) as host:
        output = host.output
        assert "rooms.toml:" in output and "the method BOOK was removed; catalog 2.0.0 does not have it" in output
        assert "GRADE is not in catalog 2.0.0" in output

        negotiated = host.agtp_json("catalog", "negotiate", "--prefer", "1.1.0")
        assert negotiated["version"] == "1.1.0"
        assert host.agtp("catalog", "negotiate", "--prefer", "3.0.0").returncode == 1

        for version, status in (("1.1.0", 200), (None, 459), ("2.0.0", 459), ("9.9.9", 400)):
            words = ["--header", f"AGTP-Catalog-Version:{version}"] if version else []
            done = host.agtp("call", "-", "ECHO", "/text", "text=hello", "-i", *words)
            assert f"AGTP/1.0 {status} " in done.stdout + done.stderr, (version, done.stdout, done.stderr)
        shown = host.agtp("call", "-", "QUERY", "/nowhere", "-i")
        assert "AGTP-Catalog-Warning: deprecated; successor=FETCH" in shown.stdout + shown.stderr
        listed = {entry["method"] for entry in host.agtp_json("methods", "-")["methods"]}
        assert "BOOK" not in listed and "DISCOVER" in listed
