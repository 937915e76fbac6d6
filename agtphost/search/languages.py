"""The language that a query asks for: "translate to Chinese", "auf Deutsch"."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NAMES = {
    "af": "afrikaans",
    "am": "amharic",
    "ar": "arabic العربية",
    "az": "azerbaijani",
    "be": "belarusian",
    "bg": "bulgarian български",
    "bn": "bengali bangla",
    "bs": "bosnian",
    "ca": "catalan català",
    "cs": "czech čeština česky",
    "cy": "welsh",
    "da": "danish dansk",
    "de": "german deutsch deutsche deutschen",
    "el": "greek ελληνικά",
    "en": "english englisch",
    "es": "spanish español castellano spanisch",
    "et": "estonian",
    "eu": "basque euskara",
    "fa": "persian farsi فارسی",
    "fi": "finnish suomi suomeksi",
    "fr": "french français francais französisch",
    "ga": "irish gaeilge",
    "gl": "galician",
    "gu": "gujarati",
    "he": "hebrew עברית",
    "hi": "hindi हिन्दी",
    "hr": "croatian hrvatski",
    "hu": "hungarian magyar magyarul",
    "hy": "armenian",
    "id": "indonesian",
    "is": "icelandic",
    "it": "italian italiano italienisch",
    "ja": "japanese 日本語 日语 日文",
    "ka": "georgian",
    "kk": "kazakh",
    "km": "khmer",
    "kn": "kannada",
    "ko": "korean 한국어",
    "lt": "lithuanian",
    "lv": "latvian",
    "mk": "macedonian",
    "ml": "malayalam",
    "mr": "marathi",
    "ms": "malay",
    "nb": "norwegian norsk",
    "ne": "nepali",
    "nl": "dutch nederlands",
    "pa": "punjabi",
    "pl": "polish polski polnisch",
    "pt": "portuguese português portugues",
    "ro": "romanian română",
    "ru": "russian русский russisch",
    "sk": "slovak slovenčina",
    "sl": "slovenian slovene",
    "sq": "albanian",
    "sr": "serbian српски",
    "sv": "swedish svenska",
    "sw": "swahili kiswahili",
    "ta": "tamil",
    "th": "thai ภาษาไทย",
    "tr": "turkish türkçe",
    "uk": "ukrainian українська",
    "ur": "urdu",
    "vi": "vietnamese",
    "zh": "chinese mandarin 中文 汉语 汉文 chinesisch",
}
"""Language tags (BCP 47) with the names of each language, in English and in the language itself."""

_BY_NAME = {name: tag for tag, names in _NAMES.items() for name in names.split()}

_UNSURE = frozenset({"polish"})
"""Names that are also verbs: they count after a word such as "to", or if they are capitalized."""

_BEFORE = frozenset({"to", "into", "in", "from", "auf", "ins", "aus", "nach", "en", "al", "til", "på"})

_WORD = re.compile(r"[\w]+")

_UNSPACED = tuple((name, tag) for name, tag in _BY_NAME.items() if not name.isascii() and len(name) <= 3)
"""Names of languages that are written without spaces."""


def language_of(query: str) -> str:
    """
    Return the language that a query names last, as BCP 47; empty if it names none.

    "From German to French" asks for French.
    """
    found, before = "", ""
    for word in _WORD.findall(query):
        lower = word.lower()
        tag = _BY_NAME.get(lower)
        if tag is not None and (lower not in _UNSURE or before in _BEFORE or word[0].isupper()):
            found = tag
        before = lower
    if not found and not query.isascii():
        found = next((tag for name, tag in _UNSPACED if name in query), "")
    return found


def lists(languages: Iterable[str], wanted: str) -> bool:
    """Return whether one of some tags is of a language: ``zh-Hant`` is of ``zh``."""
    return any(tag.lower() == wanted or tag.lower().startswith(f"{wanted}-") for tag in languages)
