"""The similarity model of ``agtp agis validate --similarity`` and ``match --by-meaning`` (AGIS v01 section 9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agtphost import extras
from agtphost.cli.failures import WrongInput

if TYPE_CHECKING:
    from agtphost.agis.passes.similarity import Similarity

_NEEDED = ("numpy", "tokenizers", "wordllama")


def similarity(thresholds: str, model: Path | None, *, fails: bool) -> Similarity:
    """
    Return the similarity measure of a check.

    :param thresholds: ``0.3,0.1``: below the first number the check warns, below the second it fails.
    :param model: a folder with a sentence transformer; None: the static vectors of the extra ``semantic``.
    :param fails: whether similarity below the second number is an error.
    :raises WrongInput: the thresholds are malformed, or the model cannot be loaded.
    """
    from agtphost.agis.passes.similarity import Similarity

    try:
        warn, fail = (float(part) for part in thresholds.split(","))
        sound = -1 <= fail <= warn <= 1
    except ValueError:
        sound = False
    if not sound:
        raise WrongInput(f"--similarity: {thresholds} is not two numbers, larger first", "Such as 0.3,0.1.")
    return Similarity(measure=measure_of(model, "--similarity"), warn=warn, fail=fail if fails else None)


def measure_of(folder: Path | None, option: str) -> Callable[[Sequence[tuple[str, str]]], Sequence[float]]:
    """
    Return a function that measures the similarity in meaning of many pairs of texts at a time.

    :param folder: a folder with a sentence transformer; None: the static vectors of the extra ``semantic``.
    :param option: the option that needs the model, for error messages.
    :raises WrongInput: a package is missing, or the model cannot be loaded.
    """
    needed = (*_NEEDED, "onnxruntime") if folder is not None else _NEEDED
    absent = next((package for package in needed if not extras.is_installed(package)), None)
    if absent is not None:
        raise WrongInput(f"{option}: {absent} is not installed", f"Install it: {extras.remedy(absent)}.")
    from agtphost.search.engine import EmbedderError
    from agtphost.search.models import OnnxModel, StaticVectors, unit

    model = OnnxModel(folder) if folder is not None else StaticVectors()
    try:
        model.load()
    except EmbedderError as error:
        raise WrongInput(f"{option}: {error}", "Name a folder with model.onnx and tokenizer.json.") from None

    def measure(pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        methods, intents = zip(*pairs, strict=True)
        return [float(each) for each in (unit(model.vectors(methods)) * unit(model.vectors(intents))).sum(axis=1)]

    return measure
