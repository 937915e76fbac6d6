"""
Reload the configuration without a restart: a candidate comes into force as a whole, or is refused with its problems.

The requester, a signal or an operator over AGTP, waits for its turn. The outcome says what was applied, what needs a
restart, and why nothing changed if nothing did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from twisted.internet.defer import DeferredLock
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from agtphost.audit.configurations import ADOPTED, REFUSED
from agtphost.audit.drafts import HOST_CHAIN, Draft, LedgerUnavailable, StreamEvent
from agtphost.contract.endpoint_table import AmbiguousEndpoints
from agtphost.dispatch.encoding import in_turns
from agtphost.errors import ConfigurationError, Problem
from agtphost.handlers.modules import NewImports
from agtphost.host.agent_admission import AgentAdmission
from agtphost.host.called_endpoints import find_unanswered
from agtphost.host.core import Core
from agtphost.host.generations import Generations
from agtphost.host.grant_bindings import unmatched_grants
from agtphost.host.host_loader import LoadedHost
from agtphost.host.reload_candidate import Candidate, RunningConfiguration, read_candidate, withdraw_issued
from agtphost.host.reload_plan import ReloadOutcome, inventory
from agtphost.host.unmatched import RemarkLog, find_unmatched
from agtphost.iagtp import ILedger
from agtphost.vocabulary.quantities import plural

MOST_PROBLEMS = 20
"""Problems of a refused configuration that its record lists."""

LONGEST_PROBLEM = 300
"""Characters of each listed problem."""

Renew = Callable[[Candidate], None]
"""Applies what belongs to no generation: certificates of listeners."""

log = Logger()


@dataclass(frozen=True, kw_only=True)
class Requester:
    """The requester of a reload."""

    by: str
    """``signal`` or ``operator``."""

    key: str = ""
    """SHA-256 of the operator's public key."""

    agent_id: str = ""
    """Agent-ID of an operator that is an agent."""

    operator: Mapping[str, str] | None = None
    """The operator, as records name one; None for a signal, and for a registrar without a role."""

    def fields(self) -> dict[str, Any]:
        """Return the requester as members of a record."""
        operator = {} if self.operator is None else {"operator": dict(self.operator)}
        return {
            "asked_by": self.by,
            **({"key": self.key} if self.key else {}),
            "caller_id": self.agent_id,
            **operator,
        }


