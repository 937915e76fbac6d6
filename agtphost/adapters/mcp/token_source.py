"""
Keep the host's own token for an HTTP server: OAuth 2.0 client credentials (RFC 6749 section 4.4).

The token endpoint is configured, and never learned from the server (T-MC-110). A token is fetched before the first
request, and renewed before it expires, so that no call waits for it; after a refusal a new one is fetched.
"""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import quote_plus, urlencode

from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.web.http_headers import Headers

from agtphost.config.upstreams import OAuthClient
from agtphost.upstream.failures import AnswerTooLong, UpstreamFailure, UpstreamLost, UpstreamRefused
from agtphost.upstream.https import HTTPSClient, read
from agtphost.upstream.log import UpstreamLog
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.foreign_errors import explain

LIFETIME = 300.0
"""Seconds that a token counts as valid where the answer does not say."""

RENEWED_AT = 0.8
"""The part of its lifetime after which a token is renewed."""

RETRY_SECONDS = 30.0
"""Seconds between attempts to renew."""

MAX_ANSWER = 65_536
"""Octets of a token answer."""

TIMEOUT = 10.0
"""Seconds that the token endpoint has to answer."""

_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*", re.ASCII)


class TokenSource:
    """
    A source of one token, kept current while it is used.

    :param clock: for expiry.
    :param client: connects to the token endpoint.
    :param credentials: the client's credentials.
    :param log: gets failures, never a token.
    """

    def __init__(self, clock: IReactorTime, client: HTTPSClient, credentials: OAuthClient, log: UpstreamLog) -> None:
        self._clock = clock
        self._client = client
        self._credentials = credentials
        self._log = log
        self._timer: IDelayedCall | None = None
        self._fetching: list[Deferred[None]] | None = None
        self._expires = 0.0
        self._used = False
        self._token = ""

    @property
    def token(self) -> str:
        """The valid token; empty where there is none."""
        self._used = True
        return self._token if self._clock.seconds() < self._expires else ""

    async def ready(self) -> None:
        """
        Wait until there is a token.

        :raises UpstreamFailure: the token endpoint gave none.
        """
        if self.token:
            return
        if self._fetching is not None:
            waiter: Deferred[None] = Deferred()
            self._fetching.append(waiter)
            await waiter
        else:
            await self._fetch()

    def drop_token(self) -> None:
        """Drop the token that the server refused; the next request waits for a new one."""
        self._expires = 0.0

    async def _fetch(self) -> None:
        """
        Get a new token, and wake the requests that wait for it.

        :raises UpstreamFailure: there is none; those that wait fail too.
        """
        waiters = self._fetching = []
        failure: UpstreamFailure | None = None
        try:
            await self._request_token()
        except UpstreamFailure as error:
            failure = error
            raise
        except Exception as error:
            # The text of an unknown error could have the client's secret in it.
            why = explain(error) if isinstance(error, TimeoutError) else type(error).__name__
            failure = UpstreamRefused(0, f"the token request failed: {why}")
            raise failure from error
        finally:
            self._fetching = None
            for waiter in waiters:
                if failure is None:
                    waiter.callback(None)
                else:
                    waiter.errback(UpstreamRefused(0, str(failure)))

    async def _request_token(self) -> None:
        """
        Request a token from the token endpoint, store it, and schedule its renewal.

        :raises UpstreamRefused: the endpoint gave none that can be used.
        :raises TimeoutError: the endpoint did not answer within :data:`TIMEOUT` seconds.
        """
        credentials = self._credentials
        form = {"grant_type": "client_credentials"}
        if credentials.scope:
            form["scope"] = credentials.scope
        if credentials.resource:
            form["resource"] = credentials.resource
        pair = f"{quote_plus(credentials.client_id)}:{quote_plus(credentials.client_secret.reveal())}"
        fields = Headers(
            {
                "Authorization": [f"Basic {base64.b64encode(pair.encode()).decode()}"],
                "Content-Type": ["application/x-www-form-urlencoded"],
                "Accept": ["application/json"],
            }
        )
        asking = Deferred.fromCoroutine(self._post(fields, urlencode(form).encode("ascii")))
        asking.addTimeout(TIMEOUT, self._clock)
        answer = await asking
        token = answer.get("access_token") if isinstance(answer, dict) else None
        if not isinstance(token, str) or _TOKEN.fullmatch(token) is None:
            raise UpstreamRefused(0, "the token endpoint answered without an access_token that can be sent")
        if str(answer.get("token_type", "")).lower() != "bearer":
            raise UpstreamRefused(0, "the token endpoint gave a token of another type than bearer")
        lifetime = answer.get("expires_in", LIFETIME)
        lifetime = float(lifetime) if type(lifetime) in (int, float) and lifetime > 0 else LIFETIME
        self._log.conceal(token)
        self._token = token
        self._expires = self._clock.seconds() + lifetime
        self._renew_in(lifetime * RENEWED_AT)

    async def _post(self, fields: Headers, body: bytes) -> Any:
        """
        Return the decoded answer of the token endpoint to a request.

        :raises UpstreamRefused: it cannot be reached, or its answer has another status than 200 or is not JSON.
        """
        try:
            response = await self._client.request("POST", self._credentials.token_url, fields, body)
            octets = await read(response, MAX_ANSWER)
        except (UpstreamLost, AnswerTooLong) as failure:
            # The failure is the token endpoint's, not the server's.
            raise UpstreamRefused(0, f"the token request failed: {failure}") from None
        if response.code != 200:
            raise UpstreamRefused(
                response.code,
                f"the token endpoint answered with HTTP {response.code}; check client_id, client_secret and token_url",
            )
        try:
            return jsontext.decode(octets)
        except ValueError:
            raise UpstreamRefused(response.code, "the token endpoint's answer is not JSON") from None

    def _renew_in(self, seconds: float) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._used = False
        self._timer = self._clock.callLater(seconds, self._renew)

    def _renew(self) -> None:
        """Renew a token that was used since the last renewal; otherwise let it expire."""
        if not self._used:
            return
        renewing = Deferred.fromCoroutine(self._fetch())

        def retry_later(failure: Any) -> None:
            self._log.say(f"the token is not renewed: {failure.value}")
            self._renew_in(RETRY_SECONDS)
            self._used = True

        renewing.addErrback(retry_later)

    def stop(self) -> None:
        """Stop renewing the token."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
