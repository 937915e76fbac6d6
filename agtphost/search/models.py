"""
Models that run here: static vectors, and a sentence transformer that the operator brings. Each is a plain object that
threads call; :class:`Threaded` makes an embedder of it.
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
from agtphost.search.words import telling
from agtphost.vocabulary import jsontext

LONGEST = 256
"""Tokens of a text that count: what stands behind says little of what a tool is."""

AT_ONCE = 32
"""Texts that a transformer is given at once."""

STATIC = ("weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json")
"""What of the package ``wordllama`` is read: 32,000 vectors of 256 numbers, and the tokens that they are of."""

DTYPES = {"F16": "<f2", "F32": "<f4"}
"""Numbers that a table may have, as safetensors and numpy call them."""

LONGEST_HEAD = 1 << 20
"""Octets of what such a file says of itself."""

ONNX = ("model.onnx", "tokenizer.json")
"""What a model's directory holds."""


class Model(Protocol):
    """Vectors of texts, made in whatever thread asks."""

    engine: str
    dimensions: int

    @property
    def name(self) -> str:
        """See :class:`agtphost.iagtp.IEmbedder`."""

    def load(self) -> None:
        """
        Read what it consists of.

        :raises EmbedderError: that is not what it should be.
        """

    def vectors(self, texts: Sequence[str]) -> Any:
        """A row for each text; called once it is loaded, by one thread at a time."""


@implementer(IEmbedder)
class Threaded:
    """
    A model off the reactor, loaded when it is first needed, or by :meth:`load`.

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
        """Numbers of a vector; 0 until the model is loaded."""
        return self._model.dimensions

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        found: Sequence[bytes] = await self._run(self._embed, texts)
        return found

    def close(self) -> None:
        """Nothing to let go of: the model goes with this."""

    async def load(self) -> None:
        """
        Load the model now, so that the first search finds it loaded.

        :raises EmbedderError: it is not what it should be; a search tries again.
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
    """The same directions, each of length 1; of nothing, nothing."""
    import numpy

    lengths = numpy.linalg.norm(rows, axis=1, keepdims=True)
    return numpy.where(lengths > 0, rows / numpy.maximum(lengths, 1e-12), 0.0).astype("<f4")


def mapped(file: Path) -> Any:
    """
    The one table of a file of safetensors, as it lies on the disk: what is never asked for is never read.

    :raises ValueError: it is not a table of half-precision numbers, or not all of it is there.
    """
    import numpy

    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if not 0 < length <= LONGEST_HEAD:
            raise ValueError("it is no file of safetensors")
        head = jsontext.decode(stream.read(length))
    tables = [each for name, each in head.items() if name != "__metadata__"]
    if len(tables) != 1 or tables[0]["dtype"] not in DTYPES or len(tables[0]["shape"]) != 2:
        raise ValueError("it does not have one table of numbers")
    (table,) = tables
    begin, end = table["data_offsets"]
    shape, kind = tuple(table["shape"]), numpy.dtype(DTYPES[table["dtype"]])
    if end - begin != shape[0] * shape[1] * kind.itemsize or file.stat().st_size < 8 + length + end:
        raise ValueError("it is not whole")
    return numpy.memmap(file, dtype=kind, mode="r", offset=8 + length + begin, shape=shape)


class StaticVectors:
    """
    The mean of a vector for each token: no network is run, and half of what a transformer gains is had.

    :param folder: of the package ``wordllama``; None: where it is installed. Nothing of it is imported: its own loader
        asks a model hub for what lies beside it.
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

            folder = self._folder or _installed("wordllama")
            self._vectors = mapped(folder / STATIC[0])
            self.dimensions = int(self._vectors.shape[1])
            tokenizer = Tokenizer.from_file(str(folder / STATIC[1]))
        except Exception as error:
            raise EmbedderError(f"static vectors cannot be read: {_why(error)}") from None
        tokenizer.no_padding()
        tokenizer.enable_truncation(LONGEST)
        forget = getattr(tokenizer.model, "_resize_cache", None)
        if forget is not None:
            # To it a whole text is one word, and it would remember ten thousand of them: five times their vectors.
            forget(0)
        self._tokenizer = tokenizer

    def vectors(self, texts: Sequence[str]) -> Any:
        import numpy

        rows = numpy.zeros((len(texts), self.dimensions), dtype="f4")
        # A mean is diluted by words that every text has.
        for row, text in zip(rows, texts, strict=True):
            # One by one: a batch takes threads, each with memory of its own.
            tokens = self._tokenizer.encode(telling(text), add_special_tokens=False)
            if tokens.ids:
                numpy.mean(self._vectors[tokens.ids], axis=0, dtype="f4", out=row)
        return rows


class OnnxModel:
    """
    A sentence transformer: the mean of what it makes of each token.

    :param folder: ``model.onnx`` and ``tokenizer.json``.
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
            # Other threads have work too, and none of these waits for it by going in circles.
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
        # Some models say a vector for the whole text; of the others the first output has one for each token.
        whole = [each for each in said if each.ndim == 2]
        if whole:
            return whole[0].astype("f4")
        counted = mask[:, :, None].astype("f4")
        return (said[0] * counted).sum(axis=1) / numpy.maximum(counted.sum(axis=1), 1.0)


def _installed(package: str) -> Path:
    """Where a package lies, which is not imported."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise EmbedderError(f"the package {package} is not installed")
    return Path(next(iter(found.submodule_search_locations)))


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
