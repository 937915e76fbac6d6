"""Space kept for a full disk."""

from __future__ import annotations

from pathlib import Path

from agtphost.stores.ballast import PIECE, Ballast


def allocated(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_it_takes_real_space_and_gives_it_back_in_pieces(tmp_path: Path) -> None:
    """Blocks, not a hole; a piece at a time, until nothing is left."""
    path = tmp_path / "records.sqlite3.reserve"
    ballast = Ballast(path, 3 * PIECE - 1)
    assert (ballast.remaining, ballast.missing) == (0, 3 * PIECE - 1)
    ballast.hold()
    assert allocated(path) >= 3 * PIECE - 1 and not ballast.missing
    assert path.stat().st_mode & 0o777 == 0o600
    assert [ballast.give_back() for _ in range(4)] == [PIECE, PIECE, PIECE - 1, 0]
    assert allocated(path) == 0
    ballast.hold()
    assert allocated(path) >= 3 * PIECE - 1


def test_it_is_found_again(tmp_path: Path) -> None:
    """After a restart what is there counts; another size is taken on, and none removes the file."""
    path = tmp_path / "reserve"
    Ballast(path, 2 * PIECE).hold()
    again = Ballast(path, 3 * PIECE)
    assert again.missing == PIECE
    again.hold()
    assert path.stat().st_size == 3 * PIECE
    smaller = Ballast(path, PIECE)
    smaller.hold()
    assert path.stat().st_size == PIECE
    Ballast(path, 0).hold()
    assert not path.exists()


def test_it_takes_less_where_less_is_to_be_had(tmp_path: Path) -> None:
    """Up to so much; what it should hold besides is missing still."""
    ballast = Ballast(tmp_path / "reserve", 3 * PIECE)
    ballast.hold(PIECE)
    assert (ballast.remaining, ballast.missing) == (PIECE, 2 * PIECE)
    ballast.hold(0)
    assert ballast.remaining == PIECE, "what is there is kept"
    ballast.hold(9 * PIECE)
    assert not ballast.missing
