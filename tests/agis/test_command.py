"""``agtp agis``: what it prints, in each form, and with which status it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from agtphost.cli.root import agtp
from tests.agis.documents import DOCUMENT, changed

BROKEN = changed(
    ("endpoints.0.method", "GET"), ("endpoints.0.path", "/getUser"), ("vocabulary.declared_verbs", ["GET"])
)


@pytest.fixture()
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a document that conforms, one that does not, and one that deserves a look."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.agis").write_text(json.dumps(DOCUMENT))
    (tmp_path / "broken.agis").write_text(json.dumps(BROKEN, indent=1))
    (tmp_path / "odd.agis").write_text(json.dumps(changed(("vocabulary.domain", None))))
    return tmp_path


def agis(*words: str, text: str | None = None) -> Result:
    """What the command does."""
    return CliRunner().invoke(agtp, ["agis", *words], input=text, prog_name="agtp")


def test_a_document_that_conforms(folder: Path) -> None:
    """One line; every pass where somebody wants to see them."""
    assert (agis("validate", "good.agis").output, agis("validate", "good.agis").exit_code) == (
        "good.agis: conforms\n",
        0,
    )
    said = agis("validate", "-v", "good.agis").output.splitlines()
    assert len(said) == 9 and said[1] == "ok   2 Method Syntax"
    assert agis("validate", "-", text=json.dumps(DOCUMENT)).output == "-: conforms\n"


def test_one_that_does_not(folder: Path) -> None:
    """Each line says where, which rule and section, and what to write instead."""
    done = agis("validate", "good.agis", "broken.agis")
    assert done.exit_code == 1
    assert (
        "broken.agis:9:4: error AGIS-P3-http-method [AGIS v01 section 4.3] GET /getUser: GET is an HTTP method"
        in done.output
    )
    assert "try: FETCH /user" in done.output and "try: /user" in done.output
    assert "good.agis: conforms\n" in done.output and "broken.agis: does not conform (" in done.output


def test_the_forms(folder: Path) -> None:
    """JSON, JUnit and SARIF have the same findings."""
    files = ("validate", "good.agis", "broken.agis")
    good, broken = json.loads(agis(*files, "--json").output)
    assert good["conforms"] and not good["findings"] and not broken["conforms"]
    assert json.loads(agis(*files, "--format", "json").output) == [good, broken]
    suites = ElementTree.fromstring(agis(*files, "--format", "junit").output)
    failed = {
        int(case.attrib["name"].split()[0]) for case in suites.iter("testcase") if case.find("failure") is not None
    }
    assert failed == {each["pass"] for each in broken["findings"] if each["severity"] == "error"}
    sarif = json.loads(agis(*files, "--format", "sarif").output)
    (run,) = sarif["runs"]
    assert [each["ruleId"] for each in run["results"]] == [each["rule"] for each in broken["findings"]]
    rules = run["tool"]["driver"]["rules"]
    for result, finding in zip(run["results"], broken["findings"], strict=True):
        assert rules[result["ruleIndex"]]["id"] == finding["rule"]
        region = result["locations"][0]["physicalLocation"]["region"]
        assert (region["startLine"], region["startColumn"]) == (finding["line"], finding["column"])


def test_warnings_are_left_out_for_a_reason(folder: Path) -> None:
    """Errors never are; the reason is printed."""
    assert "AGIS-P7-domain" in agis("validate", "odd.agis").output
    done = agis("validate", "odd.agis", "--suppress", "AGIS-P7-domain=there is only one")
    assert done.output == "odd.agis: conforms (1 suppressed)\nsuppressed: 1 of AGIS-P7-domain: there is only one\n"
    for given, said in (
        ("AGIS-P7-domain", "no reason"),
        ("AGIS-P9-x=y", "is not a rule"),
        ("AGIS-P3-http-method=we like it", "is an error"),
    ):
        refused = agis("validate", "broken.agis", "--suppress", given)
        assert refused.exit_code == 2 and said in refused.output


def test_documents_are_written_anew(folder: Path) -> None:
    """Printed, or in the place of the file; what is mechanical is mended where that is asked for."""
    printed = agis("fmt", "good.agis", "--to", "yaml").output
    assert printed.startswith('agis: "1.0"\nservice: Tables\n')
    assert agis("fmt", "-", "--to", "json", text=printed).output == agis("fmt", "good.agis").output
    mended = "mended endpoints: GET /getUser is GET /get-user\nwrote broken.agis\n"
    assert agis("fmt", "broken.agis", "--fix", "--write").output == mended
    assert json.loads((folder / "broken.agis").read_text())["endpoints"][0]["path"] == "/get-user"
    assert json.loads(agis("fmt", "good.agis", "--to", "yaml", "--write", "--json").output)["form"] == "yaml"
    assert json.loads(agis("fmt", "good.agis", "--json").output) == json.loads(
        agis("fmt", "-", "--to", "json", text=printed).output
    )
    refused = agis("fmt", "-", text="agis: yes")
    assert refused.exit_code == 2 and "1-unreadable" in refused.output


def test_the_schema(folder: Path) -> None:
    """It is JSON Schema, and takes what pass 1 takes."""
    import jsonschema

    schema = json.loads(agis("schema").output)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(DOCUMENT, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**DOCUMENT, "endpoints": []}, schema)


def test_the_forms_hold_any_text(folder: Path) -> None:
    """What XML, URIs and terminals have no sign for is written otherwise; a pass that was not made did not pass."""
    odd = 'a b:\x1b"<%.agis'
    (folder / odd).write_text(
        json.dumps(changed(("endpoints.0.method", "B\x00\ufffe\nK"), ("vocabulary.domain", None)))
    )
    (folder / "none.agis").write_text("a: [1")
    files = ("validate", odd, "none.agis", "odd.agis")
    suites = [*ElementTree.fromstring(agis(*files, "--format", "junit").output)]
    assert [each.attrib["name"] for each in suites] == ['a b:\\x1b"<%.agis', "none.agis", "odd.agis"]
    assert [(each.attrib["failures"], each.attrib["skipped"]) for each in suites] == [
        ("2", "0"),
        ("1", "7"),
        ("0", "0"),
    ]
    assert [len(each.findall("testcase/skipped")) for each in suites] == [0, 7, 0]
    said = agis("validate", "-v", "none.agis").output.splitlines()
    assert said[0] == "FAIL 1 Structural" and said[1:8] == [f"---- {name}" for name in (each[5:] for each in said[1:8])]
    given = agis(*files, "--format", "sarif", "--suppress", "AGIS-P7-domain=it is clear").output
    (run,) = json.loads(given)["runs"]
    assert run["columnKind"] == "unicodeCodePoints"
    uris = {each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in run["results"]}
    assert uris == {"a%20b%3A%1B%22%3C%25.agis", "none.agis", "odd.agis"}
    kinds = [[one["kind"] for one in each["suppressions"]] for each in run["results"]]
    assert kinds.count(["external"]) == 2 and kinds.count([]) == len(kinds) - 2 > 0


def test_a_directory_is_its_documents(folder: Path) -> None:
    """Those below as well, in the order of their names; one without any is a mistake."""
    (folder / "more").mkdir()
    assert agis("validate", "more").exit_code == 2 and "ends in .agis" in agis("validate", "more").output
    (folder / "more" / "a.agis").write_text(json.dumps(DOCUMENT))
    (folder / "more" / "notes.txt").write_text("no document")
    assert agis("validate", "more").output == "more/a.agis: conforms\n"
    said = [each.partition(":")[0] for each in agis("validate", ".").output.splitlines()]
    assert [*dict.fromkeys(said)] == ["broken.agis", "good.agis", "more/a.agis", "odd.agis"]


def test_what_an_examination_needs_not(folder: Path) -> None:
    """Keys, certificates, connections and reactors are for hosts: without them it starts in half the time."""
    code = """import sys
from agtphost.cli.root import agtp
agtp(["agis", "validate", "good.agis"], standalone_mode=False)
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    said, loaded = done.stdout.splitlines()
    assert said == "good.agis: conforms" and "agtphost.agis.validation" in loaded.split()
    unwanted = {"cryptography", "twisted", "ssl", "asyncio", "urllib3", "xml"}
    unwanted |= {"agtphost.client", "agtphost.host", "agtphost.config", "agtphost.wire", "agtphost.identity.keys"}
    assert not unwanted & {*loaded.split()}


def test_mending_ends(folder: Path) -> None:
    """What was mended has nothing left to mend, in the draft's shorthand as well."""
    short = changed(("endpoints.0.input", {"required": ["partySize (integer)"], "optional": ["note (string)"]}))
    (folder / "short.agis").write_text(json.dumps(short))
    once = agis("fmt", "short.agis", "--fix", "--write").output
    assert once == "mended BOOK /reservation input: partySize is party_size\nwrote short.agis\n"
    text = (folder / "short.agis").read_text()
    assert agis("fmt", "short.agis", "--fix", "--write").output == "wrote short.agis\n"
    assert (folder / "short.agis").read_text() == text and '"party_size"' in text
