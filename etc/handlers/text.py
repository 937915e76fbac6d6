"""ECHO /text: a coroutine that also speaks while it works."""

from __future__ import annotations

from agtphost import EndpointContext


async def echo(ctx: EndpointContext) -> dict[str, object]:
    """Return the text; a caller that asked for a stream gets its words one by one before."""
    words = ctx.input["text"].split()
    for number, word in enumerate(words, 1):
        await ctx.emit({"word": word, "number": number})
    return {"text": ctx.input["text"], "words": len(words)}
