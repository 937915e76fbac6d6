"""
NORMALIZE: dates, telephone numbers, amounts of money and quantities in one form each (methods v01 section 4.6).

Dates are the host's own; the others come with ``agtphost[methods]``. What may mean two things is not guessed at: the
answer says which parameter would settle it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from agtphost import extras
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.methods.standard.pure import currencies, dates, languages, material
from agtphost.vocabulary.reasons import Reason

TYPES = ("date", "phone", "address", "currency", "unit")
PACKAGES = {"phone": "phonenumbers", "currency": "babel", "unit": "pint"}
MAX_VALUE = 128
"""Characters of one value."""

_QUANTITY = re.compile(r"([-+]?[0-9][0-9,]{0,20}(?:\.[0-9]{1,15})?(?:[eE][-+]?[0-9]{1,2})?) ?(\S.{0,40})", re.ASCII)
_UNIT = re.compile(r"[A-Za-zµμ°Ω%]{1,24}[23]?(?: ?[*/·] ?[A-Za-zµμ°Ω]{1,24}(?:\^?-?[1-4])?|\^-?[1-4]){0,3}")
_SIGN = re.compile(r"[A-Z]{3}\b|[A-Z]{0,2}[$€£¥₹₩₺₽₫฿₴₦zł]{1,2}|Fr\.|kr")
_SIGNS = {"€": "EUR", "£": "GBP", "₹": "INR", "₩": "KRW", "₺": "TRY", "₽": "RUB", "₫": "VND", "฿": "THB", "₴": "UAH"}
_DOLLARS = {"US$": "USD", "CA$": "CAD", "C$": "CAD", "A$": "AUD", "NZ$": "NZD", "HK$": "HKD", "R$": "BRL", "S$": "SGD"}
_SHARED = {
    "$": {"US": "USD", "CA": "CAD", "AU": "AUD", "NZ": "NZD", "MX": "MXN", "SG": "SGD", "HK": "HKD", "AR": "ARS"},
    "¥": {"JP": "JPY", "CN": "CNY"},
    "kr": {"SE": "SEK", "NO": "NOK", "DK": "DKK", "IS": "ISK"},
    "Fr.": {"CH": "CHF", "LI": "CHF"},
}
"""Signs of several currencies, by region."""


class ValueFault(ValueError):
    """A value that has no canonical form; the message says why."""


def normalize(call: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the result of NORMALIZE, except for addresses.

    :param call: ``data``, a text or a list of them; ``type``; ``locale``, a BCP 47 tag.
    :raises Refusal: 422 for anything else, and for a single value that has no canonical form; in a list such a value
        has a ``fault``. 503 where a package is missing.
    """
    kind = parameters.choice(call, "type", TYPES)
    locale = locale_of(call)
    work = _work(kind, locale)
    data = material.require(call, "data")
    if isinstance(data, list):
        values = [_one(each, work) for each in material.rows(call, "data")]
    else:
        values = [_one(data, work)]
        if "fault" in values[0]:
            raise parameters.invalid("data", f"data has no canonical form: {values[0]['fault']}.", "Correct it.")
    faults = sum("fault" in each for each in values)
    return {"type": kind, "values": values, "faults": faults, **({"locale": locale} if locale else {})}


def locale_of(call: Mapping[str, Any]) -> str:
    """
    Return the locale; empty where there is none.

    :raises Refusal: 422 for a value that is not a language tag.
    """
    locale = call.get("locale")
    if locale is None:
        return ""
    tag = locale.replace("_", "-") if isinstance(locale, str) else locale
    if not languages.is_tag(tag):
        raise parameters.invalid("locale", "locale is not a BCP 47 tag.", "Send one such as en-US or de-AT.")
    return str(tag)


def _one(value: Any, work: Callable[[str], Any]) -> dict[str, Any]:
    text = str(value) if material.number(value) is not None else value
    if not isinstance(text, str) or not 0 < len(text.strip()) <= MAX_VALUE:
        return {"original": value, "canonical": None, "fault": f"it is not text of 1 to {MAX_VALUE} characters"}
    try:
        return {"original": value, "canonical": work(text.strip())}
    except ValueFault as error:
        return {"original": value, "canonical": None, "fault": str(error)}


