"""When a right ends, as the command line takes it."""

from __future__ import annotations

import pytest

from agtphost.cli.agent.grants import end_of
from agtphost.cli.failures import WrongInput


def test_a_date_is_of_utc_and_a_time_has_its_zone() -> None:
    """As in the filter language of records."""
    assert end_of("2027-01-31", None) == "2027-01-31T00:00:00Z"
    assert end_of("2027-01-31T12:00:00+01:00", None) == "2027-01-31T11:00:00Z"


@pytest.mark.parametrize("until", ["2027-01-31T12:00:00", "2027-01-31 12:00", "2027-01-31T12"])
def test_a_time_without_zone_is_refused(until: str) -> None:
    """It was taken for UTC without a word, so that a right ended hours later than its operator meant, or earlier."""
    with pytest.raises(WrongInput, match="has no time zone") as refused:
        end_of(until, None)
    assert "Write 2027-01-31T12:00:00Z for UTC" in refused.value.remedy
