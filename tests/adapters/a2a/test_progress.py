"""What becomes of a task by the events of its agent: A2A 1.0."""

from __future__ import annotations

from typing import Any

from agtphost.adapters.a2a.tasks import TaskProgress


def artifact(name: str, *texts: str, **more: Any) -> dict[str, Any]:
    """An event with an artifact."""
    given = {"artifactId": name, "parts": [{"text": text} for text in texts]}
    return {"artifactUpdate": {"taskId": "t-1", "artifact": given, **more}}


def test_artifacts_are_carried_as_the_agent_sent_them() -> None:
    """AGTP-279: one of the same id takes the place of the earlier one, unless it is appended; others stay."""
    progress = TaskProgress()
    progress.take({"task": {"id": "t-1", "artifacts": [{"artifactId": "a", "parts": [{"text": "first"}]}]}})
    progress.take(artifact("b", "one"))
    progress.take(artifact("a", "second"))
    progress.take(artifact("b", "two", "three", append=True))
    assert progress.task is not None
    assert progress.task["artifacts"] == [
        {"artifactId": "a", "parts": [{"text": "second"}]},
        {"artifactId": "b", "parts": [{"text": "one"}, {"text": "two"}, {"text": "three"}]},
    ]
