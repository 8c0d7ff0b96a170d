"""Who always gets the same version: the number that a request's words make."""

import pytest
from multidict import CIMultiDict

from gateway.sticky import Sticky


def key(rule: str, *, pipeline: str = "p", request_id: str = "id", **headers: str) -> int:
    given = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
    return Sticky(pipeline, rule).key(given, request_id)


def test_a_header_decides_whatever_the_case_of_its_name() -> None:
    ann = key("header:X-User-Id", x_user_id="ann")
    assert ann == key("header:x-user-id", X_USER_ID=" ann ", request_id="other")
    assert ann != key("header:X-User-Id", x_user_id="bob")
    assert ann != key("header:X-User-Id", x_user_id="Ann")


def test_it_is_the_same_in_every_gateway_and_in_every_release() -> None:
    assert key("header:X-User-Id", x_user_id="ann") == 10796752674215216745


def test_another_pipeline_divides_its_users_otherwise() -> None:
    assert key("request-id", pipeline="p") != key("request-id", pipeline="q")


@pytest.mark.parametrize("rule", ["header:X-User-Id", "cookie:user", "cookie:X-User-Id"])
def test_who_does_not_say_who_it_is_has_no_key(rule: str) -> None:
    assert key(rule) == 0
    assert key(rule, x_user_id="", cookie="other=1") == 0


@pytest.mark.parametrize(
    "header",
    [
        "user=ann",
        "a=b; user=ann",
        "user=ann;a=b",
        'user="ann"',
        'a={"x": [1]}; user=ann; b',
        "user=ann; user=bob",
        " user = ann ",
        "user=ann; $Path=/",
    ],
)
def test_a_cookie_among_others(header: str) -> None:
    assert key("cookie:user", cookie=header) == key("header:X", x="ann")


def test_a_cookie_with_a_value_that_none_may_have() -> None:
    odd = 'user={"a":1}'
    assert key("cookie:user", cookie=odd) == key("header:X", x='{"a":1}')
    assert key("cookie:us", cookie="user=ann") == 0


def test_any_bytes_make_a_key() -> None:
    assert 0 < key("header:X", x="\udcff\udc80") < 2**64
    assert 0 < key("header:X", x="x" * 10_000) < 2**64


def test_request_ids_are_divided_one_by_one() -> None:
    assert len({key("request-id", request_id=f"{n}") for n in range(1000)}) == 1000
