"""
The documents that an operator lets QUERY and SUMMARIZE read: ``[query] documents``.

They are read once, at the start, cut into passages and indexed in memory;
a request opens no file, and names none but those of the index.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agtphost.errors import Problem
from agtphost.methods.cognitive import relevance
from agtphost.search.word_stems import STOP_WORDS
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.foreign_errors import explain, original_of

SUFFIXES = frozenset({".txt", ".md", ".markdown", ".rst", ".json"})
MOST_DOCUMENTS = 5_000
MOST_OCTETS = 64 * 1024 * 1024
"""Of all documents together."""

LARGEST = 4 * 1024 * 1024
PASSAGE = 1_200
"""Characters that a passage has at most, but for one long sentence."""

_WORD = re.compile(r"\w+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableDocument:
    """A readable document that the host exposes."""

    name: str
    """Its path below the folder, with ``/``."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A part of a document that can answer a question."""

    document: str
    number: int
    """Its place in the document, from 1."""

    text: str

    @property
    def source(self) -> str:
        """Return the reference by which an answer cites the passage, and which SUMMARIZE accepts."""
        return f"document:{self.document}"


class Library:
    """
    Documents with a full-text index over their passages.

    :param documents: what can be read.
    """

    def __init__(self, documents: Sequence[ReadableDocument] = ()) -> None:
        self._documents = {document.name: document for document in documents}
        self._passages: list[Passage] = [passage for document in documents for passage in _passages(document)]
        if not self._passages:
            return
        self._index = sqlite3.connect(":memory:", check_same_thread=False)
        self._index.execute("CREATE VIRTUAL TABLE passage USING fts5(name, text, tokenize = 'porter unicode61')")
        self._index.executemany(
            "INSERT INTO passage (rowid, name, text) VALUES (?, ?, ?)",
            [(number, passage.document, passage.text) for number, passage in enumerate(self._passages)],
        )

    def __len__(self) -> int:
        return len(self._documents)

    def document(self, name: str) -> ReadableDocument | None:
        """Return the document of that name."""
        return self._documents.get(name)

    def find(self, question: str, most: int) -> list[Passage]:
        """Return the passages that match the words of a question, best first."""
        words = {word for word in _WORD.findall(question.lower()) if word not in STOP_WORDS}
        if not words or not self._passages:
            return []
        # Each word is quoted, so that none of them is an operator of the query language.
        wanted = " OR ".join(f'"{word}"' for word in sorted(words)[: relevance.LONGEST_QUESTION])
        rows = self._index.execute(
            "SELECT rowid FROM passage WHERE passage MATCH ? ORDER BY rank, rowid LIMIT ?", (wanted, most)
        )
        return [self._passages[number] for (number,) in rows.fetchall()]


def _passages(document: ReadableDocument) -> Iterator[Passage]:
    number, held = 0, ""
    for sentence in relevance.sentences(document.text):
        if held and len(held) + len(sentence) > PASSAGE:
            number += 1
            yield Passage(document=document.name, number=number, text=held)
            held = ""
        held = f"{held} {sentence}".strip()
    if held:
        yield Passage(document=document.name, number=number + 1, text=held)


def read_documents(folder: Path, problems: list[Problem]) -> list[ReadableDocument]:
    """
    Read a folder's text, Markdown, reStructuredText and JSON files, those of its subfolders too.

    Hidden files, and links that lead out of the folder, are left out.

    :param problems: takes what cannot be read.
    """
    found: list[ReadableDocument] = []
    total, inside = 0, folder.resolve()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.suffix.lower() not in SUFFIXES or any(part.startswith(".") for part in name.parts):
            continue
        if not path.is_file() or not path.resolve().is_relative_to(inside):
            continue
        size = path.stat().st_size
        total += size
        if size > LARGEST or total > MOST_OCTETS or len(found) >= MOST_DOCUMENTS:
            limits = f"{LARGEST} octets each, {MOST_OCTETS} octets and {MOST_DOCUMENTS} documents together"
            problems.append(Problem(message="more than [query] documents takes", file=str(path), hint=limits))
            break
        text = _text(path, problems)
        if text is not None:
            found.append(ReadableDocument(name=name.as_posix(), text=text))
    return found


def _text(path: Path, problems: list[Problem]) -> str | None:
    try:
        octets = path.read_bytes()
        if path.suffix.lower() == ".json":
            return relevance.said_in(jsontext.decode(octets))
        return octets.decode("utf-8")
    except (OSError, ValueError) as error:
        problems.append(
            Problem(
                message=f"the document cannot be read: {explain(error)}", original=original_of(error), file=str(path)
            )
        )
        return None