class Reloader:
    """
    A queue of reloads, applied one at a time.

    :param remarks: the warnings about the configuration that were logged before.
    :param renew: see :data:`Renew`.
    """

    def __init__(
        self,
        loaded: LoadedHost,
        reactor: Any,
        environ: Mapping[str, str],
        generations: Generations,
        agents: AgentAdmission,
        remarks: RemarkLog,
        renew: Renew,
    ) -> None:
        # Files may have changed since they were read, which is long ago where this host stood by.
        self._running = RunningConfiguration(loaded=loaded, files=loaded.files or inventory(loaded.config, loaded.tls))
        self._reactor = reactor
        self._environ = environ
        self._generations = generations
        self._agents = agents
        self._remarks = remarks
        self._ledger: ILedger = generations.core.services.evidence.ledger
        self._renew = renew
        self._turns = DeferredLock()
        self._number = 1

    async def reload(self, requester: Requester, *, check: bool = False) -> ReloadOutcome:
        """
        Apply what was changed. A faulty configuration changes nothing, and raises nothing.

        :param check: read and build the candidate, and drop it.
        """
        await self._turns.acquire()
        try:
            outcome = await self._reload(requester, check)
        finally:
            self._turns.release()
        self._log(outcome, requester, check)
        return outcome

    async def _reload(self, requester: Requester, check: bool) -> ReloadOutcome:
        imported = NewImports(self._config.endpoints.python_path)
        outcome = await self._read_and_apply(requester, check)
        if check or outcome.is_refused:
            # Otherwise Python would keep the refused code of a module, even after its correction.
            imported.forget()
        return outcome

    async def _read_and_apply(self, requester: Requester, check: bool) -> ReloadOutcome:
        """
        Read the changed configuration, build what answers requests under it, and put that in force.

        A faulty one is dropped, and its refusal is returned, and recorded unless ``check``.

        :param check: build it, and drop it.
        """
        candidate, core = None, None
        try:
            candidate = await self._read()
            if not candidate.outcome.applied:
                return replace(candidate.outcome, digest=candidate.digest, generation=self._number)
            core = await self._compose(candidate)
            if check:
                warnings = self._remarks.find_new(_find_remarks(core))
                self._generations.discard(core)
                withdraw_issued(candidate.issued)
                return replace(candidate.outcome, digest=candidate.digest, generation=self._number, warnings=warnings)
            await self._start(core)
            return await self._put_in_force(candidate, core, requester)
        except ConfigurationError as error:
            if core is not None:
                self._generations.discard(core)
            withdraw_issued(() if candidate is None else candidate.issued)
            return await self._record_refusal(error.problems, candidate, requester, check)

    async def _read(self) -> Candidate:
        read = partial(read_candidate, self._running, self._environ)
        try:
            found: Candidate = await deferToThreadPool(self._reactor, self._reactor.getThreadPool(), read)
        except ConfigurationError:
            raise
        except Exception as error:
            raise self._to_refusal(error) from None
        return found

    def _to_refusal(self, error: Exception) -> ConfigurationError:
        """Return the refusal for an unexpected error: a candidate must never do more harm than be refused."""
        if not isinstance(error, (AmbiguousEndpoints, OSError, ValueError)):
            log.failure("a configuration could not be made")
        return ConfigurationError([Problem(message=str(error) or repr(error), file=str(self._config.file))])

    @property
    def _config(self) -> Any:
        return self._running.loaded.config

    async def _compose(self, candidate: Candidate) -> Core:
        """
        Build what answers requests under the candidate.

        :raises ConfigurationError: it cannot be built.
        """
        problems = self._agents.objections(candidate.loaded.directory)
        if problems:
            raise ConfigurationError(problems)
        try:
            core = await in_turns(self._generations.compose(candidate.loaded), self._reactor)
        except ConfigurationError:
            raise
        except Exception as error:
            raise self._to_refusal(error) from None
        return core

    async def _start(self, core: Core) -> None:
        """
        Start the new services of the candidate.

        :raises ConfigurationError: they cannot be started.
        """
        try:
            await self._generations.begin(core)
        except Exception as error:
            raise self._to_refusal(error) from None

    async def _put_in_force(self, candidate: Candidate, core: Core, requester: Requester) -> ReloadOutcome:
        """
        Record the candidate, and put it in force in the same turn of the reactor.

        :raises ConfigurationError: it cannot be recorded.
        """
        directory = candidate.loaded.directory
        newcomers = self._agents.find_newcomers(directory)
        if not await self._agents.record(directory):
            problem = Problem(message="the issue of an agent cannot be recorded", hint=RETRY_HINT)
            raise ConfigurationError([problem, *self._agents.explain_recorded(directory)])
        outcome = replace(candidate.outcome, digest=candidate.digest, generation=self._number + 1)
        fields = {
            **requester.fields(),
            "explanation": f"The configuration was changed: {', '.join(outcome.applied)}.",
            "digest": outcome.digest,
            "generation": outcome.generation,
            "taken": list(outcome.applied),
            "waiting": list(outcome.waiting),
        }
        try:
            audit_id = await self._record(ADOPTED, fields)
        except ConfigurationError as error:
            raise ConfigurationError([*error.problems, *self._agents.explain_recorded(directory)]) from None
        # From here to the end nothing waits, and nothing is refused.
        self._number += 1
        self._running = RunningConfiguration(
            loaded=core.services.loaded,
            files={kind: self._files_to_compare(kind, candidate) for kind in candidate.files},
            modules=candidate.modules,
        )
        if candidate.modules is not None:
            candidate.modules.install()
        core.services.loaded.tls.follow(candidate.tls)
        self._generations.turn_to(core)
        try:
            self._renew(candidate)
            self._agents.note_admitted(newcomers)
        except Exception:
            log.failure("a part of the host could not adopt the changed configuration")
        remarks = list(_find_remarks(core))
        warnings = self._remarks.find_new(remarks)
        self._remarks.replace(remarks)
        return replace(outcome, audit_id=audit_id, warnings=warnings)

    def _files_to_compare(self, kind: str, candidate: Candidate) -> Any:
        """Return the files to compare with next time: those applied now; files that need a restart stay as before."""
        waits = any(left.startswith(f"{kind} (") for left in candidate.outcome.waiting)
        return self._running.files.get(kind, {}) if waits else candidate.files[kind]

    async def _record_refusal(
        self, problems: Sequence[Problem], candidate: Candidate | None, requester: Requester, check: bool
    ) -> ReloadOutcome:
        files = dict.fromkeys(Path(problem.file).name for problem in problems if problem.file)
        outcome = ReloadOutcome(
            waiting=() if candidate is None else candidate.outcome.waiting,
            failed=tuple(files) or ("the configuration",),
            problems=tuple(problems),
            generation=self._number,
        )
        if check:
            return outcome
        shown = [str(problem)[:LONGEST_PROBLEM] for problem in problems[:MOST_PROBLEMS]]
        fields = {
            **requester.fields(),
            "explanation": f"The new configuration was refused because of {plural(len(problems), 'problem')}; "
            "nothing changed.",
            "digest": "" if candidate is None else candidate.digest,
            "generation": self._number,
            "problems": shown,
            "count": len(problems),
        }
        try:
            return replace(outcome, audit_id=await self._record(REFUSED, fields))
        except ConfigurationError:
            return outcome

    async def _record(self, event_type: str, fields: Mapping[str, Any]) -> str:
        event = StreamEvent(chain=HOST_CHAIN, event_type=event_type, fields=fields)
        try:
            sealed = await self._ledger.submit(Draft(chain=HOST_CHAIN, payload={}, events=(event,), performed=True))
        except LedgerUnavailable as error:
            problem = Problem(message=f"the change cannot be recorded: {error}", hint=RETRY_HINT)
            raise ConfigurationError([problem]) from None
        return str(sealed.audit_id)

    async def reload_for_operator(
        self, key: str, agent_id: str, check: bool, operator: Mapping[str, str] | None = None
    ) -> Mapping[str, Any]:
        """Reload for an operator over AGTP; see :data:`agtphost.methods.reload.Reload`."""
        outcome = await self.reload(
            Requester(by="operator", key=key, agent_id=agent_id, operator=operator), check=check
        )
        return outcome.to_json()

    def _log(self, outcome: ReloadOutcome, requester: Requester, check: bool) -> None:
        if check:
            return
        by = "SIGHUP" if requester.by == "signal" else "reload"
        if outcome.is_refused:
            problems = "; ".join(
                f"{problem}; original: {problem.original}" if problem.original else str(problem)
                for problem in outcome.problems
            )
            log.error("{by}: nothing changed: {why}", by=by, why=problems)
        elif any(each.startswith("TLS files (") for each in outcome.applied):
            said = "the TLS certificate, key and client authorities were read again; new connections use them"
            log.info("{by}: {said}", by=by, said=said)
        for each in outcome.waiting:
            log.warn("{by}: needs a restart: {what}", by=by, what=each)
        log.info("{by}: {summary}", by=by, summary=outcome.summary)


def _find_remarks(core: Core) -> Iterator[str]:
    """Yield every warning about a configuration."""
    yield from core.services.loaded.warnings
    yield from find_unmatched(core.services.loaded)
    yield from find_unanswered(core.services)
    yield from unmatched_grants(core.services, core.connected)


RETRY_HINT = "reload again once the store accepts records; the log says what is wrong with it"
