"""
Extraction of the acts that a statement ascribes to a method: the predicates of its main clauses.

A statement is cut into clauses at commas, conjunctions and words that begin a subordinate clause. Of each main clause
the predicate counts: a verb at its beginning ("Deletes the file"), a passive ("the file is deleted"), the noun of an
act ("deletion of the file", "performs the deletion"). An act in a relative clause, a condition, a purpose or a negation
is not done by the method: "finds files to delete", "without deleting", "a list of deleted files".

Every word is examined a bounded number of times, so the cost grows with the length of the statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agtphost.agis.acts import Lexicon
from agtphost.agis.clause_split import AND, ENDS, Clause, split_clauses

_WITH_GERUND = frozenset({"BEFORE", "AFTER", "WHILE", "BY", "AND"})
_NO = frozenset(
    {"NO", "NOT", "NEVER", "NOTHING", "NONE", "NEITHER", "NOBODY", "CANNOT", "DON'T", "DOESN'T", "WON'T", "ISN'T"}
    | {"AREN'T", "CAN'T", "COULDN'T", "DIDN'T", "MUSTN'T", "SHOULDN'T", "WASN'T", "WEREN'T", "WOULDN'T"}
)
_BE = frozenset({"IS", "ARE", "BE", "BEEN", "BEING", "WAS", "WERE", "GETS", "GET"})
_FINITE = frozenset({"IS", "ARE", "WAS", "WERE", "GETS"})
_GETS = frozenset({"GET", "GETS", "RECEIVE", "RECEIVES"})
_MANY = frozenset({"ARE", "WERE"})
"""Verbs whose subject is not a gerund: "matching accounts are locked"."""

_PAST = frozenset({"WAS", "WERE", "BEEN", "HAS", "HAVE", "HAD"})
_JOINTS = AND | {","}
_AFTER_NOUN = frozenset({",", "SINCE", "THAT", "WHICH", "WHO", "WHOSE"})
"""Words after a noun without an object: "changes since", "orders that"."""

_TOWARD = frozenset({"TO", "THAT", "WHICH"})
_LETTING = frozenset({"HELP", "LET"})
"""Verbs whose object acts: "lets you delete a file"."""

_PARTICLES = frozenset({"AT", "INTO", "OFF", "OUT", "THROUGH", "UP"})
_CONDITIONS = frozenset({"WHEN", "WHENEVER", "ONCE", "AFTER", "IF", "UNLESS", "UNTIL", "AS", "BEFORE"})
_MEANT = frozenset({"ABLE", "DESIGNED", "INTENDED", "MEANT", "RESPONSIBLE", "USED"})
"""Beginnings of a statement before its act: "used to delete", "responsible for deleting"."""

_WILL = frozenset({"WILL", "SHALL", "DOES", "DO"})
_MAY = frozenset({"CAN", "MAY", "COULD", "MIGHT", "MUST", "SHOULD", "WOULD", "NEEDS"})
_PREPOSITIONS = frozenset(
    {"OF", "IN", "ON", "BY", "SINCE", "FROM", "WITH", "THAT", "WHICH", "PER", "ABOUT", "BETWEEN", "WITHIN"}
)
_INTRODUCTIONS = frozenset({"FOR", "IN", "ON", "AT", "DURING", "UPON", "WITH", "WITHIN", "FROM", "PER", "ONCE"})
"""Words of a phrase before the main clause: "for each order, the payment is refunded"."""

_NOUN_ENDS = frozenset({"OF", "FOR", "FROM", "TO", "BY", "ON", "IN", "WITH", "AT"})
_DEFINITE = frozenset(
    {"THE", "IT", "THEY", "EACH", "EVERY", "ALL", "THIS", "THESE", "BOTH", "ITS", "THEIR", "EVERYTHING"}
)
_INVARIANT = frozenset(
    {"CUT", "HIT", "HURT", "LET", "OVERWRITE", "PUT", "READ", "RESET", "SET", "SHED", "SHUT", "SPLIT", "SPREAD"}
)
"""Verbs whose participle is their base form."""

_SHORT_LY = 5
"""Letters up to which a word in -LY is usually no adverb: APPLY, DAILY, REPLY; :data:`_ADVERBS` has the others."""

_ADVERBS = frozenset(
    {"AFTERWARDS", "AGAIN", "ALSO", "DULY", "ELSE", "EVEN", "FIRST", "FULLY", "JUST", "LATER", "NEWLY", "NEXT"}
    | {"NOW", "ONCE", "ONLY", "PLEASE", "STILL", "THEN", "TRULY"}
)
_OTHERS_IN_LY = frozenset({"ANOMALY", "ASSEMBLY", "BUTTERFLY", "COMPLY", "FAMILY", "MONOPOLY", "MULTIPLY", "SUPPLY"})
"""Nouns and verbs in -LY."""

_SPAN = 12
"""Words of a clause that are searched for a predicate."""


_Forms = dict[str, tuple[str | None, str]]
"""The forms of the words of one statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """An act that a statement ascribes to the method."""

    verb: str
    """The base form of the verb, such as ``DELETE`` and ``TURN-OFF``."""

    sure: bool = True
    """False if the words may mean something else."""

    leading: bool = True
    """Whether it is the statement's first act."""

    form: str = ""
    """``base``, ``third`` or ``gerund`` of an active verb."""

    vague: bool = False
    """Whether it may be a noun: "order details"."""

    passive: bool = False
    subject: bool = False
    """Whether the clause names the object of the act."""

    later_sentence: bool = False
    aside: bool = False
    """Whether it is mentioned in passing: "before deleting it"."""

    thing: str = ""
    """The noun, if a noun names the act."""

    helper: str = ""
    """The verb before it, such as ALLOW of "allows you to delete"."""

    elliptic: bool = False
    """Whether it shares the verb "is" of the clause before: "is stopped and started again"."""

    toward: str = ""
    """The verb that it leads to, such as REJECT of "allows a manager to reject"."""

    around: tuple[str, ...] = ()
    """The words of its object, or of its subject in the passive, in capitals."""


