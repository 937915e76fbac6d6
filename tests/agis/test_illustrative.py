"""The notation of the draft's examples, rewritten; and texts that are none (AGIS v01 section 11)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agtphost.agis import validate
from agtphost.agis.document_reader import Unreadable
from agtphost.agis.illustrative import from_illustrative
from agtphost.cli.root import agtp

DRAFTS = sorted((Path(__file__).parent / "drafts").glob("*.txt"))
"""The draft's documents, as they stand there."""


def fmt(text: str, *words: str) -> Result:
    """What the command prints of a text."""
    return CliRunner().invoke(agtp, ["agis", "fmt", "-", "--from-illustrative", *words], input=text)


def test_the_three_documents_of_the_draft() -> None:
    """They conform when they are rewritten, whether or not their indentation was kept, and are refused before that."""
    assert [file.stem for file in DRAFTS] == ["finance", "patients", "restaurant"]
    for file in DRAFTS:
        text = file.read_text()
        (finding,) = validate(text.encode()).findings
        assert finding.rule.name == "AGIS-P1-illustrative" and "--from-illustrative" in finding.fix
        done = fmt(text)
        verdict = validate(done.stdout.encode())
        assert done.exit_code == 0 and verdict.conforms, (file.stem, done.output, verdict.findings)
        assert fmt(re.sub(r"(?m)^ +", "", text)).stdout == done.stdout
        assert ("leaves out input, output, errors" in done.stderr) is (file.stem == "patients")


def test_what_stands_in_them() -> None:
    """Nothing is lost on the way."""
    found = {file.stem: from_illustrative(file.read_bytes()).root for file in DRAFTS}
    transfer = found["finance"]["endpoints"]["TRANSFER /funds"]
    assert transfer["semantic"]["state_transition"] == {
        "source_account.balance": "[current] -> [current - amount]",
        "destination_account.balance": "[current] -> [current + amount]",
    }
    assert transfer["input"]["required"] == ["source_account_id", "destination_account_id", "amount", "currency"]
    assert transfer["errors"][-1] == "authorization_required" and len(transfer["errors"]) == 5
    assert transfer["semantic"]["is_idempotent"] is False and transfer["semantic"]["confidence_guidance"] == 0.95
    reconcile = found["finance"]["endpoints"]["RECONCILE /account/{id}"]
    assert reconcile["output"]["properties"]["discrepancies"] == {"type": "array"}
    assert [each["class"] for each in found["finance"]["data_manifest"]["available_data"]] == [
        "transaction-history",
        "exchange-rates",
    ]
    assert found["finance"]["data_manifest"]["pre_auth_discovery"] is True
    book = found["restaurant"]["endpoints"]["BOOK /reservation"]
    assert book["semantic"]["intent"] == "Books a restaurant reservation on behalf of the requesting agent"
    assert book["input"]["required"] == ["restaurant_id (int)", "party_size (int)", "datetime (ISO8601)"]
    assert found["restaurant"]["agis"] == "1.0" and list(found["restaurant"]["vocabulary"]) == [
        "declared_verbs",
        "domain",
        "version",
    ]


WRONG = {
    "BOOK /room {\n  semantic {\n  }": (1, "never closed"),
    "BOOK /room { }\n}": (2, "closes nothing"),
    'BOOK /room {\n semantic { intent: "x\n } }': (2, "quotation is never closed"),
    "BOOK /room { input { required: [a, b } }": (1, "bracket is never closed"),
    "BOOK /room { }\nBOOK /room { }": (2, "occurs twice"),
    "BOOK /room { semantic { intent: x } semantic { intent: y } }": (1, "occurs twice"),
    "BOOK /room {\n ( }": (2, "was expected"),
    "BOOK /room {\n output { ( } }": (2, "a name was expected"),
    "BOOK /room {" + " a {" * 40: (1, "more than 32 deep"),
    "BOOK /room { output {" + " a {" * 40: (1, "more than 32 deep"),
    "BOOK /room { vocabulary:\n}": (2, "has no value"),
}
"""What is none, the line, and why."""


def test_what_is_wrong_is_told_with_its_line() -> None:
    """One fault of the text, one sentence."""
    told = []
    for text, (line, why) in WRONG.items():
        try:
            from_illustrative(text.encode())
        except Unreadable as error:
            if error.mark[0] != line or why not in error.reason:
                told.append((text[:60], error.mark, error.reason))
        else:
            told.append((text[:60], (0, 0), "nothing"))
    assert told == []
    with pytest.raises(Unreadable, match="UTF-8"):
        from_illustrative(b"\xff")
    with pytest.raises(Unreadable, match="octets"):
        from_illustrative(b" " * (4 << 20) + b"x")
    done = fmt("BOOK /room {\n ( }")
    assert done.exit_code == 2 and "-:2:2:" in done.output


def test_other_texts_go_the_ordinary_way() -> None:
    """A document that is YAML already is only written canonically, and what is neither is told as ever."""
    text = fmt(DRAFTS[0].read_text()).stdout
    assert fmt(text).stdout == text
    assert "line" in fmt(": : :").output or fmt(": : :").exit_code == 2
