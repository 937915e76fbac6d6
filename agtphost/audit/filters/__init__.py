"""
The filter language of records: one text, or the same as options, for commands, INSPECT and the page.

- :mod:`.query_text`: a text as its terms, and back
- :mod:`.fields`: the fields that a term can name, and what each takes
- :mod:`.errors`: why a filter cannot be used
- :mod:`.record_filter`: a filter whose values are checked, and the search that it means
- :mod:`.slips`: what may be wrong with a filter that no record matches
"""

from __future__ import annotations

from agtphost.audit.filters.errors import FilterError
from agtphost.audit.filters.fields import FIELDS
from agtphost.audit.filters.record_filter import FindAgents, RecordFilter
from agtphost.audit.filters.slips import find_slips

__all__ = ["FIELDS", "FilterError", "FindAgents", "RecordFilter", "find_slips"]