def find_acts(statement: str, known: Lexicon) -> tuple[Act, ...]:
    """
    Return the acts of a statement in their order.

    :param statement: English, in ordinary letters.
    """
    found: list[Act] = []
    seen: set[Act] = set()
    forms: _Forms = {}
    before: Clause | None = None
    ends_at = -1  # The sentence of the clause before.
    foreign = -1  # The sentence whose subject is not the method.
    for clause in split_clauses(statement.lower(), known):
        helped = clause.opener == "TO" and len(found) == 1 and _helps(found[0], known)
        meant = clause.opener == "TO" and not found and before is not None and before.tokens[0] in _MEANT
        reader = _ClauseReader(known, replace(clause, main=True) if helped or meant else clause, bool(found), forms)
        act = reader.read()
        if act is None and found and found[-1].passive and clause.opener in _JOINTS and clause.sentence == ends_at:
            act = reader.read_elliptic()
        before, ends_at = clause, clause.sentence
        if act is None and len(found) == 1 and not found[0].toward and clause.opener in _TOWARD:
            found[0] = replace(found[0], toward=known.form(reader.first_word)[1])
        if clause.main and clause.opener not in AND and act is None and reader.has_subject:
            foreign = clause.sentence
        if act is None or (not meant and foreign == clause.sentence and not (act.passive and act.subject)):
            continue
        if act in seen:
            continue  # Skip repetitions, so that they cost nothing.
        seen.add(act)
        if clause.opener in _JOINTS and act.form == "base" and found and found[-1].form == "third":
            continue  # It is an adjective or a noun: "returns merged and open requests".
        if helped:
            found[0] = replace(act, helper=found[0].verb)
        else:
            found.append(replace(act, leading=not found, later_sentence=clause.sentence > 0))
    return tuple(found)


