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
        self.put = self._items.put
        """Hand over a group, with the size of its stored results; not a method, as it is called for each answer."""

        self.tasks: deque[Task] = deque()
        """Functions that wait to be called."""

        self._closed = False

    def wake(self) -> None:
        """End the present wait of the taker without a group."""
        self._items.put(([], 0))

    def call(self, task: Task) -> None:
        """Have the taker call a function soon; it must not raise. After :meth:`close` it is dropped."""
        if not self._closed:
            self.tasks.append(task)
            self._items.put(([], 1))

    def stop(self) -> None:
        """Mark the end: what is put in later is not taken by the writer's loop."""
        self._items.put(([], -1))

    def close(self) -> None:
        """Drop tasks from now on: the taker ends. Groups can still be taken, to be refused."""
        self._closed = True
        self.tasks.clear()

    def run_tasks(self) -> None:
        """Call the functions that wait; used by the taker."""
        while self.tasks:
            self.tasks.popleft()()

    def take(self, timeout: float) -> tuple[list[Entry], bool] | None:
        """
        Return everything that waits, and whether it is the last; None where nothing came.

        :param timeout: seconds to wait.
        """
        try:
            entries, octets = self._items.get(timeout=timeout)
            if octets > 0 and not entries:
                entries, octets = self._run_tasks_until(timeout)
        except Empty:
            return None
        stop = octets < 0
        while not stop and len(entries) < MOST_ENTRIES and octets <= MOST_OCTETS and not self._items.empty():
            more, size = self._items.get()
            stop = size < 0
            entries += more
            octets += size
        return entries, stop

    def _run_tasks_until(self, timeout: float) -> tuple[list[Entry], int]:
        """
        Run tasks until there is something else, and return that.

        :raises queue.Empty: nothing else came for so many seconds.
        """
        end = time.monotonic() + timeout
        while True:
            self.run_tasks()
            entries, octets = self._items.get(timeout=max(end - time.monotonic(), 0))
            if entries or octets < 1:
                return entries, octets
