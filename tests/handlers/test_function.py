"""Registered functions: how a dotted path is resolved, and what is said where it cannot be."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from zope.interface.verify import verifyObject

from agtphost.handlers.context import EndpointContext
from agtphost.handlers.function import RegisteredFunction, UnresolvableFunction, resolve
from agtphost.iagtp import IHandler
from tests.rows import each_row

CONTEXT = EndpointContext(input={"n": 1}, method="QUERY", path="/")


def answer(context: EndpointContext) -> dict[str, object]:
    """What the tests resolve."""
    return {"n": context.input["n"]}


def coroutine_or_not(context: EndpointContext) -> str:
    """Another one."""
    return context.method


NUMBER = 7


class Shelf:
    """A callable that is no function."""

    def __call__(self, context: EndpointContext) -> str:
        return "called"


SHELF = Shelf()


def test_a_function_is_found_and_called() -> None:
    """The dotted path's function answers (API-129)."""
    handler = RegisteredFunction(resolve(f"{__name__}.answer"))
    assert handler.handle(CONTEXT) == {"n": 1}
    assert verifyObject(IHandler, handler)


def test_any_callable_will_do() -> None:
    """An instance with ``__call__`` is a function too."""
    assert RegisteredFunction(resolve(f"{__name__}.SHELF")).handle(CONTEXT) == "called"


@each_row("dotted", ["", "answer", ".answer", f"{__name__}.", "."])
def test_what_is_no_dotted_path(dotted: str) -> None:
    """A path without module or name says what one looks like."""
    with pytest.raises(UnresolvableFunction, match=r"package\.module\.function"):
        resolve(dotted)


@each_row(
    ("dotted", "message"),
    [
        ("no_such_module_anywhere.answer", "the module no_such_module_anywhere cannot be imported"),
        ("..answer", "cannot be imported"),
        (f"{__name__}.no_such_name", "has no no_such_name"),
        (f"{__name__}.NUMBER", "is not callable"),
    ],
)
def test_which_part_is_missing_is_said(dotted: str, message: str) -> None:
    """The message names the part that is wrong."""
    with pytest.raises(UnresolvableFunction, match=message):
        resolve(dotted)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise RuntimeError('the shelf is empty')", "the shelf is empty"),
        ("def broken(:\n", "SyntaxError"),
        ("import no_such_module_anywhere", "no_such_module_anywhere"),
        ("raise SystemExit(3)", "SystemExit"),
    ],
)
def test_a_module_that_fails_is_reported_and_does_not_end_the_start(
    source: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a module does when it is imported is the operator's to read, not the end of the process."""
    (tmp_path / "operators_module.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "operators_module", raising=False)
    with pytest.raises(UnresolvableFunction, match=said):
        resolve("operators_module.answer")


def test_an_exception_at_import_is_named_by_file_and_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line that raised it, in whichever of the operator's modules; of an import that finds nothing, its line."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "raising_helper.py").write_text("VALUE = 1\nVALUE / 0\n")
    (tmp_path / "raising_entry.py").write_text("import raising_helper\n")
    (tmp_path / "missing_entry.py").write_text("\nimport nothing_of_that_name\n")
    for dotted, place in (
        ("raising_entry.answer", ("raising_helper.py", 2)),
        ("missing_entry.answer", ("missing_entry.py", 2)),
    ):
        with pytest.raises(UnresolvableFunction) as wrong:
            resolve(dotted)
        assert wrong.value.place == (str(tmp_path / place[0]), place[1])
    with pytest.raises(UnresolvableFunction) as wrong:
        resolve("no_such_module_anywhere.answer")
    assert wrong.value.place is None
