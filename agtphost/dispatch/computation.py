"""The one place where computations of handlers run: small ones in the reactor's thread, all others in a worker."""

from __future__ import annotations

import inspect
from typing import Any

from twisted.internet.interfaces import IReactorTime

from agtphost.compute import functions
from agtphost.compute.functions import Computation
from agtphost.compute.pool import Pool
from agtphost.contract.binding import COMPUTE, Binding
from agtphost.dispatch.encoding import encode, in_turns
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.turn_owner import key_of
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.jsonslices import Encoded


async def run_computations(exchange: Exchange, answer: Any, pool: Pool, clock: IReactorTime) -> Any:
    """
    Await the result of a handler, and run each computation that it returns, one after the other.

    :raises agtphost.errors.Refusal: as :func:`run_computation` does.
    """
    while True:
        if type(answer) is Computation:
            answer = await run_computation(exchange, answer, pool, clock)
        elif inspect.isawaitable(answer):
            answer = await answer
        else:
            return answer


async def run_computation(exchange: Exchange, computation: Computation, pool: Pool, clock: IReactorTime) -> Any:
    """
    Run what a handler returned.

    :return: the answer: the result, as it is or as JSON, or what the computation's ``finish`` makes of it, which may
        be another computation or an awaitable.
    :raises agtphost.errors.Refusal: the function's own; 422 beyond a limit; 503 where too many wait.
    """
    binding: Binding = exchange.binding  # type: ignore[assignment]
    if binding.weight != COMPUTE:
        raise TypeError(f"{binding.display_name} returned a computation, and has the weight {binding.weight}")
    finish, result = computation.finish, None
    if functions.is_small(computation):
        result = functions.call(computation.function, computation.given)
    else:

        async def encode_input() -> bytes:
            if computation.read is None and computation.given is exchange.parameters and exchange.parameter_text:
                # Writing 300 kB of small values anew takes as long as reading them did.
                return exchange.parameter_text
            given = computation.given if computation.read is None else await in_turns(computation.read(), clock)
            return given.octets if type(given) is Encoded else await encode(given, clock)

        length = len(exchange.request.body)
        result = Encoded(await pool.run(key_of(exchange), computation.function, encode_input, length))
        if finish is not None:
            result = jsontext.decode_kept(result.octets)
    return result if finish is None else finish(result)
