"""The history file: numbers that only grow, durable before they are seen."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from agtphost.errors import ConfigurationError
from agtphost.host.publication_history import LOOK_EVERY, PublicationHistory, UpstreamComparison


def history(directory: Path) -> PublicationHistory:
    seconds = count()
    return PublicationHistory(directory / "manifest.json", lambda: f"t{next(seconds)}")


def test_numbers_grow_over_restarts(tmp_path: Path) -> None:
    """AGTP-269: a content keeps its number as long as it is the last one; no number is used twice."""
    assert [history(tmp_path).number_surface(digest, {}) for digest in ("a", "a", "b", "a", "a")] == [1, 1, 2, 3, 3]


def test_documents_are_numbered_over_all_forms(tmp_path: Path) -> None:
    """API-085: two forms never share a document_version; ``issued`` stays."""
    contents = (("x", "a"), ("y", "b"), ("x", "a"), ("x", "c"))
    seen = [history(tmp_path).number_document(form, digest) for form, digest in contents]
    assert [revision.version for revision in seen] == ["v1", "v2", "v1", "v3"]
    assert len({revision.issued for revision in seen}) == 1


def test_what_was_known_of_upstreams_is_remembered(tmp_path: Path) -> None:
    """A restart begins with what the host last knew."""
    history(tmp_path).number_surface("a", {"/mcp/files": {"definitions": "1"}})
    assert history(tmp_path).upstreams == {"/mcp/files": {"definitions": "1"}}


def test_a_number_is_on_disk_before_it_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AGTP-269: where the file cannot be replaced, there is no new number, now or later."""
    kept = history(tmp_path)
    kept.number_surface("a", {})

    def full(*_: object) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("agtphost.identity.files.replace", full)
        with pytest.raises(OSError, match="No space"):
            kept.number_surface("b", {})
    assert kept.number_surface("a", {}) == history(tmp_path).number_surface("a", {}) == 1
    assert kept.number_surface("b", {}) == 2


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b"{}", b"\xff", b'{"issued": 1, "revision": 1, "contents": {}}'),
        b'{"issued": "t", "revision": 1, "contents": {}, "surface": []}',
        b'{"issued": "t", "revision": 1, "contents": {}, "surface": {"number": "1"}}',
    ],
)
def test_a_broken_history_keeps_the_host_from_starting(tmp_path: Path, content: bytes) -> None:
    """Counting anew from 1 would use numbers a second time: the problem names the file and the remedy."""
    file = tmp_path / "manifest.json"
    file.write_bytes(content)
    with pytest.raises(ConfigurationError) as refused:
        history(tmp_path)
    (problem,) = refused.value.problems
    assert (problem.file, "backup" in problem.hint) == (str(file), True)


def test_a_history_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    """A file without the counter starts it at 1 and keeps the rest."""
    old = {"issued": "then", "revision": 4, "contents": {"x": {"digest": "a", "updated": "then", "version": "v4"}}}
    (tmp_path / "manifest.json").write_text(json.dumps(old))
    kept = history(tmp_path)
    assert kept.number_surface("a", {}) == 1
    assert kept.number_document("x", "a").version == "v4"
    assert kept.number_document("x", "b").version == "v5"


def test_the_watch_looks_while_it_runs() -> None:
    """AGTP-269: at the start, then every second, and no more after the stop."""
    clock, looks = Clock(), []
    watch = UpstreamComparison(clock, lambda: looks.append(clock.seconds()))
    watch.startService()
    clock.pump([LOOK_EVERY] * 3)
    watch.stopService()
    clock.pump([LOOK_EVERY] * 3)
    assert looks == [0.0, 1.0, 2.0, 3.0]
    assert clock.getDelayedCalls() == []
