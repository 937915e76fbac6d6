"""
Acts by what changes hands: money, a right or a thing.

"Takes", "gives" and "sends" say little; their objects do: who takes a fee from a card charges it, who hands out a key
grants a right, and who returns a book to the library gives it back.
"""

from __future__ import annotations

from dataclasses import replace

from agtphost.agis.acts import Lexicon
from agtphost.agis.clauses import Act

MADE = frozenset(
    {"NEW", "NEWLY", "RESULTING", "RECEIPT", "IDENTIFIER", "CONFIRMATION", "RESULT", "RESULTS", "TOKEN", "CREATED"}
) | frozenset({"FRESH"})
"""Words of an object that was just made."""

DIRECTIONS = frozenset({"TO", "OUT", "ON", "BACK", "INTO", "UP"})
"""Words after the object of GET that make it an act: "gets a letter to its reader"."""

_PREPOSITIONS = frozenset({"OF", "FOR", "FROM", "TO", "WITH", "IN", "ON", "INTO", "AT", "BY", "BETWEEN", "ABOUT"})

_RIGHT = 5
"""Words after a verb in which a right is searched that it gives or takes."""


def with_exchange(act: Act, method: str, known: Lexicon, alone: bool) -> Act:
    """
    Return an act as what it does with money, a right or a thing; other acts are returned unchanged.

    :param alone: whether the statement has no other act.
    """
    return _with_right(_with_money(act, method, known, alone), method, known)


def _with_right(act: Act, method: str, known: Lexicon) -> Act:
    """Return the act as GRANT or REVOKE if that is the method's opposite: REVOKE and "hands the employee a key"."""
    grammar = known.grammar
    gives, takes = act.verb in grammar["giving_rights"], act.verb in grammar["taking_rights"]
    if not (gives or takes) or grammar["rights"].isdisjoint(act.around[:_RIGHT]) or "BACK" in act.around:
        return act
    verb = "GRANT" if gives else "REVOKE"
    named = gives or not grammar["rights"].isdisjoint(object_words(act))
    return replace(act, verb=verb) if named and known.are_opposites(method, verb) else act


def _with_money(act: Act, method: str, known: Lexicon, alone: bool) -> Act:
    """
    Return the act as an act of paying if it moves money: "takes the customer's money", "sends the sum to a seller".

    Who "returns the amount due" or "gives the sum of two numbers" moves none.
    """
    grammar = known.grammar
    if act.verb not in grammar["hands"] or method == "SEND":
        return act
    head, after = _head(act)
    if act.verb == "GIVE-BACK":
        gives = head != "BACK" and not (grammar["money"] | grammar["fees"]).isdisjoint(act.around)
        return replace(act, verb="REFUND") if gives else act
    if act.verb in grammar["asking"]:
        return replace(act, verb="COLLECT") if head in grammar["cash"] and after[:1] == ("FROM",) else act
    takes, sure = act.verb in grammar["taking"], act.sure
    if takes:
        charged = after[:1] == ("FROM",) and not grammar["purses"].isdisjoint(after[:4])
        charged = charged and head in grammar["fees"] | grammar["money"]
        sure = sure and (alone or not charged)  # A refund takes it from the seller and gives it to the buyer.
        moves = charged or head in grammar["cash"] or (head == "PAYMENT" and after[:1] == ("FROM",))
    else:
        to = bool(after) and after[0] in DIRECTIONS and "BE" not in after[:2]
        money = grammar["money"] | (grammar["fees"] if act.verb == "TRANSFER" else frozenset())
        moves = to and head in money and grammar["callers"].isdisjoint(after[:4])
    if not moves:
        return replace(act, verb="GIVE-BACK", sure=False) if _gives_back(act, known) else act
    return replace(act, sure=sure, verb="CHARGE" if takes else "REFUND" if act.verb == "RETURN" else "PAY")


def _gives_back(act: Act, known: Lexicon) -> bool:
    """Return whether a thing is brought back to where it is from: "returns the book to the library"."""
    head, after = _head(act)
    whole = act.verb == "RETURN" and not act.passive and act.around[:1] not in (("A",), ("AN",))
    return whole and after[:1] == ("TO",) and head not in MADE and known.grammar["callers"].isdisjoint(after[:4])


def object_words(act: Act) -> frozenset[str]:
    """Return the words of the object without its attributes: "a list" of "creates a list of the files"."""
    found: list[str] = []
    for word in act.around[:6]:
        if word in _PREPOSITIONS and found:
            break
        found.append(word)
    return frozenset(found)


def _head(act: Act) -> tuple[str, tuple[str, ...]]:
    """Return the last word of the object, and the words after it: "the money" and "to the seller"."""
    for at, word in enumerate(act.around):
        if at and (word in _PREPOSITIONS or word in DIRECTIONS):
            return act.around[at - 1], act.around[at:]
    return act.around[-1] if act.around else "", ()
