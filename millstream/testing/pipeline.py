"""`pipeline`: a user's chain in this process, called like a gateway."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike, fspath
from types import TracebackType
from typing import Any, Self

import msgspec

from broker.payload.answers import encode_json
from broker.wire.messages import Failure, RequestMeta
from gateway import headers as header_values
from millstream.chain.complaints import Complaints
from millstream.chain.parts import Given, Settings, assemble
from millstream.chain.run import Answered, Chain, End, Sent
from millstream.client.message import ACCEPT, encode
from millstream.testing import answer as answers
from millstream.testing.answer import About, Answer
from workers.streams import OpenStream

_NOTHING: Any = object()


def pipeline(
    *stages: Given,
    name: str = "",
    version: str = "",
    device: str = "cpu",
    model_dir: str | PathLike[str] = "",
    headers: Sequence[str] = (),
) -> "Pipeline":
    """The chain of these, first to last: classes, scripts (`"infer.py"`, `"stages.py:Infer"`), or a
    pipeline file and the scripts of its stages in any order.

    `name` chooses one of several pipelines of the file. `version`, `device` and `model_dir` are
    what the plug-ins find in `self`; `headers` which request headers they get to see, beside those
    of the file. Plug-ins are set up and warmed up when it is entered. Raises ChainError, which has
    every mistake with its file and line.
    """
    settings = Settings(device=device, version=version, model_dir=fspath(model_dir))
    chain = Chain(assemble(stages, settings, name=name))
    shown = {*chain.config.headers, *(header.lower() for header in headers)}
    return Pipeline(chain, frozenset(shown), version)


class Pipeline:
    """A chain that may be called while it is entered. See `pipeline`."""

    def __init__(self, chain: Chain, headers: frozenset[str], version: str) -> None:
        self._chain = chain
        self._headers = headers
        self._version = version
        self._complaints = Complaints()

    @property
    def plugins(self) -> dict[str, Any]:
        """The instances of the plug-ins, by stage."""
        return {stage.name: stage.plugin for stage in self._chain.stages}

    def __enter__(self) -> Self:
        """Raises ChainError where a plug-in cannot be set up."""
        self._chain.__enter__()
        self._complaints.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._complaints.__exit__(exc_type, exc, traceback)
        self._chain.__exit__(exc_type, exc, traceback)

    # -------------------------------------------------------------- requests

    def __call__(
        self,
        body: bytes | str = b"",
        *,
        json: Any = _NOTHING,
        content_type: str | None = None,
        accept: str = "",
        headers: Mapping[str, str] | None = None,
        request_id: str = "",
        timeout_s: float = 0.0,
    ) -> Answer:
        """One request, and its answer. An error is an answer, too.

        `json` in place of a body is written as JSON, arrays as lists. Of a stream all values are
        waited for. `timeout_s` is what plug-ins find in `RequestInfo.deadline`; nothing ends then.
        """
        sent = self._sent(body, json, content_type, accept, headers, request_id, timeout_s)
        return self._answers([sent])[0]

    def batch(
        self,
        bodies: Sequence[bytes | str] = (),
        *,
        json: Sequence[Any] | None = None,
        content_type: str | None = None,
        accept: str = "",
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 0.0,
    ) -> list[Answer]:
        """Many requests that are there at once: each stage runs them in batches, as full as it
        allows.
        """
        given: list[tuple[bytes | str, Any]] = [(body, _NOTHING) for body in bodies]
        given += [(b"", value) for value in json or ()]
        return self._answers(
            [
                self._sent(body, value, content_type, accept, headers, "", timeout_s)
                for body, value in given
            ]
        )

    def call(self, value: Any, *, headers: Mapping[str, str] | None = None) -> Any:
        """A value, arrays as they are, and the value that answers it: what `millstream.Client.call`
        sends and returns. Raises ValueError for what cannot be sent, AnswerError for an error.
        """
        body, content_type = encode(value)
        answer = self(body, content_type=content_type, accept=ACCEPT, headers=headers)
        return answer.raise_for_status().decoded()

    def stream(
        self,
        body: bytes | str = b"",
        *,
        json: Any = _NOTHING,
        content_type: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 0.0,
    ) -> Iterator[Any]:
        """One request whose answer is a stream, value by value, each decoded. To close the iterator
        ends the stream, as when a client hangs up. Raises AnswerError for an error.
        """
        sent = self._sent(body, json, content_type, "", headers, "", timeout_s)
        (end,) = self._chain.run([sent])
        about = self._about(sent)
        if not isinstance(end, OpenStream):
            self._answer(end, about).raise_for_status()
            raise TypeError("the answer is no stream: forward returned no iterator for it")
        for value in self._chain.values(end):
            if isinstance(value, Failure):
                answers.error(value, about).raise_for_status()
            else:
                yield msgspec.json.decode(value)

    # -------------------------------------------------------------- in and out

    def _sent(  # noqa: PLR0917  # what a request is, from three places
        self,
        body: bytes | str,
        json: Any,
        content_type: str | None,
        accept: str,
        headers: Mapping[str, str] | None,
        request_id: str,
        timeout_s: float,
    ) -> Sent:
        if json is not _NOTHING:
            if body:
                raise TypeError("a request has a body, or json=…, not both")
            body = encode_json(json)
            content_type = content_type or "application/json"
        if not isinstance(body, bytes | bytearray | memoryview | str):
            raise TypeError(f"a body is bytes or str; for a {type(body).__name__} say json=…")
        meta = RequestMeta(
            header_values.request_id(request_id) or secrets.token_hex(8),
            content_type or "",
            accept,
            headers={
                name.lower(): value
                for name, value in (headers or {}).items()
                if name.lower() in self._headers
            },
        )
        longest_s = self._chain.config.timeout_s
        left_s = min(timeout_s, longest_s) if timeout_s else longest_s
        return Sent(body.encode() if isinstance(body, str) else bytes(body), meta, left_s)

    def _answers(self, requests: Sequence[Sent]) -> list[Answer]:
        ends = self._chain.run(requests)
        return [
            self._answer(end, self._about(sent)) for end, sent in zip(ends, requests, strict=True)
        ]

    def _about(self, sent: Sent) -> About:
        meta = sent.meta
        return About(meta.request_id, self._version, meta.accept, self._complaints.about)

    def _answer(self, end: End, about: About) -> Answer:
        if isinstance(end, Answered):
            return answers.result(end, about)
        if isinstance(end, Failure):
            return answers.error(end, about)
        return answers.stream(self._chain.values(end), about)
