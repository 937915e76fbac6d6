"""
Local models: static vectors, and a sentence transformer of the operator. Each is a plain object that threads call;
:class:`ThreadedEmbedder` makes an embedder of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from zope.interface import implementer

from agtphost.iagtp import IEmbedder
from agtphost.search.engine import EmbedderError
from agtphost.search.word_stems import without_stop_words
from agtphost.vocabulary import jsontext

LONGEST = 256
"""Tokens of a text that are used; the rest tells little about a tool."""

AT_ONCE = 32
"""Texts in one call of a transformer."""

STATIC = ("weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json")
"""The files of the package ``wordllama`` that are read: 32,000 vectors of 256 numbers, and their tokens."""

DTYPES = {"F16": "<f2", "F32": "<f4"}
"""Number types of a table, by their names in safetensors and numpy."""

LONGEST_HEAD = 1 << 20
"""Largest header of a safetensors file, in octets."""

ONNX = ("model.onnx", "tokenizer.json")
"""The files of a model's directory."""


class Model(Protocol):
    """A model that computes vectors of texts, in any thread."""

    engine: str
    dimensions: int

    @property
    def name(self) -> str:
        """Return the name, see :class:`agtphost.iagtp.IEmbedder`."""

    def load(self) -> None:
        """
        Load the model's files.

        :raises EmbedderError: they are invalid.
        """

    def vectors(self, texts: Sequence[str]) -> Any:
        """Return a row for each text; called after loading, by one thread at a time."""


@implementer(IEmbedder)
class ThreadedEmbedder:
    """
    A model used in threads, loaded when it is first needed, or by :meth:`load`.

    :param run: calls a function in a thread.
    """

    def __init__(self, model: Model, run: Callable[..., Awaitable[Any]]) -> None:
        self._model = model
        self._run = run
        self._lock = Lock()
        self.engine = model.engine
        self.name = model.name

    @property
    def dimensions(self) -> int:
        """Return the numbers of a vector; 0 until the model is loaded."""
        return self._model.dimensions

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        found: Sequence[bytes] = await self._run(self._embed, texts)
        return found

    def close(self) -> None:
        """Do nothing, because the model holds no connections."""

    async def load(self) -> None:
        """
        Load the model now, so that the first search does not wait for it.

        :raises EmbedderError: the model is invalid; a search tries again.
        """
        await self._run(self._load)

    def _load(self) -> None:
        with self._lock:
            self._model.load()

    def _embed(self, texts: Sequence[str]) -> list[bytes]:
        with self._lock:
            self._model.load()
            rows = self._model.vectors([text.encode("utf-8", "replace").decode() for text in texts])
        return [row.tobytes() for row in unit(rows)]


def unit(rows: Any) -> Any:
    """Return vectors of length 1 in the same directions; a zero vector stays zero."""
    import numpy

    lengths = numpy.linalg.norm(rows, axis=1, keepdims=True)
    return numpy.where(lengths > 0, rows / numpy.maximum(lengths, 1e-12), 0.0).astype("<f4")


def map_table(file: Path) -> Any:
    """
    Return the only table of a safetensors file, memory-mapped: parts that are not used are never read.

    :raises ValueError: the file does not have exactly one complete table of numbers.
    """
    import numpy

    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if not 0 < length <= LONGEST_HEAD:
            raise ValueError("it is not a safetensors file")
        head = jsontext.decode(stream.read(length))
    tables = [each for name, each in head.items() if name != "__metadata__"]
    if len(tables) != 1 or tables[0]["dtype"] not in DTYPES or len(tables[0]["shape"]) != 2:
        raise ValueError("it does not have one table of numbers")
    (table,) = tables
    begin, end = table["data_offsets"]
    shape, kind = tuple(table["shape"]), numpy.dtype(DTYPES[table["dtype"]])
    if end - begin != shape[0] * shape[1] * kind.itemsize or file.stat().st_size < 8 + length + end:
        raise ValueError("it is not complete")
    return numpy.memmap(file, dtype=kind, mode="r", offset=8 + length + begin, shape=shape)


