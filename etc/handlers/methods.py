"""Functions behind methods/endpoints.toml: what the draft's use cases need besides the host itself."""

from __future__ import annotations

import base64
import csv
import html
import re

from agtphost import EndpointContext, EndpointError

WORDS = {
    "fr": {"red lamp": "lampe rouge", "blue desk": "bureau bleu"},
    "de": {"red lamp": "rote Lampe", "blue desk": "blauer Schreibtisch"},
}
ACCESSORIES = [
    {"name": "strap", "category": "photo", "price": 20},
    {"name": "cloth", "category": "photo", "price": 5},
    {"name": "tripod", "category": "photo", "price": 45},
    {"name": "lens", "category": "photo", "price": 900},
    {"name": "lamp", "category": "light", "price": 30},
]
_guests: set[str] = set()


def translate(ctx: EndpointContext) -> dict[str, object]:
    """TRANSLATE: what a glossary has; a translation service is called in the same way."""
    glossary = WORDS.get(ctx.input["target_language"].partition("-")[0], {})
    content = str(ctx.input["content"])
    for english, other in glossary.items():
        content = content.replace(english, other)
    return {"content": content, "source_language": ctx.input.get("source_language", "en")}


def predict(ctx: EndpointContext) -> dict[str, object]:
    """PREDICT: who calls support often and signs in rarely is likely to leave."""
    found = []
    for account in ctx.input["input"]:
        factors = {"support_calls": account["support_calls"] / 10, "idle_days": account["idle_days"] / 60}
        likely = min(1.0, sum(factors.values()))
        top = max(factors, key=lambda name: factors[name])
        explained = {"factors": [top]} if ctx.input.get("explain") else {}
        found.append({"account": account["id"], "churn": likely, "confidence": max(likely, 1 - likely), **explained})
    return {"predictions": found}


def recommend(ctx: EndpointContext) -> dict[str, object]:
    """RECOMMEND: accessories that were not bought yet, the dearest first; the host enforces the constraints."""
    bought = ctx.input["context"].get("bought", [])
    offered = [each for each in ACCESSORIES if each["name"] not in bought]
    offered.sort(key=lambda each: -float(str(each["price"])))
    return {"recommendations": [{**each, "score": 0.8, "confidence": 0.6, "rationale": "It fits."} for each in offered]}


def addresses(ctx: EndpointContext) -> dict[str, object]:
    """NORMALIZE /address: street, town and country of addresses that are written with commas."""
    given = ctx.input["data"] if isinstance(ctx.input["data"], list) else [ctx.input["data"]]
    parts = [[part.strip().title() for part in str(each).split(",")] for each in given]
    forms = [dict(zip(("street", "town", "country"), each, strict=False)) for each in parts]
    return {"values": [{"original": one, "canonical": other} for one, other in zip(given, forms, strict=True)]}


def pdf(ctx: EndpointContext) -> dict[str, object]:
    """TRANSFORM /pdf: the text of a page in the smallest PDF; a renderer of pages is called in the same way."""
    text = html.unescape(re.sub("<[^>]*>", " ", ctx.input["html"])).encode("latin-1", "replace")
    shown = re.sub(rb"[()\\]", rb" ", b" ".join(text.split()))[:900]
    page = b"BT /F1 9 Tf 40 800 Td (" + shown + b") Tj ET"
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R"
        b" /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(page), page),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    )
    parts = [b"%d 0 obj\n%s\nendobj\n" % (number, each) for number, each in enumerate(objects, 1)]
    whole = b"%PDF-1.4\n" + b"".join(parts) + b"trailer << /Root 1 0 R /Size 6 >>\n%%EOF\n"
    return {"document": base64.b64encode(whole).decode()}


async def check_dataset(ctx: EndpointContext) -> dict[str, object]:
    """VALIDATE /dataset: the items of a collection, by the host's own FILTER and VALIDATE, as the same caller."""
    every = {"data": f"collection:{ctx.input['dataset']}", "criteria": {"id": {"exists": True}}}
    items = (await ctx.invoke("FILTER", "/", every))["data"]
    schema = {"type": "array", "items": {"type": "object", "required": ctx.input["required"]}}
    return dict(await ctx.invoke("VALIDATE", "/", {"target": items, "schema": schema}))


def records(ctx: EndpointContext) -> dict[str, object]:
    """TRANSFORM /table: a record for each row of a table, by the names of its first row."""
    return {"records": list(csv.DictReader(ctx.input["text"].splitlines()))}


def mail(ctx: EndpointContext) -> dict[str, object]:
    """NOTIFY /email: what a mail server would be given."""
    return {"queued_for": ctx.input["recipient"]}


def book_table(ctx: EndpointContext) -> dict[str, object]:
    """BOOK /table: slow when a guest asks first; a guest that asks again has one table."""
    guest = ctx.caller.agent_id if ctx.caller is not None else ""
    if guest not in _guests:
        _guests.add(guest)
        raise EndpointError("upstream_timeout", {})
    return {"booking_id": f"table-{guest[:8]}", "guests": ctx.input["guests"]}


def sell(ctx: EndpointContext) -> dict[str, object]:
    """PURCHASE: an accessory at its price."""
    names = {str(each["name"]): each["price"] for each in ACCESSORIES}
    return {"status": "confirmed", "item": ctx.input["item"], "price": names.get(str(ctx.input["item"]))}
