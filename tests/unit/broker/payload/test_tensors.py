"""Tensors are written once, and read into memory of their own, bit for bit."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from broker.payload.errors import BadPayload

torch = pytest.importorskip("torch", reason="torch is an optional extra")
tensors = pytest.importorskip("broker.payload.tensors")

SPILL_BYTES = 64
DTYPES = [
    *("bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("complex32", "uint4", "float4_e2m1fn_x2"),
]
SHAPES: dict[str, Callable[[Any], Any]] = {
    "in a row": lambda tensor: tensor,
    "turned": lambda tensor: tensor.T,
    "with gaps": lambda tensor: tensor[:, ::2],
    "one value, again and again": lambda tensor: tensor[:1, :1].expand(12, 24),
    "cut": lambda tensor: tensor[1:-1, 3:-3],
    "of no axes": lambda tensor: tensor[3, 5],
}


def bits(dtype: str) -> Any:
    """(12, 24) of every bit pattern, those of NaN included, as its bytes are 0 to 255."""
    kind = getattr(torch, dtype)
    if kind is torch.bool:
        return torch.arange(288).reshape(12, 24) % 3 == 0
    values = torch.arange(288 * kind.itemsize) % 256
    return values.to(torch.uint8).view(kind).reshape(12, 24)


def bytes_of(tensor: Any) -> bytes:
    """Row by row, the slow way."""
    words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}
    flat = tensor.view(words[tensor.itemsize]).numpy()
    return b"".join(flat[place].tobytes() for place in np.ndindex(*tensor.shape))


def written(data: Any) -> bytes:
    """The bytes, wherever they are; both ways where there are two."""
    if isinstance(data, bytes | memoryview):
        return bytes(data)
    memory = memoryview(bytearray(data.nbytes))
    data.write_to(memory)
    assert data.tobytes() == memory
    return bytes(memory)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cut", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("spill_bytes", [SPILL_BYTES, 1 << 20])
def test_every_bit_of_every_dtype_in_every_layout(
    dtype: str, cut: Callable[[Any], Any], spill_bytes: int
) -> None:
    tensor = cut(bits(dtype))
    header, data = tensors.write_tensor(tensor, spill_bytes)
    assert written(data) == bytes_of(tensor)
    arrived = tensors.read_tensor(header, written(data))
    assert (arrived.dtype, arrived.shape) == (tensor.dtype, tensor.shape)
    assert arrived.is_contiguous()
    assert bytes_of(arrived) == bytes_of(tensor)


def test_what_lies_in_a_row_is_looked_at() -> None:
    tensor = torch.zeros(100)
    _, data = tensors.write_tensor(tensor, SPILL_BYTES)
    assert isinstance(data, memoryview)
    tensor += 1
    assert np.frombuffer(data, np.float32).tolist() == [1] * 100


def test_what_does_not_is_written_later() -> None:
    tensor = torch.zeros(10, 20).T
    _, data = tensors.write_tensor(tensor, SPILL_BYTES)
    assert not isinstance(data, bytes | memoryview)
    assert data.nbytes == 800
    tensor += 1
    assert np.frombuffer(written(data), np.float32).tolist() == [1] * 200


def test_lazy_conjugates_and_negatives() -> None:
    numbers = torch.randn(40, dtype=torch.complex64)
    for lazy in (numbers.conj(), numbers.conj().imag, numbers.conj()[::2]):
        assert lazy.is_conj() or lazy.is_neg()
        header, data = tensors.write_tensor(lazy, SPILL_BYTES)
        arrived = tensors.read_tensor(header, written(data))
        assert torch.equal(arrived, lazy)
        assert not arrived.is_conj()
        assert not arrived.is_neg()


@pytest.mark.parametrize("make", [lambda: torch.ones(30), lambda: torch.ones(30, 2).T])
def test_gradients_stay_at_home(make: Callable[[], Any]) -> None:
    tensor = make().requires_grad_()
    header, data = tensors.write_tensor(tensor, SPILL_BYTES)
    assert not tensors.read_tensor(header, written(data)).requires_grad


def test_in_inference_mode_as_well() -> None:
    with torch.inference_mode():
        tensor = torch.ones(30, 2).T
    header, data = tensors.write_tensor(tensor, SPILL_BYTES)
    assert tensors.read_tensor(header, written(data)).sum() == 60


@pytest.mark.parametrize("size", [1, 100, tensors.PARALLEL_BYTES // 4, tensors.PARALLEL_BYTES])
@pytest.mark.parametrize("threads", [1, 2])
def test_what_arrives_is_fresh(size: int, threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        sent = np.arange(size, dtype=np.float32)
        sent.flags.writeable = False
        header, _ = tensors.write_tensor(torch.zeros(size), SPILL_BYTES)
        arrived = tensors.read_tensor(header, sent.view(np.uint8).data)
        assert np.array_equal(arrived.numpy(), sent)
        arrived += 1
        assert sent[0] == 0
        seen = weakref.ref(sent)
        del sent
        gc.collect()
        assert seen() is None, "the memory that it came in is let go of"
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["qint8", "quint8", "qint32", "quint4x2", "quint2x4", "Tensor"])
def test_dtypes_that_are_never_sent(name: str) -> None:
    header = tensors.header_bytes(name, (8,), False)
    with pytest.raises(BadPayload, match=name):
        tensors.read_tensor(header, bytes(8))


def test_a_size_that_is_another() -> None:
    header, data = tensors.write_tensor(torch.zeros(3), SPILL_BYTES)
    with pytest.raises(BadPayload, match="12 bytes came with 8"):
        tensors.read_tensor(header, data[:8])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_from_a_device() -> None:
    for dtype in ("float32", "bfloat16", "complex64", "float8_e4m3fn"):
        for cut in SHAPES.values():
            header, data = tensors.write_tensor(cut(bits(dtype).to("cuda")), SPILL_BYTES)
            assert bytes_of(tensors.read_tensor(header, written(data))) == bytes_of(
                cut(bits(dtype))
            )
