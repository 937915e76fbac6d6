"""QUERY /library/{isbn}: a look-up that may find nothing."""

from __future__ import annotations

from agtphost import EndpointContext, EndpointError

SHELF = {
    "9780141439518": {"title": "Pride and Prejudice", "author": "Jane Austen", "year": 1813},
    "9780142437230": {"title": "Moby-Dick", "author": "Herman Melville", "year": 1851},
    "9780486280615": {"title": "Adventures of Huckleberry Finn", "author": "Mark Twain", "year": 1884},
}


def look_up(ctx: EndpointContext) -> dict[str, object]:
    """The book of that number; the endpoint declares ``book_unknown`` for all others."""
    isbn = ctx.input["isbn"].replace("-", "")
    book = SHELF.get(isbn)
    if book is None:
        raise EndpointError("book_unknown", {"isbn": isbn})
    return {"isbn": isbn, **book}
