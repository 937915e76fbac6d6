"""``[search]``: by what this host finds what there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from agtphost.config.faults import ConfigFault
from agtphost.config.upstreams import web_url
from agtphost.config.values import FilePath, Items, Line, Network, SecretReference, Section
from agtphost.vocabulary.tomltext import Location

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "bm25": (),
    "static": ("numpy", "tokenizers", "wordllama"),
    "onnx": ("onnxruntime", "numpy", "tokenizers"),
    "http": ("numpy",),
}
"""The packages that each engine needs."""

MODEL = ("model.onnx", "tokenizer.json")
"""Files of a model's directory."""


class SearchSection(Section):
    """
    The section ``[search]``: how DISCOVER with ``criteria``, the registry and ``search_tools`` rank (``docs/search``).
    A change of it is taken on a reload.
    """

    engine: Literal["bm25", "static", "onnx", "http"] = "bm25"
    """
    ``bm25``: by words, which needs nothing. ``static``: by meaning too, with vectors that a package brings
    (``agtphost[semantic]``). ``onnx``: with a sentence transformer of your own (``agtphost[onnx]``). ``http``: with an
    embeddings service (``agtphost[semantic]``). Where vectors cannot be had, words alone count, and answers say so.
    """

    model: Line = ""
    """
    For ``onnx`` the directory of ``model.onnx`` and ``tokenizer.json``, relative to the file of the configuration; for
    ``http`` the name of the service's model. Required for both.
    """

    url: Annotated[str, BeforeValidator(lambda value: web_url(value) if value else "")] = ""
    """
    For ``http``: where embeddings are asked for as OpenAI's are, such as ``https://models.example/v1/embeddings``, or
    over ``http`` on this machine's own loopback addresses. It gets descriptions of what is hosted, and queries.
    """

    key: SecretReference | None = None
    """For ``http``: sent as ``Authorization: Bearer``; a reference, never the key itself."""

    ca: FilePath | None = None
    """For ``http``: PEM file of the only authorities trusted for the service; None: this machine's."""

    allow_addresses: Items[Network] = ()
    """For ``http``: networks besides the public ones that the service may be in, such as ``10.1.0.0/16``."""

    timeout: Annotated[float, Field(gt=0, le=60)] = 10.0
    """For ``http``: seconds until a request counts as failed."""

    def folder(self, beside: Path) -> Path:
        """Return the directory of the model."""
        return beside / self.model


ONLY_HTTP = ("url", "key", "ca", "allow_addresses")


def search_faults(search: SearchSection, folder: Path) -> Iterator[ConfigFault]:
    """Check rules that span several keys of ``[search]``."""

    def at(key: str) -> Location:
        return ("search", key)

    if search.engine == "http" and not search.url:
        yield ConfigFault(location=at("url"), message="is missing", hint="name the URL of the embedding service")
    if search.engine in ("http", "onnx") and not search.model:
        hint = "name the directory of model.onnx" if search.engine == "onnx" else "name the service's model"
        yield ConfigFault(location=at("model"), message="is missing", hint=hint)
    elif search.engine == "onnx":
        for file in MODEL:
            if not (search.folder(folder) / file).is_file():
                yield ConfigFault(
                    location=at("model"),
                    message=f"has no {file}: {search.folder(folder)}",
                    hint="export the model to ONNX, with the tokenizer.json that it was trained with",
                )
    if search.engine in ("bm25", "static") and search.model:
        yield ConfigFault(
            location=at("model"), message=f"has no effect with the engine {search.engine}", hint="remove it"
        )
    for key in ONLY_HTTP:
        if search.engine != "http" and getattr(search, key):
            yield ConfigFault(location=at(key), message='is for engine = "http"', hint="remove it")
    if search.ca is not None and not search.ca.is_file():
        yield ConfigFault(location=at("ca"), message=f"does not exist: {search.ca}")
