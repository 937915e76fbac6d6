"""
Tables of one test: every row is tried, and every one that fails is named.

pytest makes an item of each row of ``parametrize``. An item costs a millisecond to collect, in each worker, and several
to run and to report, and this suite has tables of hundreds of rows that take microseconds. Where a row takes longer,
or needs fixtures of its own, ``pytest.mark.parametrize`` is right.
"""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

_FAILURES = (Exception, pytest.fail.Exception, pytest.skip.Exception)
"""A row that is skipped is none that passed."""

_PARAM = type(pytest.param())


def each_row(
    names: str | Sequence[str],
    rows: Iterable[Any] | Callable[[], Iterable[Any]],
    ids: Callable[[Any], object] | Iterable[object] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """
    ``pytest.mark.parametrize`` in one item: the same arguments, and the test is written in the same way.

    Fixtures are made once for all rows. ``inspect.unwrap`` of the test is that of one row.

    :param rows: at least one; a test without any fails. What is dear to make is a function, called when the test runs:
        each worker collects every module.
    """
    wanted = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]

    @functools.cache
    def table() -> list[tuple[str, dict[str, Any]]]:
        return list(_table(wanted, rows() if inspect.isfunction(rows) else rows, ids))

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in wanted]
        assert len(left) + len(wanted) == len(signature.parameters), f"no parameters {wanted}"

        def run(*bound: Any, **fixtures: Any) -> None:
            with _Failures(len(table())) as failures:
                for name, values in table():
                    with failures.of(name):
                        test(*bound, **values, **fixtures)

        async def run_async(*bound: Any, **fixtures: Any) -> None:
            with _Failures(len(table())) as failures:
                for name, values in table():
                    with failures.of(name):
                        await test(*bound, **values, **fixtures)

        wrapper = functools.wraps(test)(run_async if inspect.iscoroutinefunction(test) else run)
        wrapper.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return wrapper

    return decorate


def _table(
    names: Sequence[str], rows: Iterable[Any], ids: Callable[[Any], object] | Iterable[object] | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a row is called, and its values by name."""
    given = None if ids is None or callable(ids) else iter(ids)
    for number, row in enumerate(rows):
        named = isinstance(row, _PARAM)
        assert not (named and row.marks), "rows have no marks"
        values = [*row.values] if named else [row] if len(names) == 1 else [*row]
        assert len(values) == len(names), f"row {number} has {len(values)} values for {names}"
        called = (ids(value) for value in values) if callable(ids) else ()
        name = (
            row.id
            if named
            else str(next(given))
            if given
            else "-".join(str(each) for each in called if each is not None)
        )
        yield name or f"{number}: {reprlib.repr(row)}", dict(zip(names, values, strict=True))


class _Failures:
    """Of the rows of one test; leaving it raises them together."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._failed: dict[str, BaseException] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Keep what is raised here."""
        try:
            yield
        except _FAILURES as error:
            error.add_note(f"row {name}")
            self._failed[name] = error

    def __enter__(self) -> _Failures:
        assert self._count, "a table without a row shows nothing"
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._failed and kind is None:
            message = f"{len(self._failed)} of {self._count} rows failed: {', '.join(self._failed)}"
            raise BaseExceptionGroup(message, [*self._failed.values()])
