"""Comments of documents: they stay with what they stand at, and none is lost in silence; files stay what they are."""

from __future__ import annotations

import random
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agtphost.agis.autofix import apply_fixes
from agtphost.agis.comments import add_comments
from agtphost.agis.normal import as_yaml, to_canonical
from agtphost.agis.validation import validate
from agtphost.cli.root import agtp
from agtphost.vocabulary import yamltext
from tests.agis.test_corpus import documents
from tests.programmes import length

SOURCE = """\
# Ours.

service: Tables   # of "restaurants"
agis: "1.0"
agtp: agtp://tables.example.com
# Who reads it.
description: >  # folded
  Tables of restaurants
version: 1.0.0
endpoints:
  # The first one.
  - method: book
    path: /room/{roomId}   # one room
    semantic: {intent: Books a room, actor: agent,  # by itself
      outcome: The room is booked}
    input:
      optional: [note]   # for the cook
      # Which room.
      required: [roomId]
    output: {}
    errors:
      # Too late.
      - roomTaken
# The verbs.
vocabulary: {declared_verbs: [book], domain: hotels}
# The end.
"""
"""A document with comments in every place."""

WRITTEN = """\
# Ours.
agis: "1.0"
service: Tables  # of "restaurants"
agtp: "agtp://tables.example.com"
# Who reads it.
description: "Tables of restaurants\\n"  # folded
version: "1.0.0"
# The verbs.
vocabulary:
  declared_verbs:
    - BOOK
  domain: hotels
endpoints:
  # The first one.
  - method: BOOK
    path: "/room/{room_id}"  # one room
    semantic:
      intent: Books a room
      actor: agent  # by itself
      outcome: The room is booked
    input:  # for the cook
      type: object
      additionalProperties: false
      properties:
        room_id: {}
        note: {}
      # Which room.
      required:
        - room_id
    output:
      type: object
      additionalProperties: true
      properties: {}
    errors:
      # Too late.
      - room_taken
# The end.
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fmt(*words: str, text: str = "") -> Result:
    """``agtp agis fmt``."""
    return CliRunner().invoke(agtp, ["agis", "fmt", *words], input=text)


def test_they_stay_with_what_they_stand_at(folder: Path) -> None:
    """Before and behind it, wherever it has gone and whatever it is called now; the second time nothing changes."""
    file = folder / "a.agis"
    file.write_text(SOURCE)
    done = fmt("a.agis", "--fix", "--write")
    assert done.exit_code == 0 and done.output.endswith("wrote a.agis\n"), done.output
    assert file.read_text() == WRITTEN
    assert fmt("a.agis").stdout == WRITTEN == fmt("-", "--fix", text=WRITTEN).stdout


def test_none_is_lost_in_silence(folder: Path) -> None:
    """JSON has none, nor has what the draft's notation is rewritten as: the file stays unless it is allowed."""
    (folder / "a.agis").write_text(SOURCE)
    (folder / "b.agis").write_text('agis: "1.0" # 1\nservice: "# none"\n# 2\nBOOK /room {\n  semantic { }\n}\n')
    for name, count, words in (("a.agis", 12, ("--to", "json")), ("b.agis", 2, ("--from-illustrative",))):
        text = (folder / name).read_text()
        if name == "b.agis":
            text = text.replace("semantic { }", "...").replace(
                "BOOK", "agtp: agtp://a.example\nvocabulary { domain: a }\nBOOK"
            )
            (folder / name).write_text(text)
        kept = fmt(name, *words, "--write", "--fix")
        assert kept.exit_code == 2 and f"has {count} comments" in kept.output and "mended" not in kept.output
        assert (folder / name).read_text() == text
        assert f"{count} comments left out" in fmt(name, *words).stderr
        assert fmt(name, *words, "--write", "--drop-comments").stdout == f"wrote {name}\n"
    (folder / "c.agis").write_text(
        fmt("-", "--to", "json", text=SOURCE).stdout.replace("Tables", "# \\ud83d\\ude00", 1)
    )
    assert fmt("c.agis", "--write").output == "wrote c.agis\n"


