"""The small pure parts: headers, routes, the catalog's view, inflating, errors, bounds."""

import contextlib
import gzip
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.wire.errors import ErrorCode
from broker.wire.messages import Catalog, Failure, MosecInfo, PipelineInfo, Priority, StageInfo
from gateway import headers
from gateway.bounds import Bounds
from gateway.catalog import CatalogView, PipelineView
from gateway.headers import BadHeader
from gateway.inflate import Broken, TooLarge, inflate, zstd_module
from gateway.problems import problem
from gateway.responses import Heads
from gateway.routes import Kind, Route, find

# ------------------------------------------------------------------ headers


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("1500", 1.5), (" 20 ", 0.02), ("0.5", 0.0005), ("1e3", 1.0), ("+7", 0.007)],
)
def test_timeouts(value: str, seconds: float) -> None:
    assert headers.timeout_s(value) == pytest.approx(seconds)


@given(st.text())
def test_any_timeout_is_positive_or_refused(value: str) -> None:
    with contextlib.suppress(BadHeader):
        assert 0.0 < headers.timeout_s(value) < float("inf")


@pytest.mark.parametrize(
    ("value", "number"), [("high", Priority.HIGH), ("NORMAL", Priority.NORMAL), (" low ", 2)]
)
def test_priorities(value: str, number: int) -> None:
    assert headers.priority(value) == number


@given(st.binary())
def test_request_ids_are_visible_ascii(raw: bytes) -> None:
    value = headers.request_id(raw.decode("utf-8", "surrogateescape"))
    assert len(value) <= 128
    assert all("!" <= character <= "~" for character in value)


@given(st.binary())
def test_clean_text_can_be_encoded(raw: bytes) -> None:
    headers.clean(raw.decode("utf-8", "surrogateescape")).encode()


@given(st.text())
def test_response_values_end_no_line(value: str) -> None:
    cleaned = headers.response_value(value)
    assert "\r" not in cleaned
    assert "\n" not in cleaned
    cleaned.encode("latin-1")


# ------------------------------------------------------------------ routes


@pytest.mark.parametrize(
    ("method", "target", "route"),
    [
        ("POST", "/pipelines/a", Route(Kind.RUN, "a")),
        ("POST", "/pipelines/a%20b?x=1", Route(Kind.RUN, "a b")),
        ("POST", "/pipelines/a/versions/2", Route(Kind.RUN, "a", "2")),
        ("POST", "/pipelines/%2F..", Route(Kind.RUN, "/..")),
        ("POST", "/inference", Route(Kind.RUN_ONLY)),
        ("GET", "/pipelines/a", Route(Kind.PIPELINE, "a")),
        ("GET", "/readyz?pipeline=a", Route(Kind.READYZ, query="pipeline=a")),
        ("HEAD", "/livez", Route(Kind.LIVEZ)),
        ("PATCH", "/inference", Route(Kind.WRONG_METHOD, allow="POST")),
        ("OPTIONS", "*", Route(Kind.NOWHERE, "*")),
        ("GET", "/pipelines/a/b", Route(Kind.NOWHERE, "/pipelines/a/b")),
        ("POST", "/pipelines/a/versions/", Route(Kind.NOWHERE, "/pipelines/a/versions/")),
        ("GET", "", Route(Kind.NOWHERE, "")),
    ],
)
def test_routes(method: str, target: str, route: Route) -> None:
    assert find(method, target) == route


@given(st.sampled_from(["GET", "POST", "PUT"]), st.text())
def test_any_target_has_a_route(method: str, target: str) -> None:
    assert find(method, target).kind in Kind


# ------------------------------------------------------------------ catalog


def test_server_timing_of_a_request_that_ended_early() -> None:
    view = PipelineView(PipelineInfo("p", [StageInfo("a %s"), StageInfo("b")]))
    assert view.server_timing([0.001, 0.25]) == "a__s-queue;dur=1.000, a__s-run;dur=250.000"
    assert view.server_timing([0.0] * 4).count("dur=") == 4
    assert view.server_timing([0.0] * 3) == ""


def test_a_lone_pipeline_is_inference() -> None:
    one, two = PipelineInfo("a/b", [StageInfo("s")]), PipelineInfo("two", [])
    view = CatalogView(Catalog(1, [one]))
    assert view.targets["/inference"] is view.single is view.pipelines["a/b"]
    assert CatalogView(Catalog(1, [one, two])).single is None
    assert CatalogView(Catalog(1, [])).reasons() == ["no pipeline is served"]


