"""
Readings of an act under which its conflict with a method is only a doubt.

A right statement that is refused costs an author more than a wrong one that gets a warning. So a conflict is certain
only if none of these readings is possible: "drops a file into a folder" deletes nothing, and "ends a pause" resumes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agtphost.agis.acts import Lexicon
from agtphost.agis.clauses import Act

_OBJECT = 6
"""Words after a verb in which its object is searched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondReadings:
    """The other readings of the acts of one statement."""

    known: Lexicon
    method: str
    acts: Sequence[Act]
    words: Sequence[str]
    """The words of the statement in capitals."""

    def has_another(self, act: Act) -> bool:
        """Return whether an act can be read so that it agrees with the method."""
        return (
            act.later_sentence
            or act.aside
            or self._says_method()
            or self._is_of_caller(act)
            or self._is_figurative(act)
            or self._names_what_it_does(act)
            or self._ends_an_opposite(act)
            or self._is_of_sender(act)
            or self._is_of_payer(act)
            or self._is_of_reader(act)
            or (self._is_listed(act.verb, "collecting") and len(self.acts) > 1)
            or self._only_names_the_result(act)
            or self._is_one_of_several_steps(act)
            or self._is_what_is_asked_for(act)
        )

    def names_method(self) -> bool:
        """Return whether the statement has a form of the method, or a noun of its act."""
        return self._names_method(self.words)

    def _is_listed(self, verb: str, name: str) -> bool:
        return verb in self.known.readings[name]

    def _names_method(self, words: Iterable[str]) -> bool:
        """Return whether one of these words is a form of the method, or a noun of its act."""
        known = self.known
        return any(self.method in (known.words.lemma(word), known.nominal(word)) for word in words)

    def _says_method(self) -> bool:
        """Return whether a method that acts is the predicate of a clause: "the service cancels the creation of"."""
        words, method = self.known.words, self.method
        if self.known.is_a(method, "reads", "analyses", "tells") or method in words.nouns_too:
            return False
        return any(word.endswith("S") and word != method and words.lemma(word) == method for word in self.words)

    def _is_of_caller(self, act: Act) -> bool:
        """Return whether an act is what the caller does before: "upload your log, and get to know what is wrong"."""
        hands_in = act.around[:1] == ("YOUR",) or self._is_listed(act.verb, "handing_in")
        return act.form == "base" and hands_in and len(self.acts) > 1

    def _is_figurative(self, act: Act) -> bool:
        """Return whether a verb of removal moves something: "drops a parcel at the door", "burns files to a disc"."""
        if self._is_listed(self.method, "out_of_sight") and act.verb in ("DELETE", "REMOVE"):
            return True  # "Deletes a project logically".
        if act.passive or not self._is_listed(act.verb, "moving"):
            return False
        return not self.known.readings["destinations"].isdisjoint(act.around) or self._gives(act)

    def _is_one_of_several_steps(self, act: Act) -> bool:
        """Return whether another step is the method's: "is uninstalled first", "is stopped, looked at and started"."""
        known = self.known
        if act.passive and "FIRST" in self.words:
            return True
        lasting = known.is_a(act.verb, "destroys", "pays") or not known.is_a(self.method, "reads", "analyses")
        return not lasting and act.leading and any(known.is_a(each.verb, "reads", "analyses") for each in self.acts)

    def _is_what_is_asked_for(self, act: Act) -> bool:
        """Return whether a noun names what the method has done by others or later: SCHEDULE and "deletion of"."""
        asks = self._is_listed(self.method, "asking_for")
        return bool(act.thing) and asks and not self.known.are_opposites(self.method, act.verb)

    def asks(self, act: Act) -> bool:
        """Return whether the object is a question or a study: "fires a query", "launches an investigation"."""
        known = self.known
        return any(
            word in ("QUESTION", "REQUEST")
            or known.is_a(known.nominal(word) or known.words.lemma(word), "analyses")
            or word in ("QUERY", "SEARCH", "SCAN", "INVESTIGATION", "STUDY", "LOOKUP")
            for word in act.around[:_OBJECT]
        )

    @staticmethod
    def _gives(act: Act) -> bool:
        """Return whether an act has two objects: "drops the owner a line"."""
        return any(word in ("A", "AN") for word in act.around[1:4])

    def _names_what_it_does(self, act: Act) -> bool:
        """
        Return whether the method's own act is the object: "executes a full scan", "opens a case for the cancellation".

        Who cancels a booking does not book, so acts that destroy have no such reading.
        """
        known = self.known
        if known.is_a(act.verb, "destroys") or act.verb in known.grammar["ending"] or known.is_a(act.verb, "reads"):
            return False
        if act.helper or "-" in act.verb:
            return False
        to = next((at for at, word in enumerate(act.around) if word in ("TO", "INTO", "FROM")), None)
        named = act.around[: to if act.verb == "ADD" else None]  # Not "adds a guest to the list".
        words = (*named, act.toward) if not act.passive else (act.toward,)
        return self._names_method(word for word in words if word and known.form(word)[0] != "past")

    def _ends_an_opposite(self, act: Act) -> bool:
        """Return whether an act undoes what is the method's opposite: RESUME and "ends a pause"."""
        known = self.known
        ends = known.is_a(act.verb, "destroys") or act.verb in known.grammar["ending"]
        words = act.around[:_OBJECT]
        if not ends:
            return not self.known.readings["exclusions"].isdisjoint(words) and known.is_a(self.method, "destroys")
        if not known.readings["marks"].isdisjoint(words):
            return True
        acts = {known.nominal(word) or known.words.lemma(word) for word in words} - {act.verb}
        return any(known.are_opposites(self.method, each) for each in acts)

    def _is_of_sender(self, act: Act) -> bool:
        """Return whether an act prepares what is sent: "creates a campaign and sends it"."""
        known = self.known
        if not known.is_a(self.method, "tells"):
            return False
        own = any(self._names_method((each.verb, each.toward)) for each in self.acts)
        if known.is_a(act.verb, "destroys"):
            return own and not known.is_a(act.verb, "erases")
        if known.is_a(act.verb, "pays"):
            return self.method == "SEND" and self._is_listed(act.verb, "remitting")
        return own or known.is_a(act.verb, "makes") or self._is_listed(self.method, "acting_tellers")

    def _is_of_payer(self, act: Act) -> bool:
        """Return whether an act ends a debt or a holding: "retires a loan", "liquidates a position"."""
        known = self.known
        if not known.is_a(self.method, "pays") or not known.is_a(act.verb, "destroys"):
            return False
        if known.are_opposites(self.method, act.verb) or self._names_method(act.around[:_OBJECT]):
            return False  # PAY and "the payment is cancelled".
        return not known.is_a(act.verb, "erases") or self._is_listed(act.verb, "of_debts")

    def _is_of_reader(self, act: Act) -> bool:
        """Return whether an act leads to reading: "raises a question", "opens the settings", "are ordered by date"."""
        known, method = self.known, self.method
        if not known.is_a(method, "reads", "analyses"):
            return False
        if act.verb == "CLEAR" and act.around[:1] in (("UP",), ("AWAY",)):
            return True
        if act.passive and known.is_a(act.verb, "makes"):
            binds = known.is_a(act.verb, "commits") and act.verb != "ORDER"
            return not binds and act.around[1:2] != ("NEW",)  # "Rows are ordered by date", "events are added".
        if self._is_listed(act.verb, "approaching") and (not act.passive or act.verb == "OPEN"):
            if act.verb in ("FIRE", "LAUNCH"):
                return self.asks(act)
            return act.verb != "OPEN" or act.passive or act.around[:1] in (("THE",), ("UP",))  # Not "opens an account".
        return self._is_listed(act.verb, "deciding") and known.is_a(method, "analyses")

    def _only_names_the_result(self, act: Act) -> bool:
        """Return whether an act that reads may be about a method's result: "retrieves a URL with a token"."""
        if not self.known.is_a(act.verb, "reads"):
            return False
        forms = {None, "base", "third"} if self.method in self.known.words.nouns_too else {None}  # Not "the orders".
        named = any(
            self.known.form(word)[1] == self.method and self.known.form(word)[0] not in forms for word in self.words
        )
        return named or (self._is_listed(self.method, "with_result") and self._is_listed(act.verb, "returning"))