def test_a_file_stays_what_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its mode, its ends of lines and its byte order mark; a link leads where it led, and what may not be is not."""
    file, link = folder / "a.agis", folder / "link.agis"
    file.write_bytes(b"\xef\xbb\xbf" + SOURCE.replace("\n", "\r\n").encode())
    file.chmod(0o640)
    link.symlink_to("a.agis")
    assert fmt("link.agis", "--fix", "--write").exit_code == 0
    assert link.is_symlink() and stat.S_IMODE(file.stat().st_mode) == 0o640
    assert file.read_bytes() == b"\xef\xbb\xbf" + WRITTEN.replace("\n", "\r\n").encode()
    (folder / "b.agis").write_bytes(b"\xef\xbb\xbf" + fmt("a.agis", "--to", "json").stdout.encode())
    assert fmt("b.agis").stdout.startswith("{")
    written = file.read_bytes()
    monkeypatch.setattr("agtphost.cli.agis.read_octets", lambda name: SOURCE.encode())
    assert "changed while it was formatted" in fmt("a.agis", "--write").output
    file.chmod(0o444)
    refused = fmt("a.agis", "--fix", "--write")
    assert "read-only" in refused.output and "mended" not in refused.output
    assert file.read_bytes() == written and refused.exit_code == 2


BLOCK = """\
agis: "1.0"
service: Folded
agtp: agtp://folded.example
vocabulary:
  declared_verbs: [FETCH]
endpoints:
  FETCH /note:
    semantic:
      intent: >-
        Fetches a note
# no text
        of a person
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (BLOCK, 11),
        (BLOCK.replace("Fetches a note\n# no text", "# text\n      # no text\n        Fetches"), 11),
        (BLOCK.replace("        Fetches a note\n", "").replace("# no text", "     # no text"), 10),
    ],
)
def test_a_comment_that_ends_a_block_of_text_is_named(text: str, line: int) -> None:
    """YAML has no comments in a block: one with less indentation ends it, and the text cannot be read."""
    (found,) = validate(text.encode()).findings
    assert found.line == line, found
    assert "a comment ends the block of text before it" in found.message
    assert validate(re.sub(" *# no text", "        # text", text).encode()).document is not None


@pytest.mark.programme
def test_in_any_place() -> None:
    """
    Between and behind the lines of the corpora's documents: all are there, and once more changes nothing.

    A comment in a block of text makes a document that is not YAML.
    """
    chance, titles = random.Random(20261123), {**documents("valid"), **documents("borderline")}
    for title in chance.choices([*titles], k=length(12, 3_000)):
        lines: list[str] = []
        for line, inside in _lines(titles[title]):
            if chance.random() < 0.15:
                # In a block of text it is text, if it is indented as the block is.
                indent = len(line) - len(line.lstrip(" ")) if inside else chance.randrange(9)
                lines.append(f"{' ' * indent}# alone {chance.randrange(99)}")
            behind = chance.random() < 0.15 and line.strip() and re.search(r"[|>]$|#", line) is None
            lines.append(f"{line} # behind: [{chance.randrange(99)}" if behind else line)
        octets = chance.choice(("\n", "\r\n")).join([*lines, ""]).encode()
        once = _formatted(octets)
        assert once is not None and len(yamltext.comments(octets)) == len(yamltext.comments(once.encode())), title
        assert _formatted(once.encode()) == once, title


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a text, and whether each continues a block of text."""
    block = -1
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip(" "))
        if block >= 0 and line.strip() and indent <= block:
            block = -1
        yield line, block >= 0
        if block < 0 and re.search(r"[:-] +[|>][-+0-9]*$", line):
            block = indent


def _formatted(octets: bytes) -> str | None:
    found = validate(octets).document
    assert found is not None
    return add_comments(yamltext.comments(octets), found.tree, as_yaml(to_canonical(apply_fixes(found)[0])))
