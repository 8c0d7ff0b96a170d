"""The tensors of a request as a payload, wherever its body lies."""

from pathlib import Path

import pytest

from broker.payload.arena import ARENA_BYTES
from broker.payload.folder import ArenaFolder
from broker.payload.tensor_bodies import TensorPart, unpack_tensors
from broker.wire.frames import Buffer, refs_of
from broker.wire.messages import Blob
from gateway.body import Body
from gateway.dialect import Input
from gateway.memory import Stored, UploadMemory
from gateway.uploads import ALIGNMENT, lead_bytes, tensor_payload
from tests.unit.gateway.uploads import joined, make_folder

HEAD = b"{ the JSON }"


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UploadMemory:
    folder: ArenaFolder = make_folder(tmp_path, monkeypatch)
    return joined(folder)


def raw(name: str, start: int, size_bytes: int) -> Input:
    return Input(name, "UINT8", [size_bytes], None, start, start + size_bytes)


def read(payload: bytes | Blob, memory: UploadMemory) -> list[TensorPart]:
    """What a worker would find."""
    if isinstance(payload, bytes):
        return unpack_tensors(payload)
    buffers: list[Buffer] = [memory.fetch(ref) for ref in refs_of(payload)]
    if not buffers:
        buffers = payload.buffers  # type: ignore[assignment]
    return unpack_tensors(payload.body, buffers)


def uploaded(memory: UploadMemory, body: bytes) -> bytes | Stored:
    """A body as it comes from a connection, in two pieces."""
    coming = Body(memory, len(body), lead_bytes(len(HEAD)))
    coming.add(body[: len(body) // 2])
    coming.add(body[len(body) // 2 :])
    return coming.finish()


def test_a_large_body_stays_where_it_is(memory: UploadMemory) -> None:
    values = bytes(range(256)) * (ARENA_BYTES // 256)
    body = HEAD + values + values[:100]
    stored = uploaded(memory, body)
    assert isinstance(stored, Stored)
    assert bytes(stored.memory) == body
    used = memory.used_bytes
    inputs = [raw("a", len(HEAD), len(values)), raw("b", len(HEAD) + len(values), 100)]
    payload = tensor_payload(inputs, stored.memory, stored, memory)
    one, two = refs_of(payload)
    assert one.start % ALIGNMENT == 0
    assert (one.generation, two.start) == (two.generation, one.start + len(values))
    assert [bytes(part.data or b"") for part in read(payload, memory)] == [values, values[:100]]
    assert memory.used_bytes == used
    memory.drop([one, two])
    assert memory.used_bytes == 0


def test_a_large_body_that_came_otherwise_goes_there(memory: UploadMemory) -> None:
    body = HEAD + b"x" * ARENA_BYTES
    payload = tensor_payload([raw("a", len(HEAD), ARENA_BYTES)], body, None, memory)
    (ref,) = refs_of(payload)
    assert ref.start == 0
    assert bytes(memory.fetch(ref)) == body[len(HEAD) :]


def test_each_of_many_is_aligned_there(memory: UploadMemory) -> None:
    body = HEAD + b"x" * ARENA_BYTES + b"..." + b"y" * 100
    inputs = [raw("a", len(HEAD), ARENA_BYTES - 1), raw("b", len(body) - 100, 100)]
    payload = tensor_payload(inputs, body, None, memory)
    one, two = refs_of(payload)
    assert (one.start % ALIGNMENT, two.start % ALIGNMENT) == (0, 0)
    assert [bytes(part.data or b"") for part in read(payload, memory)] == [
        b"x" * (ARENA_BYTES - 1),
        b"y" * 100,
    ]


def test_without_shared_memory_they_are_views() -> None:
    body = HEAD + b"x" * ARENA_BYTES
    payload = tensor_payload([raw("a", len(HEAD), ARENA_BYTES)], body, None, UploadMemory(0))
    assert isinstance(payload, Blob)
    (buffer,) = payload.buffers
    assert isinstance(buffer, memoryview)
    assert buffer.obj is body


def test_what_is_small_goes_inline_and_memory_is_given_back(memory: UploadMemory) -> None:
    body = b" " * ARENA_BYTES + b"ab"
    stored = memory.store(body)
    assert stored is not None
    payload = tensor_payload([raw("a", ARENA_BYTES, 2)], stored.memory, stored, memory)
    assert isinstance(payload, bytes)
    assert [part.data for part in read(payload, memory)] == [b"ab"]
    assert memory.used_bytes == 0


def test_json_beside_raw_values(memory: UploadMemory) -> None:
    body = HEAD + b"x" * ARENA_BYTES
    stored = memory.store(body)
    inputs = [raw("a", len(HEAD), ARENA_BYTES), Input("b", "UINT8", [1], b"b")]
    payload = tensor_payload(inputs, body, stored, memory)
    found = [bytes(part.data or b"") for part in read(payload, memory)]
    assert found == [body[len(HEAD) :], b"b"]
    assert memory.used_bytes == 0
