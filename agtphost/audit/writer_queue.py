"""The queue from the reactor's thread to the ledger's writer thread: groups of entries, tasks, and the end."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue

from agtphost.audit.submission_queue import MOST_ENTRIES, MOST_OCTETS
from agtphost.audit.writer import Entry

Task = Callable[[], object]


class WriterQueue:
    """
    A queue with one taker, the writer thread; any thread may put something in.

    Tasks are run by the taker between two groups, or while it waits for one; they do not end its wait.
    """

    def __init__(self) -> None:
        self._items: SimpleQueue[tuple[list[Entry], int]] = SimpleQueue()
        self._tasks: deque[Task] = deque()
        self._closed = False

    def put(self, entries: list[Entry], octets: int) -> None:
        """Hand over a group; ``octets`` is the size of its stored results."""
        self._items.put((entries, octets))

    def wake(self) -> None:
        """End the present wait of the taker without a group."""
        self._items.put(([], 0))

    def call(self, task: Task) -> None:
        """Have the taker call a function soon; it must not raise. After :meth:`close` it is dropped."""
        if not self._closed:
            self._tasks.append(task)
            self._items.put(([], 1))

    def stop(self) -> None:
        """Mark the end: what is put in later is not taken by the writer's loop."""
        self._items.put(([], -1))

    def close(self) -> None:
        """Drop tasks from now on: the taker ends. Groups can still be taken, to be refused."""
        self._closed = True
        self._tasks.clear()

    def run_tasks(self) -> None:
        """Call the functions that wait; used by the taker."""
        while self._tasks:
            self._tasks.popleft()()

    def take(self, timeout: float) -> tuple[list[Entry], bool] | None:
        """
        Return everything that waits, and whether it is the last; None where nothing came.

        :param timeout: seconds to wait.
        """
        end = time.monotonic() + timeout
        while True:
            try:
                entries, octets = self._items.get(timeout=max(end - time.monotonic(), 0))
            except Empty:
                return None
            if entries or octets < 1:
                break
            self.run_tasks()
        stop = octets < 0
        while not stop and len(entries) < MOST_ENTRIES and octets <= MOST_OCTETS and not self._items.empty():
            more, size = self._items.get()
            stop = size < 0
            entries += more
            octets += size
        return entries, stop
