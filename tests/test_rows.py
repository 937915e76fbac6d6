"""A table in one test shows what one test for each row would."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from tests.rows import each_row


def test_every_row_is_tried_and_every_failure_named() -> None:
    """The rows behind a failure too, with what each of them has to say."""
    tried = []

    @each_row("number, wanted", [(1, 1), (2, 3), (3, 3), (4, 5)], ids=["one", "two", "three", "four"])
    def test(number: int, wanted: int) -> None:
        tried.append(number)
        assert number == wanted, f"{number} is not {wanted}"

    with pytest.raises(BaseExceptionGroup, match="2 of 4 rows failed: two, four") as caught:
        test()
    assert tried == [1, 2, 3, 4]
    assert [str(error).split("\n")[0] for error in caught.value.exceptions] == ["2 is not 3", "4 is not 5"]
    assert [error.__notes__ for error in caught.value.exceptions] == [["row two"], ["row four"]]


@pytest.mark.parametrize("end", [pytest.fail, pytest.skip])
def test_a_row_that_fails_or_is_skipped_by_name_is_none_that_passed(end: object) -> None:
    """``pytest.skip`` would end the whole table unseen."""

    @each_row("number", [1, 2], ids=lambda number: f"n{number}")
    def test(number: int) -> None:
        if number == 1:
            end("so")  # type: ignore[operator]

    with pytest.raises(BaseExceptionGroup, match="1 of 2 rows failed: n1"):
        test()


def test_a_table_without_rows_fails() -> None:
    """What makes the rows may find none."""

    @each_row("number", [])
    def test(number: int) -> None:
        pass

    with pytest.raises(AssertionError, match="without a row"):
        test()


def test_the_other_parameters_are_fixtures() -> None:
    """pytest sees them alone; marks stay."""

    @each_row(("number", "letter"), [(1, "a"), (2, "b")])
    @pytest.mark.slow
    def test(number: int, tmp_path: str, letter: str) -> None:
        assert (tmp_path, number) == ("here", 1)

    assert [*inspect.signature(test).parameters] == ["tmp_path"]
    assert [mark.name for mark in test.pytestmark] == ["slow"]  # type: ignore[attr-defined]
    with pytest.raises(BaseExceptionGroup, match=r"rows failed: 1: \(2, 'b'\)"):
        test(tmp_path="here")


def test_a_row_must_fit() -> None:
    """Values too many, and a name that the test does not have."""
    with pytest.raises(AssertionError, match="row 1 has 3 values"):
        each_row("a, b", [(1, 2), (1, 2, 3)])(lambda a, b: None)()
    with pytest.raises(AssertionError, match="no parameters"):
        each_row("b", [1])(lambda a: None)


def test_rows_may_have_names_of_their_own() -> None:
    """``pytest.param``; a mark would have no effect."""

    @each_row("number", [pytest.param(1, id="one"), pytest.param(2, id="two")])
    def test(number: int) -> None:
        assert number != 2

    with pytest.raises(BaseExceptionGroup, match="1 of 2 rows failed: two"):
        test()
    with pytest.raises(AssertionError, match="no marks"):
        each_row("number", [pytest.param(1, marks=pytest.mark.slow)])(lambda number: None)()


def test_a_table_is_made_when_its_test_runs() -> None:
    """Once, and not where its module is collected."""
    made = []

    def table() -> list[int]:
        made.append("a table")
        return [1, 2]

    @each_row("number", table)
    def test(number: int) -> None:
        assert number

    assert made == []
    test()
    test()
    assert made == ["a table"]


def test_coroutines_are_awaited_one_after_the_other() -> None:
    """With their failures told in the same way."""
    ended = []

    @each_row("number", [1, 2, 3])
    async def test(number: int) -> None:
        await asyncio.sleep(0)
        ended.append(number)
        assert number != 2

    with pytest.raises(BaseExceptionGroup, match="1 of 3 rows failed: 1: 2"):
        asyncio.run(test())
    assert ended == [1, 2, 3]


def test_tables_can_be_crossed() -> None:
    """As two ``parametrize`` can."""
    met = []

    @each_row("letter", "ab")
    @each_row("number", [1, 2])
    def test(number: int, letter: str) -> None:
        met.append(f"{letter}{number}")
        assert (letter, number) != ("b", 2)

    with pytest.raises(BaseExceptionGroup, match="1 of 2 rows failed: 1: 'b'"):
        test()
    assert met == ["a1", "a2", "b1", "b2"]