def _work(kind: str, locale: str) -> Callable[[str], Any]:
    package = PACKAGES.get(kind, "")
    if package and not extras.is_installed(package):
        raise Refusal(
            Reason.PROVIDER_MISSING,
            f"Values of the type {kind} need a package that this host does not have.",
            remedy=f"The operator has to install it: {extras.remedy(package)}",
            details={"parameter": "type", "package": package},
        )
    match kind:
        case "date":
            return lambda text: _date(text, locale)
        case "phone":
            return lambda text: _phone(text, locale)
        case "currency":
            return lambda text: _currency(text, locale)
        case "unit":
            return _quantity
    raise Refusal(
        Reason.PROVIDER_MISSING,
        "Normalizing addresses needs a provider, and none is bound.",
        remedy="The operator has to bind an endpoint of [endpoints] directory to NORMALIZE /address.",
        details={"parameter": "type"},
    )


def _date(text: str, locale: str) -> str:
    try:
        return dates.canonical(text, locale)
    except dates.DateError as error:
        raise ValueFault(str(error)) from None


def _phone(text: str, locale: str) -> str:
    """Return a telephone number in E.164 form."""
    import phonenumbers

    region = languages.region_of(locale) or None
    if region is None and not text.startswith(("+", "00")):
        raise ValueFault("it has no country code: send locale to say which country")
    if text.startswith("00") and region is None:
        text = f"+{text[2:]}"
    try:
        number = phonenumbers.parse(text, region)
    except phonenumbers.NumberParseException:
        raise ValueFault("it is not a telephone number") from None
    if not phonenumbers.is_valid_number(number):
        raise ValueFault("the telephone number does not exist")
    return str(phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164))


def _currency(text: str, locale: str) -> str:
    """``1234.50 EUR``, as the host's own amounts are written."""
    from babel import Locale, UnknownLocaleError
    from babel.numbers import NumberFormatError, parse_decimal

    match = _SIGN.search(text)
    if match is None:
        raise ValueFault("it names no currency")
    code = _code(match[0], languages.region_of(locale))
    figures = (text[: match.start()] + text[match.end() :]).strip()
    try:
        known = Locale.parse((locale or "en").replace("-", "_"))
        amount = parse_decimal(figures.replace(" ", "\u00a0") if " " in figures else figures, locale=known, strict=True)
    except (UnknownLocaleError, ValueError) as error:
        said = (
            "its locale is not known" if isinstance(error, UnknownLocaleError) else "it is not an amount of that locale"
        )
        if not isinstance(error, NumberFormatError) and said.endswith("locale") and not locale:
            said = "it is not an amount"
        raise ValueFault(said) from None
    places = currencies.PLACES[code]
    if amount != round(amount, places):
        raise ValueFault(f"{code} has {places} decimal places")
    return f"{amount:.{places}f} {code}"


def _code(sign: str, region: str) -> str:
    known = _SIGNS.get(sign) or _DOLLARS.get(sign) or (sign if sign in currencies.PLACES else None)
    if known is not None:
        return known
    if sign == "zł":
        return "PLN"
    if sign in _SHARED:
        code = _SHARED[sign].get(region)
        if code is None:
            raise ValueFault(f"{sign} is the sign of several currencies: send locale to say which country")
        return code
    raise ValueFault(f"{sign} is not a currency")


@cache
def _registry() -> Any:
    import pint

    return pint.UnitRegistry(cache_folder=None)


def _quantity(text: str) -> dict[str, Any]:
    """Convert a number with a unit to base units of the SI."""
    import pint

    match = _QUANTITY.fullmatch(text)
    if match is None or _UNIT.fullmatch(match[2].strip()) is None:
        raise ValueFault("it is not a number with a unit")
    registry = _registry()
    try:
        # The unit alone is read, and never an expression: those can be made to cost anything.
        unit = registry.parse_units(match[2].strip().replace("·", "*"))
        base = registry.Quantity(float(match[1].replace(",", "")), unit).to_base_units()
    except (pint.PintError, ArithmeticError, ValueError, AttributeError, TypeError):
        raise ValueFault(f"{match[2].strip()[:32]} is not a unit") from None
    if material.number(float(base.magnitude)) is None:
        raise ValueFault("it is too large")
    return {"value": float(f"{base.magnitude:.12g}"), "unit": str(base.units) or "1"}


def prepare_phone() -> None:
    """Read the tables of telephone numbers, where they are installed."""
    if extras.is_installed(PACKAGES["phone"]):
        normalize({"type": "phone", "data": ["+49 30 123456"]})


def prepare_currency() -> None:
    """Read the tables of locales, where they are installed."""
    if extras.is_installed(PACKAGES["currency"]):
        normalize({"type": "currency", "data": ["1 EUR"]})


def prepare_unit() -> None:
    """Read the tables of units, where they are installed."""
    if extras.is_installed(PACKAGES["unit"]):
        normalize({"type": "unit", "data": ["1 m"]})
