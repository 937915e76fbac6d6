"""
The reactor's side of the workers: who is next, what may wait, and the processes.

Theory of operation. Calls wait by key, which is an agent or an address. A free worker takes the oldest call of the key
that waits longest without having been served (round-robin), and of each key one call runs at a time. So an agent with
many calls waits for its own. A worker is started when a call finds none free, and ends after :data:`IDLE` seconds
without work. A call that is cancelled is skipped where it waits, and stopped where it runs. Nothing here blocks: octets
go through pipes that the reactor watches.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, DeferredList
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.interfaces import IDelayedCall, IProcessTransport, IReactorProcess
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

import agtphost
from agtphost.compute import functions, worker
from agtphost.errors import Refusal
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.reasons import Reason

log = Logger()

WORKERS = 2
"""Processes: with one, a long computation of one agent would hold up those of all others."""

MOST_WAITING = 512
MOST_WAITING_EACH = 128
"""Calls that wait, in all and of one key."""

MOST_OCTETS = 8_388_608
MOST_OCTETS_EACH = 2_097_152
"""Octets of the requests that wait, in all and of one key. A single call may wait even if it is longer."""

LONGEST = 60.0
"""Seconds by the clock for one computation: it may wait for a processor, and for the pipes."""

IDLE = 60.0
"""Seconds until a worker without work ends. Starting one takes 0.2 s of processor time, having one 20 MiB."""

STOPPING = 5.0
"""Seconds that a worker has to stop a computation, until it is killed; it may still be starting."""

PATIENCE = 5.0
"""Seconds that a worker has to end, until it is killed."""

CONTROL = 3
DESCRIPTORS = {0: "w", 1: "r", 2: "r", CONTROL: "w"}
"""Pipes of a worker, from this side."""

OURS = str(Path(agtphost.__file__).parents[1])
INHERITED = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "PYTHONHOME")


Encode = Callable[[], Awaitable[bytes]]


class ComputationFailed(Exception):
    """A registered function or its worker broke; the message is for the operator."""


class _Call:
    """A computation that waits or runs."""

    __slots__ = ("answer", "encode", "function", "key", "length")

    def __init__(self, key: str, function: str, encode: Encode, length: int) -> None:
        self.key, self.function, self.encode, self.length = key, function, encode, length
        self.answer: Deferred[bytes]


class WorkerPool(Service):
    """
    Runs registered functions in worker processes.

    :param reactor: starts processes, and counts time.
    :param most: workers at a time.
    """

    name = "compute"

    def __init__(self, reactor: Any, most: int = WORKERS) -> None:
        self._reactor = reactor
        self._most = most
        self._queues: dict[str, deque[_Call]] = {}
        self._waiting: Counter[str] = Counter()
        self._running: dict[str, _Worker] = {}
        self.workers: list[_Worker] = []
        self.started = 0
        """Processes that were started so far."""

    @property
    def waiting(self) -> int:
        """Computations that no worker has taken."""
        return sum(map(len, self._queues.values()))

    @property
    def busy(self) -> int:
        """Computations that run."""
        return len(self._running)

    def run(self, key: str, function: str, encode: Encode, length: int) -> Deferred[bytes]:
        """
        Run a function.

        :param key: who asks; calls of one key run one after the other.
        :param function: its name in :data:`agtphost.compute.functions.FUNCTIONS`.
        :param encode: makes the JSON of what it is given, when the turn of the call has come.
        :param length: octets of the request, which are kept as long as it waits.
        :return: fires with the JSON of the result. Cancelling it skips or stops the computation.
        :raises Refusal: 503 where too much waits.
        """
        own, lengths = self._queues.get(key, ()), self._waiting.total()
        if (
            len(own) >= MOST_WAITING_EACH
            or (own and self._waiting[key] + length > MOST_OCTETS_EACH)
            or self.waiting >= MOST_WAITING
            or (lengths and lengths + length > MOST_OCTETS)
        ):
            raise Refusal(
                Reason.HANDLERS_BUSY,
                "As many computations of the caller, or of all callers, wait as may.",
                remedy="Wait for the answers to earlier calls, then try again.",
                headers=(("Retry-After", "1"),),
            )
        call = _Call(key, function, encode, length)
        call.answer = Deferred(lambda _: self._abandon(call))
        self._queues.setdefault(key, deque()).append(call)
        self._waiting[key] += length
        self._serve()
        return call.answer

    def renew(self) -> None:
        """Replace every worker: those that compute end afterwards, and new ones are started when needed."""
        for each in tuple(self.workers):
            each.retire()

    def stopService(self) -> Deferred[Any]:
        """Cancel all calls and end every worker; fires when they have ended."""
        super().stopService()  # type: ignore[no-untyped-call]
        for own in tuple(self._queues.values()):
            for call in tuple(own):
                call.answer.cancel()
        return DeferredList([each.end() for each in tuple(self.workers)])

    # Whose turn it is

    def _serve(self) -> None:
        """Give waiting calls to free workers, and start workers as far as there may be more."""
        while (key := next((key for key in self._queues if key not in self._running), None)) is not None:
            free = next((each for each in self.workers if each.is_free), None)
            if free is None:
                if len(self.workers) >= self._most:
                    return
                try:
                    free = self._start()
                except OSError as error:
                    log.error("a worker process cannot be started: {error}", error=error)
                    self._take(key).answer.errback(_failure("no worker process can be started"))
                    continue
            call = self._take(key)
            self._running[key] = free
            free.take(call)

    def _take(self, key: str) -> _Call:
        own = self._queues.pop(key)
        call = own.popleft()
        self._forget(call)
        if own:
            self._queues[key] = own  # behind the others
        return call

    def _forget(self, call: _Call) -> None:
        self._waiting[call.key] -= call.length
        if not self._waiting[call.key]:
            del self._waiting[call.key]

    def _start(self) -> _Worker:
        made = _Worker(self, self._reactor)
        environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
        environment["PYTHONPATH"] = OURS
        words = (sys.executable, "-P", "-m", worker.__name__, str(os.getpid()))
        self._reactor.spawnProcess(made, sys.executable, words, env=environment, childFDs=DESCRIPTORS)
        made.yield_processor()
        self.workers.append(made)
        self.started += 1
        return made

    def _abandon(self, call: _Call) -> None:
        """Give up a call whose caller is gone."""
        own = self._queues.get(call.key)
        if own is not None and call in own:
            own.remove(call)
            self._forget(call)
            if not own:
                del self._queues[call.key]
            return
        running = self._running.get(call.key)
        if running is not None and running.call is call:
            running.stop()

    # What workers say

    def finish_call(self, call: _Call, result: Any) -> None:
        """Finish a call: ``result`` is octets, or a Failure."""
        self._running.pop(call.key, None)
        if not call.answer.called:
            call.answer.callback(result)
        self._serve()

    def drop_worker(self, gone: _Worker) -> None:
        """Drop a worker that has ended; another one takes the waiting calls."""
        if gone in self.workers:
            self.workers.remove(gone)
        if self._queues:
            self._reactor.callLater(0, self._serve)


class _Worker(ProcessProtocol):
    """A worker process."""

    def __init__(self, pool: WorkerPool, reactor: Any) -> None:
        self._pool, self._reactor = pool, reactor
        self.call: _Call | None = None
        self._buffer = bytearray()
        self._timer: IDelayedCall | None = None
        self._retiring = self._closing = self._gone = self._begun = False
        self._number = 0
        self._over: list[Deferred[None]] = []

    transport: IProcessTransport

    @property
    def is_free(self) -> bool:
        """Whether it can take a computation; one that is being started can, and reads it when it has begun."""
        return self.call is None and not self._retiring and not self._closing and not self._gone

    def yield_processor(self) -> None:
        """
        Lower the priority of the process, so that the reactor has the processor first where there is one for both.

        From here and not in the worker itself: starting one takes 0.2 s of processor time, most of it imports, and
        two that started with the host's own priority doubled the time of every call in that time.
        """
        with suppress(OSError):  # It has ended already.
            own = os.getpriority(os.PRIO_PROCESS, 0)
            os.setpriority(os.PRIO_PROCESS, self.transport.pid, own + worker.NICENESS)

    def take(self, call: _Call) -> None:
        """Encode the input of a call and begin its computation; the worker is not free from now on."""
        self.call = call
        self._set(LONGEST, self._fail_late_call)
        Deferred.fromCoroutine(_encode_call(call)).addCallbacks(self._begin, self._cannot_begin, (call,), {}, (call,))

    def _begin(self, octets: bytes, call: _Call) -> None:
        """Send the encoded input to the worker, unless its caller has been answered already."""
        if self.call is not call or self._gone:
            return
        if call.answer.called:
            self._end_computation(Failure(CancelledError()))  # type: ignore[no-untyped-call]
            return
        self._begun = True
        self._number += 1
        name = call.function.encode()
        self.transport.writeSequence([worker.HEAD.pack(self._number, len(name), len(octets)), name, octets])

    def _cannot_begin(self, failure: Failure, call: _Call) -> None:
        if self.call is call:
            self._end_computation(failure)

    def stop(self) -> None:
        """Stop the computation that has begun; a worker that does not confirm that in time is killed."""
        if self._begun:
            self.transport.writeToChild(CONTROL, worker.CONTROL.pack(self._number))
            self._set(STOPPING, lambda: self._signal(signal.SIGKILL))

    def retire(self) -> None:
        """End the worker after its present computation."""
        self._retiring = True
        if self.call is None:
            self._close()

    def end(self) -> Deferred[None]:
        """Cancel the call that it computes, and end the worker; fires when the process is gone."""
        over: Deferred[None] = Deferred()
        if self._gone:
            over.callback(None)
            return over
        self._over.append(over)
        self._retiring = True
        if self.call is not None:
            self.call.answer.cancel()
            self._signal(signal.SIGKILL)
        self._close()
        return over

    def _close(self) -> None:
        if not self._closing:
            self._closing = True
            self.transport.closeStdin()
            self._set(PATIENCE, lambda: self._signal(signal.SIGKILL))

    def _fail_late_call(self) -> None:
        """Fail the call that has taken :data:`LONGEST` seconds, and stop its computation if that has begun."""
        call = self.call
        if call is not None and not call.answer.called:
            call.answer.errback(Failure(_too_long()))  # type: ignore[no-untyped-call]
        self.stop()

    def _signal(self, number: int) -> None:
        with suppress(ProcessExitedAlready):
            self.transport.signalProcess(number)

    def _set(self, seconds: float, late: Any) -> None:
        self._clear()
        self._timer = self._reactor.callLater(seconds, late)

    def _clear(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    # What it says

    def outReceived(self, data: bytes) -> None:
        """Take octets of an answer."""
        self._buffer += data
        head = worker.ANSWER_HEAD
        while len(self._buffer) >= head.size:
            kind, length = head.unpack_from(self._buffer)
            if len(self._buffer) < head.size + length:
                return
            said = bytes(memoryview(self._buffer)[head.size : head.size + length])
            self._buffer = self._buffer[head.size + length :]
            if kind != functions.READY:
                self._end_computation(_outcome(kind, said))

    def errReceived(self, data: bytes) -> None:
        """Log what the worker writes to standard error, which only a broken one does."""
        log.error("a worker process says: {text}", text=data[:2_000].decode("utf-8", "replace"))

    def _end_computation(self, outcome: Any) -> None:
        """End the present computation with this outcome."""
        call, self.call, self._begun = self.call, None, False
        if self._retiring:
            self._close()
        elif not self._closing:
            self._set(IDLE, self._close)
        if call is not None:
            self._pool.finish_call(call, outcome)

    def childConnectionLost(self, childFD: int) -> None:
        """Treat the worker as lost when its output ends."""
        if childFD == 1:
            self._lose()

    def processEnded(self, reason: Failure) -> None:
        """Treat the worker as lost when its process ended."""
        self._lose()

    def _lose(self) -> None:
        if self._gone:
            return
        self._gone = True
        self._clear()
        self._pool.drop_worker(self)
        call, self.call = self.call, None
        if call is not None:
            if not self._closing:
                log.error("a worker process ended while it computed {function}", function=call.function)
            self._pool.finish_call(call, _failure("the worker process ended"))
        over, self._over = self._over, []
        for each in over:
            each.callback(None)


async def _encode_call(call: _Call) -> bytes:
    return await call.encode()


def _failure(what: str) -> Failure:
    return Failure(ComputationFailed(what))  # type: ignore[no-untyped-call]


def _too_long() -> Refusal:
    return functions.too_costly(f"Working this out takes more than {worker.SECONDS} seconds.")


def _outcome(kind: bytes, said: bytes) -> Any:
    """Return the meaning of a worker's answer: the octets of a result, or a Failure."""
    error: Exception
    if kind == functions.RESULT:
        return said
    if kind == functions.REFUSAL:
        error = functions.refusal_from_json(jsontext.decode_kept(said))
    elif kind == functions.TOO_MUCH_TIME:
        error = _too_long()
    elif kind == functions.TOO_MUCH_MEMORY:
        error = functions.too_costly(f"Working this out takes more than {worker.MEMORY >> 20} MiB.")
    elif kind == functions.STOPPED:
        error = CancelledError()
    else:
        error = ComputationFailed(said.decode("utf-8", "replace"))
    return Failure(error)  # type: ignore[no-untyped-call]


class LocalPool(Service):
    """Runs registered functions in this process, for hosts without worker processes, such as one in memory."""

    name = "compute"
    done = 0

    def run(self, key: str, function: str, encode: Encode, length: int) -> Deferred[bytes]:
        """Run a function here and now; see :meth:`WorkerPool.run`."""

        async def perform() -> Any:
            self.done += 1
            outcome = _outcome(*functions.perform(function, await encode()))
            if isinstance(outcome, Failure):
                outcome.raiseException()
            return outcome

        return Deferred.fromCoroutine(perform())

    def renew(self) -> None:
        """Do nothing, because no worker could be outdated."""


Pool = WorkerPool | LocalPool


def pool_of(reactor: Any) -> Pool:
    """Return a pool of processes if the reactor can start them, and else a local one."""
    return WorkerPool(reactor) if IReactorProcess.providedBy(reactor) else LocalPool()
