"""Which status codes exist, and which can never be sent: core v08 section 5.6."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from agtphost.vocabulary.status import Status
from tests.sources import nodes

ROOT = Path(__file__).resolve().parents[2] / "agtphost"

WITHDRAWN = frozenset(range(451, 455))
RESERVED = frozenset({462, 465, 552, 553, 554, 555})
SPECIFIC = frozenset(range(261, 264)) | frozenset(range(455, 466)) | frozenset(range(550, 556))
HTTP = frozenset({200, 202, 204, 301, 400, 401, 403, 404, 405, 408, 409, 410, 422, 429, 500, 501, 503})


def numbers(source: str) -> Iterator[int]:
    """Every whole number that stands in the code, texts aside."""
    for node in nodes(source):
        if isinstance(node, ast.Constant) and type(node.value) is int:
            yield node.value


def test_the_table_holds_what_the_drafts_define() -> None:
    """AGTP-057, AGTP-058, AGTP-322: no withdrawn and no reserved code is in the table, so none can be refused with."""
    codes = {int(status) for status in Status}
    assert not codes & (WITHDRAWN | RESERVED)
    assert codes <= HTTP | SPECIFIC
    assert codes >= {455, 456, 457, 458, 429, 550, 551}


def test_no_other_code_is_written_in_the_sources() -> None:
    """AGTP-057, AGTP-058: nor does any part of the host name one; what examines others may."""
    forbidden = WITHDRAWN | RESERVED
    written = re.compile(rf"\b(?:{'|'.join(map(str, forbidden))})\b|\b0[xXbBoO]|\d_\d")
    found = {
        (path.name, number)
        for path in ROOT.rglob("*.py")
        if "conformance" not in path.parts
        if written.search(source := path.read_text())
        for number in numbers(source)
        if number in forbidden
    }
    assert not found
    # The control: a number in code is seen, one in a text is not.
    assert list(numbers("refuse(452)")) == [452]
    assert not list(numbers('"452"'))
