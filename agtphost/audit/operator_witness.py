"""Witnesses of the operator's own: whatever one raises is a witness that failed, and nothing worse."""

from __future__ import annotations

from twisted.logger import Logger
from zope.interface import implementer

from agtphost.audit.checkpoint import Checkpoint
from agtphost.iagtp import IWitness
from agtphost.stores.rows import StoreError

log = Logger()


@implementer(IWitness)
class OperatorWitness:
    """
    Asks a plugin, in the ledger's own thread: it may block, and records wait for it.

    :param witness: provides :class:`agtphost.iagtp.IWitness`.
    """

    def __init__(self, witness: IWitness) -> None:
        self.name, self.always, self.remedy = str(witness.name), bool(witness.always), str(witness.remedy)
        self._witness = witness

    def last(self) -> Checkpoint | None:
        """The last checkpoint it saw. One that cannot tell is no witness that saw none."""
        try:
            seen = self._witness.last()
        except StoreError:
            raise
        except Exception as error:
            raise StoreError(f"the witness {self.name} failed: {error!r}") from error
        if seen is not None and not isinstance(seen, Checkpoint):
            raise StoreError(f"the witness {self.name} remembers a {type(seen).__name__}, and no Checkpoint")
        return seen

    def saw(self, issued: Checkpoint) -> None:
        """Tell it."""
        try:
            self._witness.saw(issued)
        except OSError:
            raise
        except Exception as error:
            log.failure("the witness {name} failed", name=self.name)
            raise OSError(f"the witness {self.name} failed: {error!r}") from error
