"""The state that travels through a client of 2026-07-28 while it answers a server's question."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agtphost.mcp.elicitation import pack_state, unpack_state
from agtphost.mcp.messages import McpFault
from tests.rows import each_row

TASK_IDS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=128)


@given(TASK_IDS, st.none() | st.text())
def test_a_state_comes_back_as_it_went(task_id: str, state: str | None) -> None:
    """The Task-ID and the host's own state, whatever they are."""
    assert unpack_state(pack_state(task_id, state)) == (task_id, state)


@each_row("packed", ["", "agtp1.", "agtp1.!!.=x", "agtp1.dA==.x", "agtp1.Cg==.=x", "other.dA==.=x"])
def test_anything_else_is_refused(packed: str) -> None:
    """-32602 for what the bridge did not make."""
    with pytest.raises(McpFault) as refused:
        unpack_state(packed)
    assert refused.value.code == -32602


@given(st.text())
def test_no_text_breaks_it(packed: str) -> None:
    """Whatever a client sends is a state or a refusal."""
    try:
        task_id, _ = unpack_state(packed)
    except McpFault:
        return
    assert task_id
