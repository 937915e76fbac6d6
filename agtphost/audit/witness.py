"""
A witness that is a file: the last checkpoint, outside the database.

It notices an older copy of the database, or one that lost its end, as long as
it is not put back together with it: on another disk or machine it is worth most.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from twisted.logger import Logger
from zope.interface import implementer

from agtphost.audit import checkpoint
from agtphost.audit.checkpoint import Checkpoint, CheckpointError
from agtphost.audit.interfaces import IWitness
from agtphost.identity import files
from agtphost.identity.keys import VerifyingKey
from agtphost.stores.rows import StoreError
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.regular_files import read_octets


@implementer(IWitness)
class WitnessFile:
    """
    A witness in a local file.

    """

    def __init__(self, path: Path, keys: Iterable[VerifyingKey]) -> None:
        self.path = path
        self._keys = tuple(keys)
        self.name = str(path)
        self.always = True
        self.remedy = "run `agtp audit accept-store`, which keeps what contradicts it as evidence"

    def last(self) -> Checkpoint | None:
        try:
            note = read_octets(self.path).decode()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"the witness file {self.path} cannot be read: {explain(error)}") from error
        try:
            return checkpoint.verify(note, self._keys) if self._keys else checkpoint.read(note)
        except CheckpointError as error:
            raise StoreError(
                f"the witness file {self.path} does not verify: {error}; bring it back from a backup, "
                "or name another one in [audit] witness"
            ) from None

    def saw(self, issued: Checkpoint) -> None:
        files.replace(self.path, issued.note.encode("utf-8"), files.PUBLIC)


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
        """Return the last checkpoint that the witness saw. One that cannot say must not count as one that saw none."""
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
        """Pass an issued checkpoint to the witness."""
        try:
            self._witness.saw(issued)
        except OSError:
            raise
        except Exception as error:
            log.failure("the witness {name} failed", name=self.name)
            raise OSError(f"the witness {self.name} failed: {error!r}") from error
