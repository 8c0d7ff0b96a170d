"""Batches onto a device and back, and the turns of the buffers between.

What concerns CUDA runs only where there is a device.
"""

import asyncio
import threading
import warnings
from typing import Any

import numpy as np
import pytest
import torch

from workers.staging import Buffer, Staging, Turns

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
DEVICES = ["cpu", "cuda:0"] if torch.cuda.is_available() else ["cpu"]


def array(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray[Any, Any]:
    """As it arrives from a stage before: read-only."""
    values = np.asarray(np.random.default_rng(seed).random(shape) * 100, dtype)
    values.flags.writeable = False
    return values


@pytest.fixture(params=DEVICES)
def staging(request: pytest.FixtureRequest) -> Staging:
    return Staging(request.param)


def keep_busy() -> None:
    """The device computes nothing for about a second."""
    torch.cuda._sleep(2_000_000_000)  # type: ignore[no-untyped-call]  # as torch ships it


class TestToDevice:
    """One tensor of the whole batch, on the device, which nobody else has."""

    @pytest.mark.parametrize("shape", [(), (3,), (8, 8), (0, 4), (3, 224, 224)])
    @pytest.mark.parametrize("count", [1, 5])
    def test_arrays(self, staging: Staging, shape: tuple[int, ...], count: int) -> None:
        batch = [array(*shape, seed=number) for number in range(count)]
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # torch warns of read-only memory
            tensor = staging.to_device(batch)
        assert tensor.shape == (count, *shape)
        assert tensor.dtype == torch.float32
        assert tensor.is_contiguous()
        assert np.array_equal(tensor.cpu().numpy(), np.stack(batch))
        tensor += 1
        assert np.array_equal(batch[0], array(*shape))

    @pytest.mark.parametrize(
        "dtype", ["bool", "uint8", "int16", "int64", "uint32", "float16", "float64", "complex64"]
    )
    def test_every_dtype_that_both_have(self, staging: Staging, dtype: str) -> None:
        batch = [array(4, 2, dtype=dtype, seed=number) for number in range(3)]
        tensor = staging.to_device(batch)
        assert str(tensor.dtype) == f"torch.{dtype}"
        assert np.array_equal(tensor.cpu().numpy(), np.stack(batch))

    @pytest.mark.parametrize("side", [8, 1024])
    def test_layouts(self, staging: Staging, side: int) -> None:
        plain = array(side, side)
        batch = [plain, plain.T, plain[::-1], plain.astype(">f4"), np.asfortranarray(plain)]
        assert np.array_equal(staging.to_device(batch).cpu().numpy(), np.stack(batch))

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn])
    def test_tensors(self, staging: Staging, dtype: torch.dtype) -> None:
        batch = [torch.randn(4, 6).to(dtype) for _ in range(3)]
        batch[1] = batch[1].T.contiguous().T
        tensor = staging.to_device(batch)
        assert tensor.dtype == dtype
        assert torch.equal(tensor.cpu().view(torch.uint8), torch.stack(batch).view(torch.uint8))

    def test_tensors_beside_arrays_and_of_autograd(self, staging: Staging) -> None:
        batch = [torch.ones(2, requires_grad=True), np.zeros(2, np.float32)]
        tensor = staging.to_device(batch)
        assert tensor.tolist() == [[1, 1], [0, 0]]
        assert not tensor.requires_grad
        assert not staging.to_device(batch[:1]).requires_grad

    def test_lists_and_numbers(self, staging: Staging) -> None:
        assert staging.to_device([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
        assert staging.to_device([1.5, 2.5], torch.float32).dtype == torch.float32
        assert staging.to_device([np.float32(2)]).tolist() == [2]

    def test_conversion(self, staging: Staging) -> None:
        pixels = [array(3, 8, dtype="uint8", seed=number) for number in range(4)]
        for dtype in (torch.float32, torch.bfloat16, torch.int64):
            tensor = staging.to_device(pixels, dtype)
            assert tensor.dtype == dtype
            assert np.array_equal(tensor.float().cpu().numpy(), np.stack(pixels).astype("f4"))

    def test_in_and_out_of_inference_mode(self, staging: Staging) -> None:
        batch = [torch.ones(4)]
        for _ in range(4):
            with torch.inference_mode():
                assert staging.to_device(batch).sum().item() == 4
            assert staging.to_device(batch).sum().item() == 4

    def test_many_in_a_row_do_not_mix(self, staging: Staging) -> None:
        sizes = [1, 7, 3, 20, 2, 20, 1] * 6
        tensors = [
            staging.to_device([np.full((size, 50_000), number, np.float32)] * 2)
            for number, size in enumerate(sizes)
        ]
        for number, tensor in enumerate(tensors):
            assert tensor.eq(number).all().item()


class TestRefusals:
    """What cannot be stacked is named."""

    def test_an_empty_batch(self, staging: Staging) -> None:
        with pytest.raises(ValueError, match="empty batch"):
            staging.to_device([])

    def test_another_shape(self, staging: Staging) -> None:
        batch = [array(2, 3), array(2, 3), array(3, 2), array(1)]
        text = r"item 2 of the batch is of shape \(3, 2\) and dtype float32; expected \(2, 3\) and"
        with pytest.raises(ValueError, match=text):
            staging.to_device(batch)

    def test_a_shape_that_would_be_broadcast(self, staging: Staging) -> None:
        with pytest.raises(ValueError, match=r"item 1 .* \(1,\) .* expected \(3,\)"):
            staging.to_device([array(3), array(1)])

    @pytest.mark.parametrize("other", [np.zeros(2, np.float64), torch.zeros(2, dtype=torch.int32)])
    def test_another_dtype(self, staging: Staging, other: Any) -> None:
        with pytest.raises(ValueError, match=r"item 1 .* expected .* float32, as item 0 is"):
            staging.to_device([np.zeros(2, np.float32), other])

    @pytest.mark.parametrize("item", ["text", {"a": 1}, None, np.zeros(2, "M8[s]")])
    def test_what_torch_has_no_dtype_for(self, staging: Staging, item: Any) -> None:
        with pytest.raises(ValueError, match=r"item 0 of the batch is of dtype .*: torch has none"):
            staging.to_device([item])
        with pytest.raises(ValueError, match="item 1 of the batch is of"):
            staging.to_device([np.zeros(2, np.float32), item])


class TestFromDevice:
    """Results on the CPU, exactly as they were."""

    def test_whatever_lies_there(self, staging: Staging) -> None:
        device = staging.to_device([0]).device

        async def trip(tensor: torch.Tensor) -> torch.Tensor:
            return await staging.from_device(tensor)

        for tensor in (
            torch.randn(5, 3, requires_grad=True),
            torch.randn(4, 6).T,
            torch.empty(0, 2),
            torch.tensor(7),
            torch.randn(3).to(torch.bfloat16),
            torch.randn(3, dtype=torch.complex64).conj(),
        ):
            arrived = asyncio.run(trip(tensor.to(device)))
            assert arrived.device.type == "cpu"
            assert not arrived.requires_grad
            assert torch.equal(arrived, tensor)

    def test_several_at_once(self, staging: Staging) -> None:
        async def main() -> list[torch.Tensor]:
            tensors = [
                staging.to_device([np.full((1 + number, 30_000), number)]) for number in range(12)
            ]
            return await asyncio.gather(*(staging.from_device(tensor * 2) for tensor in tensors))

        for number, arrived in enumerate(asyncio.run(main())):
            assert arrived.eq(2 * number).all()
            assert not arrived.is_pinned()

    @CUDA
    def test_the_loop_goes_on_and_may_give_up(self) -> None:
        staging = Staging("cuda:0")

        async def main() -> None:
            values = staging.to_device([np.zeros((4, 1000), np.float32)])
            keep_busy()
            waiting = asyncio.create_task(staging.from_device(values + 1))
            await asyncio.sleep(0)
            assert not waiting.done()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            for number in range(4):
                arrived = await staging.from_device(values + number)
                assert arrived.eq(number).all()

        asyncio.run(main())


@CUDA
def test_a_copy_does_not_wait_for_what_is_computed() -> None:
    staging = Staging("cuda:0")
    batch = [np.ones((4, 1000), np.float32)]
    staging.to_device(batch)
    torch.cuda.synchronize()
    keep_busy()
    for _ in range(6):  # more than there are buffers
        tensor = staging.to_device(batch)
    assert not torch.cuda.current_stream().query()
    assert tensor.sum().item() == 4000


class Copy:
    """An event of a device that has a will of its own."""

    def __init__(self, error: Exception | None = None) -> None:
        self.waits = 0
        self._error = error

    def synchronize(self) -> None:
        self.waits += 1
        if self._error is not None:
            raise self._error


class TestTurns:
    """Nobody fills what the device still reads, and nobody waits who need not."""

    def test_the_second_does_not_wait_for_the_first(self) -> None:
        turns = Turns(bytearray)
        copies = [Copy(), Copy()]
        first = turns.take(10)
        turns.give(first, copies[0])
        second = turns.take(10)
        turns.give(second, copies[1])
        assert second is not first
        assert [copy.waits for copy in copies] == [0, 0]

    def test_the_third_waits_for_the_first_alone(self) -> None:
        turns = Turns(bytearray)
        copies = [Copy() for _ in range(5)]
        seen: list[Buffer[bytearray]] = []
        for copy in copies:
            seen.append(turns.take(10))
            turns.give(seen[-1], copy)
        assert seen[2] is seen[0]
        assert seen[3] is seen[1]
        assert [copy.waits for copy in copies] == [1, 1, 1, 0, 0]

    def test_as_many_as_are_taken_at_once(self) -> None:
        turns = Turns(bytearray)
        taken = [turns.take(10) for _ in range(5)]
        assert len({id(buffer) for buffer in taken}) == 5
        for buffer in taken:
            turns.give(buffer, Copy())
        again = [turns.take(10) for _ in range(5)]
        assert [id(buffer) for buffer in again] == [id(buffer) for buffer in taken]

    def test_they_grow_and_stay_grown(self) -> None:
        made: list[int] = []

        def make(size_bytes: int) -> bytearray:
            made.append(size_bytes)
            return bytearray(size_bytes)

        turns = Turns(make)
        for size_bytes in (0, 1, 100_000, 131_072, 131_072, 70_000, 131_073):
            buffer = turns.take(size_bytes)
            assert len(buffer.memory) == buffer.size_bytes >= size_bytes
            turns.give(buffer, Copy())
        assert made == [65_536, 65_536, 131_072, 131_072, 262_144]

    def test_a_buffer_that_is_too_small_is_waited_for_before_it_is_let_go(self) -> None:
        turns = Turns(bytearray)
        copies = [Copy(), Copy()]
        for copy in copies:
            turns.give(turns.take(10), copy)
        turns.take(1_000_000)
        assert copies[0].waits == 1

    def test_what_went_wrong_on_the_device_is_raised_once(self) -> None:
        turns = Turns(bytearray)
        turns.give(turns.take(10), Copy(RuntimeError("device-side assert")))
        turns.give(turns.take(10), Copy())
        with pytest.raises(RuntimeError, match="device-side assert"):
            turns.take(10)
        turns.give(turns.take(10), Copy())
        turns.take(10)
        turns.take(10)

    def test_threads_never_share_one(self) -> None:
        turns = Turns(bytearray)
        errors: list[str] = []

        def use(name: int) -> None:
            for _ in range(300):
                buffer = turns.take(10)
                buffer.memory[0] = name
                if buffer.memory[0] != name:
                    errors.append("shared")
                turns.give(buffer, Copy())

        threads = [threading.Thread(target=use, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert not errors