class StaticVectors:
    """
    Model that averages a vector for each token; without a neural network it has half of a transformer's gain.

    :param folder: folder of the package ``wordllama``; None: where it is installed. The package is not imported,
        because its own loader contacts a model hub for files that are already there.
    """

    engine = "static"

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._vectors: Any = None
        self._tokenizer: Any = None
        self.dimensions = 0

    @property
    def name(self) -> str:
        return f"static:{STATIC[0].rpartition('/')[2]}"

    def load(self) -> None:
        if self._tokenizer is not None:
            return
        try:
            from tokenizers import Tokenizer

            folder = self._folder or _package_folder("wordllama")
            self._vectors = map_table(folder / STATIC[0])
            self.dimensions = int(self._vectors.shape[1])
            tokenizer = Tokenizer.from_file(str(folder / STATIC[1]))
        except Exception as error:
            raise EmbedderError(f"static vectors cannot be read: {_why(error)}") from None
        tokenizer.no_padding()
        tokenizer.enable_truncation(LONGEST)
        forget = getattr(tokenizer.model, "_resize_cache", None)
        if forget is not None:
            # The tokenizer's cache takes a whole text as one word; ten thousand of them would be five times their
            # vectors.
            forget(0)
        self._tokenizer = tokenizer

    def vectors(self, texts: Sequence[str]) -> Any:
        import numpy

        rows = numpy.zeros((len(texts), self.dimensions), dtype="f4")
        # Words that every text has would dilute the mean.
        for row, text in zip(rows, texts, strict=True):
            # One by one, because a batch takes threads with separate memory.
            tokens = self._tokenizer.encode(without_stop_words(text), add_special_tokens=False)
            if tokens.ids:
                numpy.mean(self._vectors[tokens.ids], axis=0, dtype="f4", out=row)
        return rows


class OnnxModel:
    """
    A sentence transformer that averages the output of all tokens.

    :param folder: folder with ``model.onnx`` and ``tokenizer.json``.
    """

    engine = "onnx"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._session: Any = None
        self._tokenizer: Any = None
        self.dimensions = 0

    @property
    def name(self) -> str:
        marks = []
        for file in ONNX:
            try:
                found = (self._folder / file).stat()
            except OSError:
                continue
            marks.append(f"{found.st_size}.{found.st_mtime_ns}")
        return f"onnx:{self._folder}:{':'.join(marks)}"

    def load(self) -> None:
        if self._session is not None:
            return
        try:
            from onnxruntime import InferenceSession, SessionOptions
            from tokenizers import Tokenizer

            tokenizer = Tokenizer.from_file(str(self._folder / ONNX[1]))
            options = SessionOptions()
            # Leave the processor to other threads, and do not spin while waiting.
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            session = InferenceSession(str(self._folder / ONNX[0]), options, providers=["CPUExecutionProvider"])
            tokenizer.enable_padding()
            tokenizer.enable_truncation(LONGEST)
            self._tokenizer = tokenizer
            self.dimensions = int(self._run(session, ["what is this"]).shape[1])
        except Exception as error:
            raise EmbedderError(f"the model in {self._folder} cannot be used: {_why(error)}") from None
        self._session = session

    def vectors(self, texts: Sequence[str]) -> Any:
        import numpy

        parts = [self._run(self._session, texts[start : start + AT_ONCE]) for start in range(0, len(texts), AT_ONCE)]
        return numpy.concatenate(parts)

    def _run(self, session: Any, texts: Sequence[str]) -> Any:
        import numpy

        read = self._tokenizer.encode_batch(list(texts))
        mask = numpy.array([each.attention_mask for each in read], dtype="int64")
        given = {
            "input_ids": numpy.array([each.ids for each in read], dtype="int64"),
            "attention_mask": mask,
            "token_type_ids": numpy.zeros_like(mask),
        }
        wanted = {each.name for each in session.get_inputs()}
        said = session.run(None, {name: value for name, value in given.items() if name in wanted})
        # Some models return a vector for the whole text; otherwise the first output has one for each token.
        whole = [each for each in said if each.ndim == 2]
        if whole:
            return whole[0].astype("f4")
        counted = mask[:, :, None].astype("f4")
        return (said[0] * counted).sum(axis=1) / numpy.maximum(counted.sum(axis=1), 1.0)


def _package_folder(package: str) -> Path:
    """Return the folder of a package without importing it."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise EmbedderError(f"the package {package} is not installed")
    return Path(next(iter(found.submodule_search_locations)))


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
