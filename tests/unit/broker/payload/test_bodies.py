"""HTTP bodies at both ends: what clients send becomes objects, results become answers."""

import dataclasses
import enum
import json
import math
import time
from datetime import UTC, date, datetime
from typing import Any

import msgpack  # type: ignore[import-untyped]  # it ships no types
import numpy as np
import pytest

from broker.payload.bodies import decode_body, encode_body
from broker.payload.errors import BadBody, CannotTravel, UnsupportedType
from broker.payload.limits import MAX_DEPTH

JSON = "application/json"
MSGPACK = "application/msgpack"


def strict_json(body: Any) -> Any:
    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is not JSON")

    return json.loads(bytes(body), parse_constant=refuse)


class TestJson:
    @pytest.mark.parametrize(
        "content_type",
        [
            "",
            " ",
            "application/json",
            'Application/JSON; Charset="UTF-8"',
            "application/json;charset=us-ascii",
            "application/problem+json ; a=b",
            "application/json; charset",
        ],
    )
    def test_content_types(self, content_type: str) -> None:
        assert decode_body(b'{"a":[1,"\xc3\xa9"]}', content_type) == {"a": [1, "é"]}

    @pytest.mark.parametrize(
        ("body", "value"),
        [
            (b"null", None),
            (b'"text"', "text"),
            (b"[]", []),
            (b" 1.50 ", 1.5),
            (b"\xef\xbb\xbf" + b'{"a":1}', {"a": 1}),
            (b'{"x":1,"x":2}', {"x": 2}),  # the last of the same keys
            (b'{"text":"ok \\ud83d\\ude00"}', {"text": "ok 😀"}),
            (b"[18446744073709551615,-9223372036854775808]", [2**64 - 1, -(2**63)]),
            (b'["12345678901234567890123", 0.12345678901234567890123]', None),
            (b'{"18446744073709551616": 1}', {"18446744073709551616": 1}),
            (b'"[[[' + b"[" * 200 + b'"', "[[[" + "[" * 200),
        ],
    )
    def test_accepted(self, body: bytes, value: object) -> None:
        expected = json.loads(body.removeprefix(b"\xef\xbb\xbf")) if value is None else value
        for form in (body, bytearray(body), memoryview(body)):
            assert decode_body(form, JSON) == expected

    @pytest.mark.parametrize(
        ("body", "word"),
        [
            (b"", "empty"),
            (b"  ", "empty"),
            (b"\xef\xbb\xbf", "empty"),
            (b"\xef\xbb\xbf" * 2 + b"1", "invalid"),
            (b"{", "truncated"),
            (b"[1] x", "trailing"),
            (b"\xff\xfe{", "invalid"),
            (b'"\xff"', "UTF-8"),
            (b'{"\xed\xa0\x80":1}', "UTF-8"),
            (b"[NaN]", "NaN"),
            (b"[Infinity]", "Infinity"),
            (b"[-Infinity]", "Infinity"),
            (b"[1e999]", "range of a 64-bit float"),
            (b'{"text":"cut \\ud83d"}', "surrogate"),
            (b'{"\\udc00":1}', "surrogate"),
            (b"[18446744073709551616]", "18446744073709551615"),
            (b'{"a":[{"b":-9223372036854775809}]}', "-9223372036854775808"),
            (b"1" * 5000, "18446744073709551615"),
            (b"-" + b"1" * 400, "18446744073709551615"),
        ],
    )
    def test_refused_with_the_reason(self, body: bytes, word: str) -> None:
        with pytest.raises(BadBody) as caught:
            decode_body(body, "")
        assert word in str(caught.value)

    def test_depth_is_exact(self) -> None:
        assert decode_body(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, JSON)
        assert decode_body(b'{"[":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH, JSON)
        flat = [[{"[[{": "[" * 50}]] * 300
        assert decode_body(json.dumps(flat).encode(), JSON) == flat
        for levels in (MAX_DEPTH + 1, 900, 1000, 1020, 1024, 1100, 100_000):
            for opener, closer in ((b"[", b"]"), (b'{"a":', b"}")):
                with pytest.raises(BadBody, match="100 levels"):
                    decode_body(opener * levels + b"1" + closer * levels, JSON)

    @pytest.mark.parametrize(
        "content_type",
        [
            "application/json; charset=nope",
            "application/json; charset=utf-8,charset=utf-8",
            "application/json; charset=latin-1",
        ],
    )
    def test_other_charsets(self, content_type: str) -> None:
        with pytest.raises(UnsupportedType):
            decode_body(b"{}", content_type)


class TestMsgpack:
    @pytest.mark.parametrize(
        "content_type", [MSGPACK, "application/x-msgpack", "Application/vnd.MsgPack; v=1"]
    )
    def test_objects(self, content_type: str) -> None:
        value = {"a": [1, -(2**63), 2**64 - 1, b"x", None, 1.5], 7: True}
        assert decode_body(msgpack.packb(value), content_type) == value

    def test_timestamp(self) -> None:
        moment = datetime(2024, 1, 2, 3, 4, 5, 678, UTC)
        assert decode_body(msgpack.packb([moment], datetime=True), MSGPACK) == [moment]

    @pytest.mark.parametrize(
        ("body", "word"),
        [
            (b"", "empty"),
            (b"\x91", "truncated"),
            (b"\x01\x01", "trailing"),
            (b"\xc1", "malformed"),
            (b"\xdd\xff\xff\xff\xff", "truncated"),
            (b"\xdc\xff\xff" * 900, "truncated"),
            (b"\xc6\xff\xff\xff\xff", "truncated"),
            (b"\xa3\xed\xa0\x80", "UTF-8"),
            (b"\x81\x80\x01", "hashable"),
            (msgpack.packb(msgpack.ExtType(4, b"\0")), "ext type 4"),
            (b"\xc7\x0c\xff" + b"\xff" * 12, "msgpack"),
            (b"\x91" * 101 + b"\xc0", "100 levels"),
            (b"\x91" * 100_000 + b"\xc0", "100 levels"),
        ],
    )
    def test_refused_with_the_reason(self, body: bytes, word: str) -> None:
        with pytest.raises(BadBody) as caught:
            decode_body(body, MSGPACK)
        assert word in str(caught.value)


class TestOtherTypes:
    def test_text(self) -> None:
        assert decode_body("é".encode(), "text/plain") == "é"
        assert decode_body(b"\xe9", "text/csv; charset=latin-1") == "é"
        assert decode_body("é".encode("utf-16"), 'TEXT/x; charset="UTF-16"') == "é"
        assert decode_body(b"", "text/plain") == ""
        with pytest.raises(BadBody, match="utf-8"):
            decode_body(b"\xff", "text/plain")

    @pytest.mark.parametrize(
        "charset",
        ["nope", "hex", "rot13", "idna", "punycode", "U7", "unicode_escape", "a\0b", '""'],
    )
    def test_no_charsets(self, charset: str) -> None:
        with pytest.raises(UnsupportedType, match="charset"):
            decode_body(b"x", f"text/plain; charset={charset}")

    @pytest.mark.parametrize(
        "content_type", ["image/png", "application/octet-stream", "application/xml; charset=nope"]
    )
    def test_bytes(self, content_type: str) -> None:
        body = b"\x00\xff"
        assert decode_body(body, content_type) is body
        assert decode_body(memoryview(body), content_type) == body

    @pytest.mark.parametrize("content_type", ["json", "*/*", "text/*", "a/b/c", "/", ";", "a b/c"])
    def test_no_content_types(self, content_type: str) -> None:
        with pytest.raises(UnsupportedType):
            decode_body(b"{}", content_type)

    def test_hostile_headers_cost_no_time(self) -> None:
        started = time.process_time()
        for tail in (" " * 16_000 + '"', ';a="' + "\\" * 16_000, "a" * 16_000, ";a=" * 5_000):
            decode_body(b"", f"image/png;{tail}")
            encode_body(1, f"{MSGPACK};{tail}")
        assert time.process_time() - started < 1.0


def part(disposition: str, content: bytes = b"x", *more: str) -> bytes:
    lines = [f"Content-Disposition: form-data; {disposition}", *more]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def form(*parts: bytes, boundary: bytes = b"B", end: bytes = b"--\r\n") -> bytes:
    return b"".join(b"--" + boundary + b"\r\n" + p + b"\r\n" for p in parts) + (
        b"--" + boundary + end
    )


def decode_form(body: bytes) -> Any:
    return decode_body(body, "multipart/form-data; boundary=B")


class TestMultipart:
    def test_fields_and_files(self) -> None:
        content = b"\r\n--Bx\r\n--\x00\xff\r\n"  # nearly boundaries
        body = form(
            part('name="text"', "é".encode()),
            part('name="latin"', b"\xe9", "content-type: text/plain; charset=latin-1"),
            part('name="json"', b'{"a":1}', "Content-Type: application/json"),
            part('name="file"; filename="a.png"', content, "Content-Type: image/png"),
            part('name="untyped"; filename="b"'),
            part('name="blob"', b"\xff", "Content-Type: image/png"),
            part('name="empty"; filename=""', b""),
            part('name="nothing"', b""),
        )
        octets = "application/octet-stream"
        assert decode_form(b"preamble\r\n" + body + b"epilogue") == {
            "text": "é",
            "latin": "é",
            "json": '{"a":1}',
            "file": {"filename": "a.png", "content_type": "image/png", "body": content},
            "untyped": {"filename": "b", "content_type": octets, "body": b"x"},
            "blob": {"filename": None, "content_type": "image/png", "body": b"\xff"},
            "empty": {"filename": "", "content_type": octets, "body": b""},
            "nothing": "",
        }

    @pytest.mark.parametrize(
        ("written", "name"),
        [
            ('filename="a/b/../../x.png"', "a/b/../../x.png"),
            ('filename="C:\\x\\y.png"', "C:\\x\\y.png"),
            ('filename="a\\"b\\\\c"', 'a"b\\c'),
            ('filename="semi;colon=1"', "semi;colon=1"),
            ("filename=plain.png", "plain.png"),
            (f'filename="{"é" * 300}"', "é" * 300),
            (f"filename=\"x\"; filename*=UTF-8''{'%C3%A9' * 300}", "é" * 300),
        ],
    )
    def test_file_names_stay_data(self, written: str, name: str) -> None:
        assert decode_form(form(part(f'name="f"; {written}')))["f"]["filename"] == name

    def test_the_same_field_again_makes_a_list(self) -> None:
        parts = [part('name="a"', str(n).encode()) for n in range(3)]
        assert decode_form(form(*parts[:2])) == {"a": ["0", "1"]}
        assert decode_form(form(*parts)) == {"a": ["0", "1", "2"]}

    def test_an_empty_form_and_boundaries_with_spaces_behind(self) -> None:
        assert decode_form(b"--B--") == {}
        assert decode_form(b"--B \t\r\n" + part('name="a"') + b"\r\n--B--") == {"a": "x"}

    def test_long_boundary_in_quotes(self) -> None:
        boundary = "----WebKit Form:" + "x" * 54
        body = form(part('name="a"'), boundary=boundary.encode())
        assert decode_body(body, f'multipart/form-data; boundary="{boundary}"') == {"a": "x"}

    @pytest.mark.parametrize(
        ("body", "word"),
        [
            (b"", "does not occur"),
            (b'{"a":1}', "does not occur"),
            (form(part('name="a"'), end=b""), "is missing"),
            (b"--B\r\n" + part('name="a"'), "is missing"),
            (b"--B\r\n" + b"Content-Disposition: form-data", "within its headers"),
            (b"--B\r\n\r\nx\r\n--B--", "without 'Content-Disposition"),
            (form(part("nome=a")), "without a name"),
            (form(b"Content-Disposition: attachment; name=a\r\n\r\nx"), "form-data'"),
            (form(part('name="a"', b"x", "nonsense")), "no header"),
            (form(part('name="a"', b"x", "X: a\0b")), "no header"),
            (form(part('name="a"', b"\xff")), "not utf-8"),
            (form(part('name="a"', b"x", "Content-Type: json")), "no content type"),
            (form(part('name="a"', b"x", "Content-Transfer-Encoding: base64")), "base64"),
            (form(part("name=a; filename*=UTF-8''%ff")), "file name is not UTF-8"),
            (form(b"X: \xff\r\n" + part("name=a")), "not UTF-8"),
            (form(part('name="a"', b"x", "X: " + "y" * 17_000)), "exceed 16384 bytes"),
            (form(*[part('name="a"')] * 1001), "more than 1000 parts"),
            (form(part('name="a"')).replace(b"\r\n", b"\n"), "multipart"),
        ],
    )
    def test_refused_with_the_reason(self, body: bytes, word: str) -> None:
        with pytest.raises(BadBody) as caught:
            decode_form(body)
        assert word in str(caught.value)

    @pytest.mark.parametrize(
        "tail",
        ["", "; boundary=", '; boundary=" "', "; boundary=" + "x" * 71, "; boundary=a\u00e9"],
    )
    def test_no_legal_boundary(self, tail: str) -> None:
        with pytest.raises(BadBody, match="boundary"):
            decode_body(form(part("name=a")), "multipart/form-data" + tail)

    def test_near_boundaries_cost_no_time(self) -> None:
        started = time.process_time()
        content = b"\r\n--Bx" * 200_000 + b"\r\n--B" + b" " * 200_000 + b"x"
        assert decode_form(form(part("name=a", content))) == {"a": content.decode()}
        assert time.process_time() - started < 2.0


@dataclasses.dataclass
class Box:
    label: str
    corners: tuple[int, int]


class Colour(enum.Enum):
    RED = "red"


class TestAnswers:
    def test_bytes_go_out_as_they_are(self) -> None:
        body = b"\x00\xff"
        assert encode_body(body, MSGPACK) == (body, "application/octet-stream")
        assert encode_body(body, "")[0] is body
        square: Any = np.arange(4, dtype=np.uint8).reshape(2, 2)
        views = (memoryview(body), memoryview(square), memoryview(square[:, ::-1]), memoryview(b""))
        for data in (bytearray(body), *views):
            assert bytes(encode_body(data, "")[0]) == bytes(data)

    @pytest.mark.parametrize(
        ("accept", "content_type"),
        [
            ("", JSON),
            ("*/*", JSON),
            (JSON, JSON),
            ("text/html", JSON),
            ("application/*", JSON),
            (MSGPACK, MSGPACK),
            ("Application/X-MsgPack", "application/x-msgpack"),
            ("application/vnd.msgpack;q=0.5", "application/vnd.msgpack"),
            ("application/msgpack, */*", MSGPACK),
            ("application/msgpack, application/json", MSGPACK),
            ("application/msgpack;q=0.5, application/json", JSON),
            ("application/msgpack;q=0.5, */*;q=0.1", MSGPACK),
            ("application/msgpack;q=0.5, */*", JSON),
            ("*/*, application/json;q=0.1, application/msgpack;q=0.2", MSGPACK),
            ("application/msgpack;q=0, */*", JSON),
            ("application/msgpack;q=x", JSON),
            (";,,q=1", JSON),
        ],
    )
    def test_accept(self, accept: str, content_type: str) -> None:
        body, kind = encode_body({"a": 1}, accept)
        assert kind == content_type
        decode = strict_json if kind == JSON else msgpack.unpackb
        assert decode(body) == {"a": 1}

    @pytest.mark.parametrize(
        ("result", "expected"),
        [
            ({"label": "cat", "score": 0.5}, {"label": "cat", "score": 0.5}),
            ((1, [2, (3,)]), [1, [2, [3]]]),
            ({1: "a", 2.5: "b"}, {"2.5": "b", "1": "a"}),
            ({None: 1, False: 2}, {"null": 1, "false": 2}),
            ({np.int64(1): "a", np.str_("k"): "b"}, {"1": "a", "k": "b"}),
            (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
            (np.float32(0.5), 0.5),
            (np.array(3, ">i4"), 3),
            (np.zeros((2, 0)), [[], []]),
            ([np.bool_(True), np.str_("s"), np.array(["u", "v"])], [True, "s", ["u", "v"]]),
            (np.array(["2024-01-01", "NaT"], "M8[D]"), ["2024-01-01", None]),
            (np.datetime64("NaT"), None),
            (np.datetime64("2024-01-01T00:00:01", "ns"), "2024-01-01T00:00:01.000000000"),
            (np.array([1.5], "g"), [1.5]),
            (np.array([1, "a", None], object), [1, "a", None]),
            (np.ma.masked_array([1, 2], [False, True]), [1, None]),
            (datetime(2024, 1, 1, tzinfo=UTC), "2024-01-01T00:00:00Z"),
            ([date(2024, 1, 1), Colour.RED], ["2024-01-01", "red"]),
            ({"box": Box("cat", (1, 2))}, {"box": {"label": "cat", "corners": [1, 2]}}),
            ({"t": "cut \ud83d", "\udc00": Box("\ud83d", (1, 2))}, None),
            ({7}, [7]),
        ],
    )
    def test_the_same_objects_in_json_and_msgpack(self, result: object, expected: object) -> None:
        if expected is None and isinstance(result, dict):
            expected = {"t": "cut \ufffd", "\ufffd": {"label": "\ufffd", "corners": [1, 2]}}
        assert strict_json(encode_body(result, "")[0]) == expected
        assert msgpack.unpackb(encode_body(result, MSGPACK)[0]) == expected

    def test_what_json_lacks(self) -> None:
        odd = [math.nan, math.inf, -math.inf, 1.0]
        for result in (odd, np.array(odd), np.array(odd, np.float16), [np.float32(x) for x in odd]):
            assert strict_json(encode_body(result, "")[0]) == [None, None, None, 1.0]
            arrived = msgpack.unpackb(encode_body(result, MSGPACK)[0])
            assert math.isnan(arrived[0])
            assert arrived[1:] == [math.inf, -math.inf, 1.0]
        data = {b"k": [b"ab", memoryview(b"cd"), np.bytes_(b"ef")]}
        assert strict_json(encode_body(data, "")[0]) == {"aw==": ["YWI=", "Y2Q=", "ZWY="]}
        assert msgpack.unpackb(encode_body(data, MSGPACK)[0]) == {"aw==": [b"ab", b"cd", b"ef"]}
        assert strict_json(encode_body([2**70], "")[0]) == [2**70]
        long = np.array([np.finfo(np.longdouble).max, np.longdouble(0.5)])
        assert strict_json(encode_body(long, "")[0]) == [None, 0.5]

    @pytest.mark.parametrize("accept", ["", MSGPACK])
    @pytest.mark.parametrize(
        ("result", "message"),
        [
            ({"a": [0, object()]}, 'result["a"][1]: object cannot be written as JSON or msgpack'),
            ([1j], "result[0]: complex cannot"),
            ({"a": np.array([1j])}, 'result["a"]: numpy ndarray of dtype complex128 cannot'),
            ([np.complex64(1)], "result[0]: numpy complex64"),
            ([np.timedelta64(1, "s")], "(send it as numbers"),
            ([np.zeros(1, "f4,i4")], "(send one array for each field)"),
            ({"a": {(0, 1): "x"}}, 'result["a"].keys()[0]: tuple cannot'),
            ({"a": [{None: 0, object(): 1}]}, 'result["a"][0].keys()[1]: object cannot'),
            ([range(3)], "result[0]: range cannot"),
            ([np.zeros((2**40, 3, 0))], "(too many empty lists or texts)"),
            ([np.ndarray(2**40, "U0", b"")], "(too many empty lists or texts)"),
            ({"a": np.full(9, 0x110000, ">u4").view(">U9")}, "(it holds what is no character)"),
        ],
    )
    def test_refused_with_the_path(self, result: object, message: str, accept: str) -> None:
        with pytest.raises(CannotTravel) as caught:
            encode_body(result, accept)
        assert message in str(caught.value)

    def test_integers_that_msgpack_lacks(self) -> None:
        with pytest.raises(CannotTravel, match=r'result\["a"\]: int'):
            encode_body({"a": 2**64}, MSGPACK)

    @pytest.mark.parametrize("accept", ["", MSGPACK])
    def test_what_contains_itself(self, accept: str) -> None:
        ring: list[object] = []
        ring.append(ring)
        with pytest.raises(CannotTravel, match="contains itself"):
            encode_body(ring, accept)

    def test_tensors(self) -> None:
        torch = pytest.importorskip("torch", reason="torch is an optional extra")
        result = {
            "b": torch.tensor([1.5, 0.01], dtype=torch.bfloat16),
            "n": torch.tensor([math.nan], requires_grad=True),
            "i": torch.tensor(3),
            "e": torch.zeros(2, 0),
        }
        expected = {"b": [1.5, 0.010009765625], "n": [None], "i": 3, "e": [[], []]}
        assert strict_json(encode_body(result, "")[0]) == expected
        many = torch.zeros(2**40, 0)
        for refused in (torch.tensor([1j]), torch.empty(1, device="meta"), many):
            with pytest.raises(CannotTravel, match=r'result\["t"\]: (Tensor|array of shape)'):
                encode_body({"t": refused}, MSGPACK)
