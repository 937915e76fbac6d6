"""
Contradictions between a method and the acts of a statement (AGIS v01 section 6.3).

A contradiction is certain if the main act of a statement is the opposite of the method (LOCK and "unlocks the door"),
if a method that only reads has an act that changes, destroys, pays or commits, or if a method that acts only reads.
Every other anomaly is a doubt.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from agtphost.agis.acts import Lexicon
from agtphost.agis.clauses import Act, find_acts
from agtphost.agis.exchanges import DIRECTIONS, MADE, object_words, with_exchange
from agtphost.agis.families import is_strange
from agtphost.agis.second_readings import SecondReadings
from agtphost.agis.words import Effect

_FIRM = frozenset(
    {"LIST", "SHOW", "SEARCH", "QUERY", "VIEW", "DISPLAY", "DESCRIBE", "BROWSE", "ENUMERATE", "EXPLAIN"}
) | frozenset({"FETCH", "FIND", "LOCATE", "READ", "RETRIEVE", "COUNT", "LOOKUP", "LOOK-UP"})
"""Verbs that return what exists; GET and RETURN may return what was just created."""

_SHOWS = frozenset({"LIST", "SHOW", "DISPLAY", "ENUMERATE", "COUNT"})
"""Those of them that no method that acts consists of."""

_EXISTING = frozenset(
    {"LIST", "DETAILS", "POLICY", "HISTORY", "STATUS", "OVERVIEW", "INFORMATION", "TERMS", "CONTENTS", "BALANCE"}
) | frozenset({"SIZE"})
_COPIES = frozenset({"ARCHIVE", "BACKUP", "COPY", "REQUEST", "SNAPSHOT", "TOMBSTONE"})
"""Objects that are created before something is removed."""

_DUPLICATES = frozenset({"BACKUP", "COPY", "SNAPSHOT"})
"""Those of them that leave everything as it was."""

_WRITES = frozenset(
    {
        "POST",
        "PUBLISH",
        "WRITE",
        "SET",
        "ISSUE",
        "OPEN",
        "START",
        "SUBMIT",
        "FORWARD",
        "DISPATCH",
        "DRAFT",
        "COMPOSE",
        "RELEASE",
        "LAUNCH",
        "PRODUCE",
    }
)
"""Acts that create a message."""

_ARRANGED = frozenset({"ACCORDING", "ALPHABETICALLY", "BY", "FROM", "SO"})
"""Words after the object of ORDER that make it an arrangement: "orders the rows by date"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentConflict:
    """A method and an act that contradict each other."""

    act: str
    sure: bool
    reason: str
    """The statement's fault, as the end of a sentence that begins with "an intent that"."""


def find_conflict(method: str, statement: str, known: Lexicon) -> IntentConflict | None:
    """
    Return the worst conflict of a statement with its method; None if they agree.

    :param method: the method in capitals.
    """
    acts = find_acts(statement, known)
    found = _Judge(known, known.words.american(method), acts, statement).conflicts() if acts else []
    return next((each for each in found if each.sure), found[0] if found else None)


