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
from tests.programmes import CHOSEN, length
from tests.system.hosting import sample
from tests.system.test_openapi_checked import agtp, problems

DOCUMENTS = [
    ("@octokit/openapi", "generated/api.github.com.json", length(85, 900)),
    ("@blockfrost/openapi", "openapi.yaml", 80),
]


@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("package", "name", "least"), DOCUMENTS)
def test_a_large_document_becomes_endpoints(package: str, name: str, least: int, tmp_path: Path) -> None:
    """
    API-146..148: every operation is either an endpoint or named as lost, in seconds.

    Methods are the catalog's, each file says what to review, and none is loaded before that is done. Of GitHub's
    thousand operations and Cardano's not one is skipped, and none is written that check refuses. Shortened, GitHub's
    document has every tenth of its paths.
    """
    file = npm.document(package, name)
    if file.suffix == ".json" and not CHOSEN.whole:
        whole = json.loads(file.read_text())
        whole["paths"] = dict(list(whole["paths"].items())[::10])
        file = tmp_path / "tenth.json"
        file.write_text(json.dumps(whole))
    config = sample(tmp_path / "host")
    endpoints = config.parent / "endpoints"
    begun = time.monotonic()
    done = agtp("openapi", "import", str(file), "--out", str(endpoints), "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    assert time.monotonic() - begun < 90
    summary = json.loads(done.stdout)
    assert summary["skipped"] == []
    imported = summary["endpoints"]
    assert len(imported) >= least
    catalog = Catalog.load()
    assert {endpoint["method"] for endpoint in imported} <= set(catalog.methods)
    assert len({(endpoint["method"], endpoint["path"]) for endpoint in imported}) == len(imported)
    written = sorted(set(endpoints.iterdir()) - set(endpoints.glob("*.toml")))
    assert len(written) == len(imported) and all(path.name.endswith(".toml.review") for path in written)
    alone = tmp_path / "alone"
    alone.mkdir()
    for path in written:
        (alone / path.name).symlink_to(path)
    assert load_endpoints(alone, Rules(catalog=catalog)) == ([], [])
    for path in written[:50]:
        assert tomllib.loads(path.read_text())
        assert "REVIEW" in path.read_text()
    assert problems(config) == []
