"""QUERY answers from what the host holds (core v08 section 7.2.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agtphost.contract.binding import Binding
from agtphost.errors import Problem
from agtphost.identity.peer import Assurance
from agtphost.methods.cognitive import documents, relevance
from agtphost.methods.cognitive.documents import Library, ReadableDocument, read_documents
from tests.methods.floor_hosts import CALLER, OTHER, FloorHost, endpoint
from tests.methods.hosts import Toolbox
from tests.rows import each_row

LEAVE = ReadableDocument(
    name="staff/leave.md",
    text="# Leave policy\n\nEvery employee has 28 days of holiday a year. Unused holidays expire in March.",
)
PARKING = ReadableDocument(name="parking.txt", text="Cars are parked in the yard. The yard is locked at night.")
SECRET = endpoint("FETCH", "/vault", "Opens the vault of holidays.", required_scopes=("vault:open",))


def host_with_documents() -> FloorHost:
    tool = Binding(
        method="EXECUTE",
        path="/mcp/files",
        handler=SECRET.handler,
        tier="B",
        name="files.read",
        description="Reads a file about parked cars.",
        min_assurance=Assurance.HEADER,
    )
    return FloorHost(documents=[LEAVE, PARKING], endpoints=[SECRET], adapter=Toolbox(tool))


def test_results_have_source_and_confidence() -> None:
    """A question is answered from the documents, with provenance and confidence (AGTP-060, AGTP-185, AGTP-186)."""
    found = host_with_documents().result("QUERY", intent="How many days of holiday does an employee have?")
    first = found["results"][0]
    assert first["source"] == "document:staff/leave.md"
    assert "28 days of holiday" in first["text"]
    assert all(0 < result["confidence"] <= 1 and result["source"] for result in found["results"])


@each_row("threshold", [0.0, 0.3, 0.6, 0.9, 1.0])
def test_the_threshold_leaves_out(threshold: float) -> None:
    """Results below the threshold are left out, and those above it are not (AGTP-186)."""
    question = "parked cars in the yard"
    every = host_with_documents().result("QUERY", intent=question)["results"]
    shown = host_with_documents().result("QUERY", intent=question, confidence_threshold=threshold)["results"]
    assert shown == [result for result in every if result["confidence"] >= threshold]
    assert len(every) > 1


@each_row(
    ("name", "value"),
    [
        ("intent", ""),
        ("intent", 7),
        ("intent", {}),
        ("intent", "x" * 9_000),
        ("intent", None),
        ("format", "xml"),
        ("format", 1),
        ("confidence_threshold", 1.5),
        ("confidence_threshold", -0.1),
        ("confidence_threshold", True),
        ("confidence_threshold", "0.5"),
        ("scope", "moon"),
        ("scope", 3),
        ("max_results", 0),
    ],
)
def test_bad_parameters_are_422(name: str, value: Any) -> None:
    """Each bad value is 422 and names its parameter (AGTP-185)."""
    answer = host_with_documents().ask("QUERY", **{"intent": "cars", name: value})
    assert answer.status == 422
    assert f'"parameter":"{name}"'.encode() in answer.body.replace(b": ", b":")


@each_row(
    ("scope", "kinds"),
    [
        ("documents", {"documents"}),
        (["tools"], {"tools"}),
        ("-documents, -endpoints", {"tools", "agents"}),
        ("documents/staff", set()),
        ("!documents/parking.txt", {"tools", "endpoints", "agents"}),
    ],
)
def test_scope_includes_and_excludes(scope: Any, kinds: set[str]) -> None:
    """``scope`` says what is asked, down to a folder or document (AGTP-185)."""
    found = host_with_documents().result("QUERY", intent="parked cars", scope=scope)["results"]
    assert {result["kind"] for result in found} <= kinds
    assert bool(found) is bool(kinds & {"documents", "tools"})


def test_formats() -> None:
    """``raw`` shows all of a passage, ``natural`` words it, ``structured`` is what goes without saying (AGTP-185)."""
    long = ReadableDocument(name="long.txt", text="Cars here. " + "Cars are parked in the yard at night. " * 25)
    host = FloorHost(documents=[long])
    short, raw = (host.result("QUERY", intent="cars", format=form)["results"][0] for form in ("structured", "raw"))
    assert len(short["text"]) < 410 < len(raw["text"])
    natural = host.result("QUERY", intent="cars", format="natural")
    assert "[document:long.txt]" in natural["answer"]
    assert host.result("QUERY", intent="zzz", format="natural")["answer"].startswith("This host has nothing")
    assert host.result("QUERY", intent="cars") == host.result("QUERY", intent="cars", format="structured")


def test_a_structured_intent() -> None:
    """An intent may be an object; its words are what is asked (core v08 section 7.2.1)."""
    found = host_with_documents().result("QUERY", intent={"about": "holiday", "who": ["employee"]}, scope="documents")[
        "results"
    ]
    assert found[0]["title"] == "staff/leave.md"


def test_nobody_finds_what_he_may_not_call() -> None:
    """Endpoints without whose scopes the caller is are not told of (design decision 14)."""
    assert "FETCH /vault" not in str(host_with_documents().result("QUERY", intent="open the vault"))
    allowed = FloorHost(endpoints=[endpoint("FETCH", "/vault", "Opens the vault.", required_scopes=("booking:room",))])
    assert "FETCH /vault" in str(allowed.result("QUERY", intent="open the vault", by=CALLER))
    assert "FETCH /vault" not in str(allowed.result("QUERY", intent="open the vault", by=OTHER))


@each_row(
    ("disclosure", "certain", "seen"),
    [("public", False, True), ("authenticated", False, False), ("authenticated", True, True), ("private", True, False)],
)
def test_agents_are_shown_to_whom_the_operator_shows_them(disclosure: str, certain: bool, seen: bool) -> None:
    """``policies.agent_disclosure`` holds for QUERY as it does for DISCOVER."""
    host = FloorHost({"policies": {"agent_disclosure": disclosure}}, floor=None if certain else Assurance.HEADER)
    found = host.result("QUERY", intent="the agent desk", scope="agents", certain=certain)["results"]
    assert bool(found) is seen


def test_the_same_question_has_the_same_answer() -> None:
    """QUERY is idempotent (core v08 section 7.2.1)."""
    host = host_with_documents()
    first, second = (host.ask("QUERY", intent="cars or holiday").body for _ in range(2))
    assert first == second


@each_row("text", ['cars" OR name:*', "NEAR(cars yard)", "cars AND", "-", "(", '"', "cars^2 {a b}: *"])
def test_no_word_is_an_operator(text: str) -> None:
    """What a caller writes is words to look for and nothing else."""
    assert len(Library([PARKING]).find(text, 10)) in (0, 1)


def test_documents_are_read_from_the_folder_alone(tmp_path: Path) -> None:
    """Text files below the folder are read; hidden ones, other kinds and links that lead out are not."""
    (tmp_path / "outside.txt").write_text("outside")
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a.md").write_text("Alpha.")
    (folder / "b.json").write_text('{"name": "Beta", "n": 3}')
    (folder / ".hidden.txt").write_text("hidden")
    (folder / "tool.py").write_text("import os")
    (folder / "link.txt").symlink_to(tmp_path / "outside.txt")
    problems: list[Problem] = []
    found = read_documents(folder, problems)
    assert {document.name: document.text for document in found} == {"b.json": "name Beta n 3", "sub/a.md": "Alpha."}
    assert problems == []


def test_what_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken or oversized documents are named instead of being left out silently."""
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "latin.txt").write_bytes(b"\xff\xfe")
    problems: list[Problem] = []
    assert read_documents(tmp_path, problems) == []
    assert [Path(problem.file).name for problem in problems] == ["bad.json", "latin.txt"]
    monkeypatch.setattr(documents, "LARGEST", 1)
    problems.clear()
    read_documents(tmp_path, problems)
    assert "more than" in problems[-1].message


@each_row("words", ["reserve reserves reserved reserving", "party parties", "file files", "plan planned planning"])
def test_forms_of_a_word_count_as_one(words: str) -> None:
    """Endings don't keep a question from its answer."""
    assert len(set(relevance.terms(words))) == 1
