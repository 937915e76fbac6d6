"""
An HTTPS service of any OpenAPI document, for an environment that has ``openapi-core``, which is not this project's.

It reads each request by the document alone, writes a line of JSON about it, and answers as it is told::

    python openapi_service.py DOCUMENT ANSWERS CERTIFICATE LOG PORT

ANSWERS is a JSON object: the status, the media type and the value by ``POST /things/{id}``.
"""

from __future__ import annotations

import base64
import http.server
import json
import ssl
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from openapi_core import Config, OpenAPI
from openapi_core.datatypes import RequestParameters
from querystring_parser import parser as nested
from werkzeug.datastructures import Headers, ImmutableMultiDict
from werkzeug.formparser import parse_form_data

FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"


def unchanged(value: Any) -> Any:
    """Values stay as they came: what they stand for is not looked at."""
    return value


def kinds_of(*places: Any) -> set[str]:
    """Return all media types of a document."""
    found: set[str] = set()
    waiting = list(places)
    while waiting:
        place = waiting.pop()
        if isinstance(place, dict):
            content = place.get("content")
            found |= set(content) if isinstance(content, dict) else set()
            waiting += place.values()
        elif isinstance(place, list):
            waiting += place
    return found


def json_of(data: bytes, **parameters: str) -> Any:
    """Return a value, whatever its media type is called."""
    return json.loads(data)


def text_of(data: bytes, **parameters: str) -> Any:
    """Return text, or what stands for octets."""
    return data.decode("utf-8", "surrogateescape")


FORMATS = ("date", "date-time", "uuid", "byte", "binary", "int32", "int64", "float", "double")


class Answered:
    """An answer, as the validator wants it."""

    def __init__(self, status: int, kind: str, data: bytes) -> None:
        self.status_code, self.content_type, self.data, self.headers = status, kind, data, Headers()


class Received:
    """A request, as the validator wants it."""

    def __init__(self, port: int, method: str, target: str, fields: list[tuple[str, str]], body: bytes) -> None:
        self.host_url = f"https://localhost:{port}"
        self.path, _, self.query = target.partition("?")
        self.method, self.body = method.lower(), body
        headers = Headers(fields)
        self.content_type = headers.get("Content-Type", "")
        pairs = parse_qsl(self.query, keep_blank_values=True)
        self.parameters = RequestParameters(query=ImmutableMultiDict(pairs), header=headers)


def plain(value: Any) -> Any:
    """Return a decoded value in JSON: octets as base64, and what is numbered as a list."""
    if isinstance(value, dict) and value and all(isinstance(name, int) for name in value):
        return [plain(value[name]) for name in sorted(value)]
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def form_of(request: Received) -> Any:
    """Return the fields of a form or the parts of a multipart body; None for another body."""
    kind = request.content_type.partition(";")[0].strip().lower()
    if kind == FORM:
        text = request.body.decode("ascii")
        return {"pairs": parse_qsl(text, keep_blank_values=True), "nested": plain(nested.parse(text))}
    if kind != MULTIPART:
        return None
    import io

    environ = {
        "wsgi.input": io.BytesIO(request.body),
        "CONTENT_TYPE": request.content_type,
        "CONTENT_LENGTH": str(len(request.body)),
        "REQUEST_METHOD": "POST",
    }
    _, form, files = parse_form_data(environ)
    parts = [[name, {"text": text}] for name, texts in form.lists() for text in texts]
    for name, listed in files.lists():
        for file in listed:
            shown = {"filename": file.filename, "content_type": file.content_type}
            parts.append([name, {"base64": base64.b64encode(file.read()).decode(), **shown}])
    return {"parts": parts}


class Service:
    """What is known of the document, and what is told of requests."""

    def __init__(self, document: Path, answers: Path, log: Path, port: int) -> None:
        self.document = json.loads(document.read_text())
        self.answers = json.loads(answers.read_text())
        self.port = port
        extra = dict.fromkeys(FORMATS, unchanged)
        readers: dict[str, Any] = {}
        for kind in kinds_of(self.document["paths"], self.document.get("components", {})):
            name = kind.partition(";")[0].strip().lower()
            if "json" in name or "*" in name:
                readers[name] = json_of
            elif name not in (FORM, MULTIPART):
                readers[name] = text_of
        config = Config(
            spec_validator_cls=None, extra_format_unmarshallers=extra, extra_media_type_deserializers=readers
        )
        self.openapi = OpenAPI.from_dict(self.document, config=config)
        self._log = log.open("a")
        self._lock = threading.Lock()

    def answer(self, request: Received, headers: Headers) -> tuple[int, str, bytes]:
        """Look at a request, and return status, media type and body of its answer."""
        told: dict[str, Any] = {"target": f"{request.path}?{request.query}", "method": request.method.upper()}
        told |= {"content_type": request.content_type, "accept": headers.get("Accept", "")}
        told |= {"octets": base64.b64encode(request.body).decode(), "nested": {}}
        status, kind, data = 404, "text/plain", b"no such operation"
        try:
            if request.query:
                told["nested"] = plain(nested.parse(request.query))
            told["form"] = form_of(request)
            found = self.openapi.unmarshal_request(request)
            told["errors"] = [described(error) for error in found.errors]
            # The path is matched as it was sent, so its values are still escaped.
            path = {name: unquote(str(value)) for name, value in request.parameters.path.items()}
            shown = {place: plain(getattr(found.parameters, place, {})) for place in ("query", "header")}
            told |= {"path": path, **shown, "body": plain(found.body)}
            told["source"] = source = self._source(request)
            if source in self.answers:
                status, kind, value = self.answers[source]
                data = json.dumps(value).encode() if kind else b""
                if kind:
                    answered = self.openapi.unmarshal_response(request, Answered(status, kind, data))
                    told["answer_errors"] = [described(error) for error in answered.errors]
        except Exception as error:
            told["failed"] = f"{type(error).__name__}: {error}"
        with self._lock:
            self._log.write(json.dumps(told) + "\n")
            self._log.flush()
        return status, kind, data

    def _source(self, request: Received) -> str:
        pattern = self.openapi.request_validator._find_path(request)[3].pattern
        return f"{request.method.upper()} {pattern}"


def described(error: BaseException) -> str:
    """Return what an error says, and why."""
    said = [f"{type(error).__name__}: {error}"]
    cause = error.__cause__
    while cause is not None and len(said) < 4:
        inner = getattr(cause, "schema_errors", None)
        said.append(f"{type(cause).__name__}: {[each.message[:200] for each in inner] if inner else cause}"[:600])
        cause = cause.__cause__
    return " <- ".join(said)[:1500]


def serve(service: Service, certificate: Path) -> None:
    """Serve for ever."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            request = Received(service.port, self.command, self.path, list(self.headers.items()), body)
            status, kind, data = service.answer(request, Headers(list(self.headers.items())))
            self.send_response(status)
            if kind:
                self.send_header("Content-Type", kind)
            if status != 204:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        do_GET = do_PUT = do_DELETE = do_POST = do_PATCH = do_HEAD = do_OPTIONS = answer

        def log_message(self, *arguments: object) -> None:
            """Nothing."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", service.port), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    print("serving", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    document, answers, certificate, log = map(Path, sys.argv[1:5])
    serve(Service(document, answers, log, int(sys.argv[5])), certificate)
