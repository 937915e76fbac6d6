"""OpenAPI documents of the real world: GitHub's with a thousand operations, and Cardano's, from the npm registry."""

from __future__ import annotations

import json
import time
import tomllib
from pathlib import Path

import pytest

from agtphost.contract.declaration import Rules
from agtphost.contract.loading import load_endpoints
from agtphost.vocabulary.catalog import Catalog
from tests import npm
from tests.system.hosting import agtp

DOCUMENTS = [
    ("@octokit/openapi", "generated/api.github.com.json", 900),
    ("@blockfrost/openapi", "openapi.yaml", 80),
]


@pytest.mark.slow
@pytest.mark.parametrize(("package", "name", "least"), DOCUMENTS)
def test_a_large_document_becomes_endpoints(package: str, name: str, least: int, tmp_path: Path) -> None:
    """
    API-146..148: every operation is either an endpoint or named as lost, in seconds.

    Methods are the catalog's, each file says what to review, and none is loaded before that is done.
    """
    file = npm.document(package, name)
    begun = time.monotonic()
    done = agtp("openapi", "import", str(file), "--out", str(tmp_path / "endpoints"), "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    assert time.monotonic() - begun < 90
    summary = json.loads(done.stdout)
    endpoints = summary["endpoints"]
    assert len(endpoints) >= least
    catalog = Catalog.load()
    assert {endpoint["method"] for endpoint in endpoints} <= set(catalog.methods)
    assert len({(endpoint["method"], endpoint["path"]) for endpoint in endpoints}) == len(endpoints)
    assert load_endpoints(tmp_path / "endpoints", Rules(catalog=catalog)) == ([], [])
    written = sorted((tmp_path / "endpoints").iterdir())
    assert written and all(path.name.endswith(".toml.review") for path in written)
    for path in written[:50]:
        assert tomllib.loads(path.read_text())
        assert "REVIEW" in path.read_text()