def test_routes_of_its_own_lead_to_a_pipeline_and_go_before_names() -> None:
    one = PipelineInfo("one", [], routes=["/x", "/pipelines/two", "/v2/models/two/infer"])
    two = PipelineInfo("two", [], routes=["/inference"], mosec=MosecInfo())
    view = CatalogView(Catalog(1, [one, two]))
    assert view.targets["/x"] is view.targets["/pipelines/two"] is view.pipelines["one"]
    assert "/v2/models/two/infer" not in view.models
    assert view.mosec == {"/inference": view.pipelines["two"]}
    assert "/inference" not in CatalogView(Catalog(1, [two])).targets


# ------------------------------------------------------------------ inflate


@given(st.binary(max_size=2000))
def test_inflating_restores(body: bytes) -> None:
    assert inflate(gzip.compress(body), "gzip", 2000) == body
    assert inflate(zlib.compress(body), "deflate", 2000) == body
    frame = zstd_module().compress(body)
    assert inflate(frame, "zstd", 2000) == body
    assert inflate(frame + frame, "zstd", 4000) == 2 * body


@given(st.binary(max_size=300))
def test_garbage_is_broken_or_small(body: bytes) -> None:
    with contextlib.suppress(Broken, TooLarge):
        assert len(inflate(body, "deflate", 1000)) <= 1000
    with contextlib.suppress(Broken, TooLarge):
        assert len(inflate(body, "zstd", 1000)) <= 1000


def test_the_bound_is_exact() -> None:
    packed = gzip.compress(b"x" * 1000)
    assert len(inflate(packed, "gzip", 1000)) == 1000
    with pytest.raises(TooLarge):
        inflate(packed, "gzip", 999)
    with pytest.raises(TooLarge):
        inflate(packed + packed, "gzip", 1999)


def test_members_are_joined_up_to_a_number() -> None:
    assert inflate(gzip.compress(b"a") + gzip.compress(b"b"), "gzip", 10) == b"ab"
    with pytest.raises(Broken):
        inflate(gzip.compress(b"") * 1000, "gzip", 10)


# ------------------------------------------------------------------ errors


def test_a_status_that_is_no_error_is_not_taken() -> None:
    said = problem(Failure(ErrorCode.REJECTED, "no", status=200), "id")
    assert (said.status, said.code) == (400, "rejected")


def test_messages_that_are_no_text_are_answered_all_the_same() -> None:
    said = problem(Failure(ErrorCode.BAD_BODY, "a\udcffb"), "id")
    assert json.loads(said.body)["error"]["message"] == "a\ufffdb"


@pytest.mark.parametrize(("seconds", "header"), [(0.0, "1"), (0.2, "1"), (1.0, "1"), (1.01, "2")])
def test_retry_after_is_whole_seconds(seconds: float, header: str) -> None:
    said = problem(Failure(ErrorCode.OVERLOADED, "", retry_after_s=seconds), "id")
    assert said.extra == f"Retry-After: {header}\r\n"


# ------------------------------------------------------------------ responses


def test_heads_follow_the_clock() -> None:
    heads = Heads(0.0)
    assert b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n" in heads.result("a/b", 3, "id", "", "")
    heads.renew(86400.0)
    head = heads.result("a/b", 3, "id", "v", "t;dur=1")
    assert head == (
        b"HTTP/1.1 200 OK\r\nDate: Fri, 02 Jan 1970 00:00:00 GMT\r\nContent-Type: a/b\r\n"
        b"Content-Length: 3\r\nX-Request-Id: id\r\nX-Model-Version: v\r\nServer-Timing: t;dur=1\r\n"
    )
    assert heads.plain(499, 0).startswith(b"HTTP/1.1 499 Status\r\n")


# ------------------------------------------------------------------ bounds


def test_reserved_bytes_count_and_come_back() -> None:
    bounds = Bounds(max_items=10, max_bytes=100)
    assert bounds.reserve(60, up=True)
    assert not bounds.reserve(41, up=True)
    assert bounds.reserve(40, up=False)
    bounds.release(100)
    assert bounds.held_bytes == 0