class _Judge:
    def __init__(self, known: Lexicon, method: str, acts: Sequence[Act], statement: str) -> None:
        self._known = known
        self._method = method
        self._statement = statement
        self._acts = [with_exchange(act, method, known, alone=len(acts) == 1) for act in acts]
        self._words = re.findall("[A-Z]+", statement.upper())
        self._readings = SecondReadings(known=known, method=method, acts=self._acts, words=self._words)

    def conflicts(self) -> list[IntentConflict]:
        """Return the conflicts in the order of the acts, up to the first certain one."""
        found = []
        agrees = self._agrees()
        for act in self._acts:
            conflict = None if act.elliptic else self._conflict(act, agrees)
            if conflict is not None:
                if conflict.sure and self._readings.has_another(act):
                    conflict = replace(conflict, sure=False)
                found.append(conflict)
                if conflict.sure:
                    break
        return found or self._stranger()

    def _stranger(self) -> list[IntentConflict]:
        """Return a doubt if the statement has only acts of few methods, and the method is none of those."""
        first = self._acts[0]
        plain = first.sure and not (first.vague or first.helper or first.later_sentence)
        if not plain or self._readings.names_method() or not all(map(self._is_strange, self._acts)):
            return []
        reason = f"says {_text(first)}, which is another act"
        return [IntentConflict(act=first.verb, sure=self._is_certain(first), reason=reason)]

    def _is_certain(self, act: Act) -> bool:
        """Return whether an act of few methods has no other meaning, and is not a part of the method's work."""
        known = self._known
        plain = known.is_a(act.verb, "erases", "pays") or act.verb in known.methods["binds"]
        plain = plain or (self._observes and act.verb in known.methods["hard"])
        return plain and not self._readings.has_another(act)

    def _is_strange(self, act: Act) -> bool:
        known, method = self._known, self._method
        related = known.are_allied(method, act.verb) or (
            known.is_a(method, "destroys") and known.is_a(act.verb, "destroys")
        )
        return not related and (method, act.verb) not in known.agreements and is_strange(method, act.verb)

    def _agrees(self) -> bool:
        """Return whether an act of the statement is the method's own."""
        verbs = [verb for act in self._acts for verb in (act.verb, act.helper) if verb]
        return any(verb == self._method or self._known.are_allied(self._method, verb) for verb in verbs)

    @functools.cached_property
    def _observes(self) -> bool:
        method, known = self._method, self._known
        return known.is_a(method, "reads", "analyses") and method not in known.methods["open"]

    def _conflict(self, act: Act, agrees: bool) -> IntentConflict | None:
        if (
            self._method in (act.verb, act.verb.partition("-")[0], act.helper)
            or (self._method, act.verb) in self._known.agreements
        ):
            return None
        if act.helper and self._known.are_allied(self._method, act.helper):
            return None  # ENABLE and "allows you to delete".
        if act.verb == "PUT-INTO" and not self._known.grammar["forms"].isdisjoint(act.around):
            return None
        if act.verb in self._known.grammar["delegating"] and self._is_named((*act.around, act.toward)):
            return None  # TERMINATE and "starts a job that terminates".
        if self._ends_itself(act) and not agrees:
            sure = act.sure and act.leading
            return IntentConflict(act=act.verb, sure=sure, reason=f"says {_text(act)}, and so undoes what it does")
        if self._known.are_opposites(self._method, act.verb) and not agrees and not self._marks(act):
            sure = (act.sure or (bool(act.thing) and act.around[:1] == ("OF",))) and act.leading
            sure = sure and not self._rebuilds(act)
            return IntentConflict(act=act.verb, sure=sure, reason=f"says {_text(act)}, its opposite")
        if self._ends_for_good(act) and not agrees:
            return IntentConflict(act=act.verb, sure=act.sure, reason=f"says {_text(act)} for good")
        if self._observes:
            return self._of_reader(act)
        if act.helper and self._known.are_opposites(self._method, act.helper) and not agrees and act.leading:
            reason = f"says {act.helper.lower()}, its opposite"  # BLOCK and "lets the user write again".
            sure = act.form == "gerund" or act.helper in ("BEGIN", "START", "COMMENCE")
            return IntentConflict(act=act.verb, sure=sure, reason=reason)
        if act.helper == "LET":
            return None  # INVITE and "lets a friend join the call".
        return None if agrees and not self._known.is_a(self._method, "tells") else self._of_actor(act, agrees)

    def _rebuilds(self, act: Act) -> bool:
        """Return whether a statement makes anew what it removes: "deletes the damaged index and builds it anew"."""
        known = self._known
        return known.is_a(act.verb, "destroys") and any(known.is_a(each.verb, "makes") for each in self._acts)

    def _ends_itself(self, act: Act) -> bool:
        """Return whether an act ends what the method's own act made: SUBSCRIBE and "ends the subscription"."""
        known, method = self._known, self._method
        if act.verb in known.grammar["ending"] and self._is_gerund_of_method(act.around[:1]):
            return True  # FOLLOW and "stops following the author".
        if self._observes or known.is_a(method, "destroys") or method in known.methods["edits"]:
            return False
        if method in known.methods["destructive"] or method in known.grammar["closing"]:
            return False
        if act.verb not in known.grammar["ending"] and not known.is_a(act.verb, "destroys"):
            return False
        return any(method in (known.nominal(word), word) for word in object_words(act))

    def _ends_for_good(self, act: Act) -> bool:
        """Return whether an act leaves nothing to go on with: RESTART and "shuts the server down for good"."""
        known = self._known
        if self._method not in known.methods["passing"] or known.grammar["lasting"].isdisjoint(self._words):
            return False
        return act.leading and (known.is_a(act.verb, "destroys") or known.are_opposites("START", act.verb))

    def _is_gerund_of_method(self, words: Sequence[str]) -> bool:
        """Return whether the first of these words is the method in -ING."""
        return bool(words) and words[0].endswith("ING") and self._known.words.lemma(words[0]) == self._method

    def _of_reader(self, act: Act) -> IntentConflict | None:
        """Return the conflict of a method that only reads; such a method has no other acts."""
        known, method = self._known, self._method
        sets = act.verb == "SET" and "TO" in act.around and act.leading
        if known.is_a(act.verb, "reads", "analyses", "neutral") and not sets:
            return None
        conflict = IntentConflict(
            act=act.verb, sure=act.sure, reason=f"says {_text(act)}, while {method} changes nothing"
        )
        lenient = method in known.methods["lenient"]
        if (act.vague and act.thing) or (act.verb in known.readings["finding_out"] and not act.around):
            return None
        if act.passive and act.later_sentence and act.verb in known.methods["verdicts"]:
            return None  # "Queries that delete something are refused": a notice about the input.
        if act.verb in known.methods["hard"] and self._is_hard(act):
            return conflict
        if known.is_a(act.verb, "erases", "pays"):
            conflict = replace(conflict, sure=act.sure or self._is_payment(act))
            cleans = method in known.methods["cleaning"] and not known.is_a(act.verb, "pays")
            return replace(conflict, sure=conflict.sure and not cleans)
        if method in known.methods["mild"]:
            ends = self._is_final(act)
            doubted = ends or act.verb in known.methods["binds"] or known.is_a(act.verb, "destroys")
            doubted = doubted or self._only_changes(act)
            return replace(conflict, sure=ends) if act.leading and act.sure and doubted else None
        if act.verb in known.grammar["helping"] and known.is_a(act.toward, "reads", "analyses"):
            return None
        if act.vague or (act.later_sentence and act.passive and act.verb in known.methods["ordinary"]):
            return None
        divides = act.verb in ("MERGE", "ORDER", "SPLIT") and "BY" in act.around
        if act.aside or (divides and known.is_a(method, "analyses")):
            return None  # "splits the costs by team".
        if lenient and act.verb in known.methods["ordinary"]:
            return replace(conflict, sure=False) if self._is_concrete(act) else None
        strange = act.verb == "LAUNCH" and not self._readings.asks(act)  # "launches the rocket".
        if act.verb in known.methods["preparing"] and not strange and (lenient or self._reads_then):
            return None
        if act.verb == "OPEN" and object_words(act) & known.grammar["readable"]:
            return None
        if known.is_a(act.verb, "destroys"):
            spared = frozenset(act.around) & known.grammar["sets"]
            return None if spared else replace(conflict, sure=act.sure and (self._is_final(act) or not lenient))
        arranges = act.verb in known.grammar["arranging"] and not (act.thing and known.is_a(method, "reads"))
        if arranges and object_words(act) & known.grammar["answers"]:
            renews = act.verb in known.methods["renewing"] and act.leading and act.around[:1] == ("THE",)
            return replace(conflict, sure=False) if renews and not (lenient or self._reads_then) else None
        if act.later_sentence and act.passive:
            conflict = replace(conflict, sure=False)
        if act.verb in known.methods["verdicts"] and method in known.methods["decide"]:
            return None
        if known.is_a(act.verb, "commits"):
            asks = act.verb in known.methods["preparing"] and known.is_a(method, "analyses")
            asks = asks and (act.verb != "LAUNCH" or self._readings.asks(act))
            return replace(conflict, sure=False) if asks else conflict
        if sets or known.is_a(act.verb, "makes", "changes"):
            output = known.is_a(act.verb, "makes") and (
                known.is_a(method, "analyses") or act.verb in {"GENERATE", "PRODUCE"} or self._reads_then
            )
            return replace(conflict, sure=conflict.sure and not lenient and not output)
        if known.is_a(act.verb, "tells"):
            return self._reader_tells(act, conflict)
        if "-" in act.verb and act.verb in known.contrary:
            return replace(conflict, sure=False)
        unlisted = known.words.effect(act.verb) in (Effect.ACTS, Effect.CREATES) and act.sure and act.leading
        if known.is_a(method, "reads") and not lenient:
            return replace(conflict, sure=False) if unlisted else None
        return replace(conflict, sure=False) if unlisted and self._only_changes(act) else None

    def _is_final(self, act: Act) -> bool:
        """Return whether an act ends something, and cannot just leave it out of an answer: "cancels the trip"."""
        known = self._known
        spared = act.verb in known.methods["ordinary"] | known.readings["moving"] or act.verb.startswith("TAKE-")
        return act.leading and known.is_a(act.verb, "destroys") and not spared

    def _is_hard(self, act: Act) -> bool:
        """Return whether a statement says no more than that a thing is changed: "the passport is revoked"."""
        alone = len(self._acts) == 1 and act.leading and act.sure and not act.vague
        methods = self._known.methods
        may = self._method in methods["outward"] | methods["decide"] | methods["passages"]
        return alone and not may and not self._readings.has_another(act)

    def _is_payment(self, act: Act) -> bool:
        """Return whether a noun names an act of paying and not the result of one: "payment of the toll"."""
        grammar = self._known.grammar
        plain = bool(act.thing) and not act.vague and act.leading and act.around[:1] == ("OF",)
        return plain and grammar["parties"].isdisjoint(act.around[:5])

    def _only_changes(self, act: Act) -> bool:
        """Return whether a thing in the world is changed, and the statement says nothing else: "cuts the cable"."""
        known = self._known
        if len(self._acts) > 1 or act.verb in known.methods["ordinary"] or "-" in act.verb:
            return False
        if known.is_a(act.verb, "reads", "analyses", "neutral", "tells", "makes") or act.around[:1] != ("THE",):
            return False
        listed = known.is_a(act.verb, "changes") or known.words.effect(act.verb) is Effect.ACTS
        return listed and not object_words(act) & (known.grammar["answers"] | known.grammar["sets"])

    def _is_concrete(self, act: Act) -> bool:
        """Return whether an act changes the thing and not the answer, and is the only one: "removes the candidates"."""
        known = self._known
        if act.verb not in known.methods["concrete"] or self._method in known.methods["cleaning"] or not act.sure:
            return False
        arranged = act.verb == "ORDER" and bool(_ARRANGED & {*act.around})
        spared = bool(known.grammar["sets"] & {*act.around})
        return len(self._acts) == 1 and act.around[:1] in (("THE",), ("ALL",)) and not (arranged or spared)

    @functools.cached_property
    def _reads_then(self) -> bool:
        """Return whether the statement continues with reading: "opens a file and returns its content"."""
        if any(self._known.is_a(act.verb, "reads", "analyses") for act in self._acts[1:]):
            return True
        words = self._statement.upper().rstrip(" .;!").split()
        if any(to == "FOR" and self._known.is_a(self._act_of(word), "reads") for to, word in itertools.pairwise(words)):
            return True
        return self._acts[0].passive and self._ends_reading()

    def _act_of(self, word: str) -> str:
        """Return the act that a gerund or a noun names: READ of "reading"."""
        return self._known.nominal(word) or self._known.words.lemma(word)

    def _ends_reading(self) -> bool:
        """Return whether a second passive without its own "is" reads: "the file is opened and its content returned"."""
        _, added, rest = self._statement.upper().rpartition(" AND ")
        last = rest.rstrip(" .;!").rpartition(" ")[2]
        base = self._known.words.lemma(last)
        return bool(added) and last != base and last.endswith("D") and self._known.is_a(base, "reads", "analyses")

    @functools.cached_property
    def _edits(self) -> bool:
        """Return whether the statement has an act of editing, or of making: "deletes a paragraph or adds one"."""
        known = self._known
        return any(act.verb in known.methods["edits"] or known.is_a(act.verb, "makes") for act in self._acts)

    def _reader_tells(self, act: Act, conflict: IntentConflict) -> IntentConflict | None:
        """Return a doubt if something is sent to others than the caller."""
        grammar = self._known.grammar
        if self._method in self._known.methods["outward"]:
            return None
        after = act.around[act.around.index("TO") :] if "TO" in act.around else ()
        others = after and grammar["callers"].isdisjoint(after[:4])
        if act.around[:1] in (("EVERY",), ("ALL",), ("EACH",)) and not grammar["messages"].isdisjoint(act.around[1:6]):
            others = grammar["callers"].isdisjoint(act.around)  # "sends every subscriber a letter".
        mails = bool(object_words(act) & grammar["mailings"])
        moves = self._known.is_a(self._method, "reads") and not object_words(act) & grammar["answers"]
        sure = act.sure and len(self._acts) == 1 and (mails or moves)
        return replace(conflict, sure=sure) if others and act.leading else None

    def _of_actor(self, act: Act, agrees: bool) -> IntentConflict | None:
        """Return the conflict of a method that acts: it must not only read, and not undo its own act."""
        known, method = self._known, self._method
        conflict = IntentConflict(act=act.verb, sure=act.sure, reason=f"says {_text(act)}, which {method} does not")
        tells = known.is_a(method, "tells")
        if known.is_a(act.verb, "destroys"):
            return self._actor_destroys(act, conflict)
        if known.is_a(act.verb, "pays") and tells:
            return conflict
        if act.verb in known.methods["binds"] and method in known.methods["prepares"]:
            return conflict
        if known.is_a(act.verb, "makes", "changes", "commits") and tells:
            return self._teller_acts(act, conflict, agrees)
        if not act.leading:
            return None
        writes = act.verb == "WRITE" and "NEW" in act.around
        if (writes or known.is_a(act.verb, "makes")) and known.is_a(method, "destroys"):
            if not self._marks(act):
                return conflict
            only_copies = len(self._acts) == 1 and bool(object_words(act) & _DUPLICATES)
            return replace(conflict, sure=False) if only_copies else None
        if all(known.is_a(each.verb, "reads") for each in self._acts):
            return self._only_reads(act, conflict)
        return None

    def _is_named(self, words: Iterable[str]) -> bool:
        """Return whether one of these words is a form of the method, or names its act."""
        known = self._known
        return any(self._method in (known.words.lemma(word), known.nominal(word)) for word in words)

    def _marks(self, act: Act) -> bool:
        """Return whether what is made belongs to what the method ends: "adds a deletion marker", "creates a backup"."""
        ends = self._known.is_a(self._method, "destroys") or self._method in self._known.grammar["closing"]
        if not ends or self._known.is_a(act.verb, "destroys"):
            return False
        return bool(object_words(act) & _COPIES) or any(self._names_method(word) for word in object_words(act))

    def _names_method(self, noun: str) -> bool:
        """Return whether a noun names an act of the method's kind: "creates a cancellation"."""
        act = self._known.nominal(noun)
        if noun.endswith("ING") and self._known.words.lemma(noun) == self._method:
            return True
        return act is not None and (act == self._method or self._known.is_a(act, "destroys"))

    def _actor_destroys(self, act: Act, conflict: IntentConflict) -> IntentConflict | None:
        known, method = self._known, self._method
        if known.is_a(method, "destroys") or method in known.methods["destructive"]:
            return None
        if not act.leading and act.passive and not act.sure:
            return None  # "The program is made; old output is deleted".
        if known.is_a(act.verb, "pays") and (known.is_a(method, "pays") or method == "TRANSFER"):
            return None
        if any(known.is_a(known.nominal(word) or "", "destroys") for word in object_words(act)):
            return None  # "cancels a pending deletion".
        if act.verb.startswith("TAKE-") and object_words(act) & _DUPLICATES:
            return None  # "takes out a copy".
        if method in known.methods["keeps"] and object_words(act) & known.grammar["obstacles"]:
            return None
        if known.is_a(method, "tells"):
            taken_out = frozenset(act.around) & known.grammar["sets"]
            return None if taken_out and not act.leading else conflict
        erases = known.is_a(act.verb, "erases")
        if method in known.methods["edits"] and self._edits:
            return None
        if method in known.methods["edits"]:
            sure = act.sure and erases and len(self._acts) == 1
            return replace(conflict, sure=sure) if act.leading else None
        if known.is_a(method, "makes", "pays", "commits") or method in known.methods["keeps"]:
            if act.leading:
                return replace(conflict, sure=act.sure and act.verb not in known.methods["tidying"])
            return replace(conflict, sure=False) if erases else None
        if method in known.methods["spares"] and erases:
            return replace(conflict, sure=act.sure and act.leading)
        strange = self._is_strange(act) and act.sure
        doubtful = act.leading and erases and (strange or known.words.effect(method) is not Effect.UNKNOWN)
        return replace(conflict, sure=strange) if doubtful else None

    def _teller_acts(self, act: Act, conflict: IntentConflict, agrees: bool) -> IntentConflict | None:
        """
        Return the conflict of a method that sends: it writes and posts a message, but makes or changes nothing else.
        """
        known = self._known
        if act.verb == "GENERATE" or act.verb in _WRITES or (agrees and known.is_a(act.verb, "makes")):
            return None
        if object_words(act) & (known.grammar["answers"] | known.grammar["messages"]):
            return None
        return replace(conflict, sure=act.sure and act.leading)

    def _only_reads(self, act: Act, conflict: IntentConflict) -> IntentConflict | None:
        """Return the conflict of a statement that only names what is returned."""
        known, method = self._known, self._method
        around = frozenset(act.around)
        if method in known.methods["fetches"] and act.verb in known.readings["returning"]:
            return None
        if not act.sure and (act.passive or act.form == "base"):
            return None  # "The agent may read the vault", "the disk can be read".
        if method in known.methods["outputs"] or (act.verb == "GET" and self._moves(act)):
            return None
        listed = known.is_a(method, "makes", "destroys", "changes", "pays", "commits", "tells") or method == "TRANSFER"
        if not listed and known.words.effect(method) not in (Effect.ACTS, Effect.CREATES):
            return None
        back = act.verb == "RETURN" and "TO" in around and not around & known.grammar["callers"]
        several = any(word.endswith("S") and not word.endswith("SS") for word in act.around[:2])
        several = several and known.is_a(method, "destroys", "pays", "commits")
        firm = any(each.verb in _FIRM for each in self._acts) or several or bool(around & _EXISTING)
        if back or (not firm and (around & MADE or any(known.words.lemma(word) == method for word in around))):
            return None
        if not listed and not firm:
            return None
        reason = f"says {_text(act)} and nothing else, while {method} changes something"
        effect = known.words.effects.get(method)  # None for verbs in no list.
        shows = act.verb in _SHOWS and effect in (Effect.ACTS, Effect.CREATES)
        shows = shows and not known.are_opposites(method, "REVEAL")  # MASK and "shows the last four digits".
        acts_for_others = known.is_a(method, "tells", "commits", "makes") or act.verb == "RETURN"
        shown = act.passive and (acts_for_others or not listed)  # "The driver is shown the fault", "keys are returned".
        return replace(conflict, sure=(listed or shows) and firm and act.sure and not shown, reason=reason)

    def _moves(self, act: Act) -> bool:
        """Return whether a method brings something about: "gets a parcel on its way", "gets a link working"."""
        return any(word in DIRECTIONS or self._known.form(word)[0] == "gerund" for word in act.around)


def _text(act: Act) -> str:
    return (act.thing or act.verb).replace("-", " ").lower()
