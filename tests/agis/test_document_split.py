"""A document beyond what one may hold is written as several, each of which conforms; none of its endpoints is lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agtphost.agis import normal
from agtphost.agis.document_split import TooLarge, split_document
from agtphost.agis.findings import Severity
from agtphost.agis.validation import validate
from agtphost.cli import agis_conversion
from agtphost.cli.agis_conversion import split_texts, write_texts
from agtphost.cli.agis_publication import _export_files
from agtphost.cli.failures import WrongInput
from agtphost.cli.root import agtp
from agtphost.config import load
from tests.rows import each_row
from tests.system.hosting import sample


@pytest.fixture
def document(tmp_path: Path) -> Mapping[str, Any]:
    """That of the sample host's endpoints."""
    return _export_files(load(sample(tmp_path)))[0]


@each_row("render", [normal.as_json, normal.as_yaml])
def test_each_of_several_documents_conforms(
    document: Mapping[str, Any], render: Callable[[Mapping[str, Any]], str]
) -> None:
    """Together they have every endpoint once and in order, each within the bound, with the verbs of its own."""
    whole = document
    octets = len(render(whole).encode())
    assert split_document(whole, render, octets) == [render(whole).encode()]
    texts = split_document(whole, render, octets // 2)
    assert 1 < len(texts) <= len(whole["endpoints"]) and all(len(text) <= octets // 2 for text in texts)
    found: list[tuple[str, str]] = []
    for text in texts:
        verdict = validate(text)
        assert [each for each in verdict.findings if each.severity is Severity.ERROR] == []
        assert verdict.document is not None
        own = [(each.method, each.path) for each in verdict.document.endpoints]
        assert set(verdict.document.vocabulary["declared_verbs"]) == {method for method, _ in own}
        found += own
    assert found == [(each["method"], each["path"]) for each in whole["endpoints"]]


def test_an_endpoint_beyond_the_bound_is_named(document: Mapping[str, Any]) -> None:
    """It fits no document, and what is written is never more than readers take."""
    with pytest.raises(TooLarge, match=r"^[A-Z]+ /\S+ has \d+ octets; the limit of a document is 300$"):
        split_document(document, normal.as_json, 300)


def test_several_files_are_numbered(
    tmp_path: Path, document: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file has the name that was given; several are all written or none, and standard output takes one alone."""
    output = tmp_path / "service.agis"
    assert write_texts(split_texts(document, normal.as_json), output) == [str(output)]
    most = len(output.read_bytes()) // 2
    render = split_document
    monkeypatch.setattr("agtphost.agis.document_split.split_document", lambda *given: render(*given, most))
    texts = agis_conversion.split_texts(document, normal.as_json)
    with pytest.raises(WrongInput, match="at most 4 MiB"):
        write_texts(texts, None)
    (tmp_path / "service-2.agis").touch()
    with pytest.raises(WrongInput, match=r"service-2\.agis exists"):
        write_texts(texts, output)
    assert not (tmp_path / "service-1.agis").exists()
    (tmp_path / "service-2.agis").unlink()
    assert write_texts(texts, output) == [str(tmp_path / f"service-{n}.agis") for n in range(1, len(texts) + 1)]


@each_row("form", ["yaml", "json"])
def test_a_large_draft_is_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """``from-mcp`` of many tools writes documents that conform, with every tool once and its REVIEW lines."""
    most, split = 16_384, split_document
    monkeypatch.setattr("agtphost.agis.document_split.split_document", lambda *given: split(*given, most))
    properties = {f"member_{number}": {"type": "string"} for number in range(100)}
    tools = [{"name": f"read_shelf_{number}", "inputSchema": {"properties": properties}} for number in range(20)]
    (tmp_path / "tools.json").write_text(json.dumps({"tools": tools}))
    command = ["agis", "from-mcp", str(tmp_path / "tools.json"), "--to", form, "-o", str(tmp_path / f"{form}.agis")]
    ran = CliRunner().invoke(agtp, [*command, "--json"])
    assert ran.exit_code == 0, ran.output
    files = [Path(file) for file in json.loads(ran.stdout)["files"]]
    assert files == [tmp_path / f"{form}-{number}.agis" for number in range(1, len(files) + 1)] and len(files) > 1
    found: list[tuple[str, str]] = []
    for file in files:
        verdict = validate(file.read_bytes())
        assert len(file.read_bytes()) <= most and verdict.conforms and verdict.document is not None
        found += [(each.method, each.path) for each in verdict.document.endpoints]
        assert form == "json" or file.read_text().count("# REVIEW intent") == len(verdict.document.endpoints)
    assert len(found) == len({*found}) == len(tools)