def _helps(act: Act, known: Lexicon) -> bool:
    """Return whether an act only leads to the next one: "allows you to delete", "starts to delete"."""
    actors, helps = known.grammar["actors"], act.verb in known.grammar["helping"]
    return helps and (not act.around or act.around[0] in actors or act.verb == "USE")


class _ClauseReader:
    """Reader of the act of one clause."""

    def __init__(self, known: Lexicon, clause: Clause, later: bool, forms: _Forms) -> None:
        self._forms = forms
        self._known = known
        self._clause = clause
        self._later = later
        tokens = clause.tokens
        start = 0
        while start < len(tokens) and self._is_adverb(tokens[start]):
            start += 1
        self._tokens = tokens[start : start + 40]

    @property
    def first_word(self) -> str:
        """Return the first word after adverbs; empty if there is none."""
        return self._tokens[0] if self._tokens else ""

    @property
    def has_subject(self) -> bool:
        """Return whether the clause begins with a noun, not with a verb or a negation."""
        if not self._tokens or self._tokens[0] in _NO | _WILL | _INTRODUCTIONS:
            return False
        if self._tokens[0].endswith("S") and self._tokens[1:2] in (("THE",), ("A",), ("AN",)):
            return False  # An unknown verb: "blanks the screen".
        # "Times of inserts and deletes" has one, too.
        return self._form(self._tokens[0]) is None or (self._tokens[1:2] == ("OF",) and self._is_noun_here())

    def read(self) -> Act | None:
        """Return the act, or None if the clause has none."""
        tokens = self._tokens
        if not tokens:
            return None
        if not self._clause.main:
            return self._subordinate()
        if tokens[0] in _NO or (len(tokens) > 1 and tokens[0] in _WILL and tokens[1] in _NO):
            return None
        if tokens[0] in _MEANT or (tokens[0] in {"HAS", "HAVE"} and not self._later):
            return self._indirect()
        if self._form(tokens[0]) is not None and not self._is_noun_here():
            return self._active(0)
        return self._of_subject()

    def read_elliptic(self) -> Act | None:
        """Return the act of a participle that shares its "is": "the lift is stopped, looked at and the door closed"."""
        tokens = self._tokens
        for at in (0, len(tokens) - 1):
            if tokens and self._form(tokens[at]) == "past":
                verb, rest = self._lemma(tokens[at]), tokens[at + 1 :]
                verb = self._known.phrase(verb, rest) or verb
                return Act(verb=verb, sure=False, passive=True, elliptic=True, around=(*tokens[:at], *rest[:_SPAN]))
        return None

    def _subordinate(self) -> Act | None:
        """Return an act on the way: "before deleting it", "after which it is deleted", "and then closes it"."""
        opener, tokens = self._clause.opener, self._tokens
        if opener == "TO" and self._clause.sentence == 0 and not self._later and self._clause.first:
            return self._active(0) if self._form(tokens[0]) == "base" else None
        if opener in _WITH_GERUND and self._form(tokens[0]) == "gerund" and self._later:
            if len(tokens) == 1 and opener != "BY":
                return None  # "before booking": a time.
            act = self._active(0)
            return replace(act, sure=False, aside=True) if act else None
        if opener == "AFTER-WHICH" and self._later:
            return self._passive()
        joined = opener in AND and self._later and len(tokens) > 1
        if joined and self._form(tokens[0]) == "third" and tokens[1] in self._known.grammar["determiners"]:
            act = self._active(0)
            return replace(act, sure=False) if act else None
        return None

    def _form(self, word: str) -> str | None:
        """Return the verb form of a word: ``base``, ``third``, ``gerund`` or ``past``."""
        return self._of_word(word)[0]

    def _lemma(self, word: str) -> str:
        """Return the base form of a verb; another word is returned unchanged."""
        return self._of_word(word)[1]

    def _of_word(self, word: str) -> tuple[str | None, str]:
        found = self._forms.get(word)
        if found is None:
            found = self._forms[word] = self._known.form(word)
        return found

    @staticmethod
    def _is_adverb(word: str) -> bool:
        """Return whether a word in capitals is an adverb or filler before a verb, as most words in -LY are."""
        return word in _ADVERBS or (word.endswith("LY") and len(word) > _SHORT_LY and word not in _OTHERS_IN_LY)

    def _is_noun_here(self) -> bool:
        """Return whether the clause's first word is a noun: "charges of a customer", "order details"."""
        word, *rest = self._tokens
        form, lemma = self._form(word), self._lemma(word)
        if form == "past":
            return True
        if form == "gerund" and rest[:1] == ["OF"]:
            return self._later
        if form == "gerund":
            adjective = (
                bool(rest) and rest[0] not in self._known.grammar["determiners"] and not _MANY.isdisjoint(rest[:6])
            )
            return adjective or self._clause.opener != "" or self._clause.sentence > 0
        after = rest[0] if rest else ""
        noun = lemma in self._known.words.nouns_too or word in self._known.nominals
        if after in {"OF", "THAT"} | _BE | _MAY | _WILL or (
            noun and after in _NOUN_ENDS and not _FINITE.isdisjoint(rest)
        ):
            return True
        joined = self._clause.opener in AND or self._clause.opener == ","
        if not joined:
            return False
        if form == "base" and not noun:
            return False
        return noun and after not in self._known.grammar["determiners"] | _PARTICLES

    def _active(self, at: int) -> Act | None:
        """Return the act of a verb and its particle."""
        tokens = self._tokens
        form, verb = self._form(tokens[at]), self._lemma(tokens[at])
        rest = tokens[at + 1 :]
        verb = self._known.phrase(verb, rest) or verb
        around = tuple(rest[:_SPAN])
        if verb in _LETTING and (index := self._known.act_of_other(rest)):
            own, after = self._lemma(rest[index]), rest[index + 1 :]  # "lets you look for a flight".
            own, sure = self._known.phrase(own, after) or own, rest[0] in self._known.grammar["actors"]
            return Act(verb=own, sure=sure, helper=verb, form=form or "", around=tuple(after[:_SPAN]))
        if verb in self._known.grammar["light"]:
            act = self._light(rest)
            if act is not None:
                return replace(act, helper=verb, form=form or "")
        if verb in self._known.grammar["helping"]:
            inner = next((self._lemma(word) for word in rest[:3] if self._form(word) == "gerund"), None)
            if inner is not None:
                return Act(verb=inner, sure=False, helper=verb, form=form or "", around=around)
        if rest and rest[0] in _NO and rest[0] not in verb.split("-"):
            return None  # "Books nothing", "lets no one write"; not "says no".
        doubtful, vague = self._doubts(at, "-" in verb)
        sure = not doubtful and verb not in self._known.grammar["doubtful"]
        return Act(verb=verb, sure=sure, vague=vague, form=form or "", around=around)

    def _doubts(self, at: int, phrase: bool) -> tuple[bool, bool]:
        """
        Return whether a verb may have another meaning, and whether it may be a noun: "orders by date", "order details".
        """
        word, after = self._tokens[at], self._tokens[at + 1] if at + 1 < len(self._tokens) else ""
        form, lemma, grammar = self._form(word), self._lemma(word), self._known.grammar
        closer = self._clause.closer
        if form == "gerund":
            whole = self._clause.first and self._clause.sentence == 0 and self._of_statement(at)
            return after not in {"OF", "FROM"} and not whole, False
        if form == "base" and self._clause.sentence > 0:
            return True, False
        noun = lemma in self._known.words.nouns_too
        if phrase or form not in ("base", "third"):
            return False, False
        if self._clause.opener or not self._clause.first:
            # "orders, cancels and refunds": a list of nouns, or of verbs that share their object.
            return form == "third" and not after and closer not in ENDS, False
        if form == "base":
            vague = (noun or lemma in grammar["adjectives"]) and after not in grammar["determiners"]
            headed = bool({*self._tokens[at + 2 : at + 3]} & _PREPOSITIONS)  # "order lookup by date".
            attribute = self._known.nominal(after) is not None
            return vague and (headed or not attribute), vague and not attribute
        has = next((at for at, each in enumerate(self._tokens[:_SPAN]) if each in {"HAS", "HAVE"}), None)
        disputed = has is not None and self._form(self._tokens[min(has + 1, len(self._tokens) - 1)]) == "past"
        if noun and (self._form(after) == "past" or disputed):
            return True, True  # "orders placed by", "charges the customer has disputed".
        ends = not after and closer in ENDS | _AFTER_NOUN
        noun = noun and word != "PAYS"  # "pays for the wedding".
        placed = noun and after in _PREPOSITIONS  # "orders in a region".
        return noun and (ends or placed or after == "FOR"), placed

    def _of_statement(self, at: int) -> bool:
        """Return whether a gerund with its object is the whole statement: "cancelling the order"."""
        rest = self._tokens[at + 1 :]
        ends = self._clause.closer in ENDS and not self._clause.opener
        return ends and rest[:1] != () and rest[0] in self._known.grammar["determiners"] and _FINITE.isdisjoint(rest)

    def _indirect(self) -> Act | None:
        """Return the act of "responsible for deleting the file" and of "has the file deleted"."""
        tokens = self._tokens
        wanted = "past" if tokens[0] in {"HAS", "HAVE"} else "gerund"
        at = next((at for at, word in enumerate(tokens[1:_SPAN], 1) if self._form(word) == wanted), None)
        if at is None or (wanted == "past" and at + 1 < len(tokens)):
            return None
        verb, rest = self._lemma(tokens[at]), tokens[at + 1 :]
        around = tuple(rest[:_SPAN]) if wanted == "gerund" else tuple(tokens[1:at])
        return Act(verb=self._known.phrase(verb, rest) or verb, around=around)

    def _light(self, rest: Sequence[str]) -> Act | None:
        """Return the act of a noun after a light verb: "performs the removal of"."""
        for at, word in enumerate(rest[:5]):
            act = None if "FOR" in rest[:at] else self._known.nominal(word)  # "a demand for payment".
            if act is None or (at + 1 < len(rest) and rest[at + 1] not in _NOUN_ENDS):
                continue
            return Act(verb=act, around=tuple(rest[at + 1 : at + 1 + _SPAN]))
        return None

    def _of_subject(self) -> Act | None:
        """Return the act of a clause that begins with a noun: a passive, "this endpoint deletes", or "deletion of"."""
        act = self._passive() or self._of_self()
        if act is not None:
            return act
        if self._later or not self._clause.first:
            return None
        introduces = self._tokens[0] in _INTRODUCTIONS and self._clause.closer == ","
        return None if introduces else self._noun() or self._of_thing()

    def _of_thing(self) -> Act | None:
        """Return the act of a thing or a person as one that may be the method's: "the guest gets the money back"."""
        tokens, grammar = self._tokens, self._known.grammar
        if not tokens or not _NO.isdisjoint(tokens):
            return None
        if tokens[0] not in grammar["determiners"] and self._form(tokens[0]) is not None:
            return None
        for at, word in enumerate(tokens[1:5], 1):
            if word not in _GETS and self._form(word) != "third":
                continue
            rest = tokens[at + 1 :]
            around = (*tokens[:at], *rest[:_SPAN])
            given = word in _GETS and "BACK" in rest and grammar["callers"].isdisjoint(tokens[:at])
            if given and not (grammar["money"] | grammar["fees"]).isdisjoint(rest):
                return Act(verb="REFUND", sure=False, passive=True, subject=True, around=around)
            verb = self._lemma(word)
            verb = self._known.phrase(verb, rest) or verb
            if verb in grammar["ergative"]:
                return Act(verb=verb, sure=False, passive=True, subject=True, around=around)
        return None

    def _passive(self) -> Act | None:
        tokens = self._tokens[: _SPAN + 4]
        at = next((at for at, word in enumerate(tokens) if word in _BE | _WILL | _MAY | _PAST), None)
        if at is None or any(word in _NO for word in tokens):
            return None
        subject = tokens[:at]
        rest = [word for word in tokens[at:] if not self._is_adverb(word)]
        if rest[0] in _PAST or len(rest) < 2:
            return None
        may = rest[0] in _MAY
        while rest and rest[0] in _BE | _WILL | _MAY:
            rest = rest[1:]
        if not rest:
            return None
        form = self._form(rest[0])
        after = tuple(rest[1:])
        if tokens[at] in _BE or "BE" in tokens[at : at + 4] or "GET" in tokens[at : at + 4]:
            return self._participle(rest[0], form, subject, after, may)
        own = self._is_self(subject)
        if form == "base" and not (may and self._later) and (may or own):
            verb = self._lemma(rest[0])
            sure = not self._later and (own or not subject)  # "members can post".
            helper = "ALLOW" if may and "AGAIN" in tokens else ""  # "members may post again".
            verb = self._known.phrase(verb, after) or verb
            return Act(verb=verb, sure=sure, helper=helper, form="base", around=after[:_SPAN])
        return None

    def _participle(
        self, word: str, form: str | None, subject: Sequence[str], after: tuple[str, ...], may: bool
    ) -> Act | None:
        if (form != "past" and word not in _INVARIANT) or (may and self._later):
            return None
        if any(each in self._known.grammar["interfaces"] for each in subject):
            return None  # It is a notice: "this endpoint will be removed".
        verb = self._lemma(word)
        verb = self._known.phrase(verb, after) or verb
        head = next((at for at, each in enumerate(subject) if each in _NOUN_ENDS), len(subject))
        nominal = next((found for each in subject[:head] if (found := self._known.nominal(each))), None)
        if verb in self._known.grammar["light"] and nominal is not None:
            verb = nominal
        definite = not self._later or (bool(subject) and subject[0] in _DEFINITE)
        in_time = self._later and self._clause.closer in _CONDITIONS
        if in_time and not definite:
            return None  # "tokens are deleted when they expire".
        helped = in_time or (self._later and bool({"BY", "WITH", "VIA"} & {*after[:3]}))
        sure = definite and not may and not helped
        return Act(verb=verb, sure=sure, passive=True, subject=bool(subject), around=(*subject, *after[:_SPAN]))

    def _is_self(self, subject: Sequence[str]) -> bool:
        return any(word in self._known.grammar["selves"] for word in subject[:4])

    def _of_self(self) -> Act | None:
        """Return the act of "this endpoint deletes"."""
        tokens = self._tokens
        if any(word in _NO for word in tokens[:8]):
            return None
        for at, word in enumerate(tokens[:6]):
            if (
                at
                and self._form(word) == "third"
                and self._is_self(tokens[:at])
                and not (at + 1 < len(tokens) and tokens[at + 1] in _BE)
            ):
                act = self._active(at)
                return replace(act, sure=act.sure and not self._later) if act else None
        return None

    def _noun(self) -> Act | None:
        """Return the act that the head of a noun phrase names: "permanent deletion of the file"."""
        tokens = self._tokens
        for at, word in enumerate(tokens[:5]):
            after = tokens[at + 1] if at + 1 < len(tokens) else ""
            act = self._known.nominal(word)
            if act is None and at and after == "OF" and self._form(word) == "gerund":
                act = self._lemma(word)  # "remote wiping of".
                act = act if self._known.is_a(act, "erases") else None
            if act is None or (after and after not in _NOUN_ENDS):
                if after == "OF":
                    return None
                continue
            around = tuple(tokens[at + 1 : at + 1 + _SPAN])
            inner = next((found for each in around[:3] if (found := self._known.nominal(each))), None)
            if act == "EXECUTE" and inner is not None:
                act = inner
            is_thing = word in self._known.things
            sure = after in {"OF", "FROM"} and not is_thing
            vague = is_thing and at > 0 and tokens[0] in self._known.grammar["determiners"]  # "one charge".
            return Act(verb=act, sure=sure, vague=vague, thing=word, around=around)
        return None
