"""The stock client of Triton, unmodified, against pipelines that declare tensors."""

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

from tests.oip.plugins.tensors import DATATYPES
from tests.system.deployment import Deployment, wait_until

pytestmark = pytest.mark.system

SHAPES = ((1, 1), (3, 5), (0, 4), (200, 37))
BINARY_ONLY = ("FP16", "BF16")
"""What the client refuses to write as JSON."""


@pytest.fixture
def server(mill: Deployment) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(f"127.0.0.1:{mill.port}") as server:
        yield server


def values(datatype: str, shape: tuple[int, int]) -> Any:
    """An array of the datatype, its extremes included, the same at each call."""
    random = np.random.default_rng(len(datatype) + shape[0])
    if datatype == "BYTES":
        texts = [f"é {n}".encode() * (n % 3) for n in range(shape[0] * shape[1])]
        array = np.empty(len(texts), object)
        array[:] = texts
        return array.reshape(shape)
    dtype = np.dtype(triton_to_np_dtype(datatype))
    if datatype == "BOOL":
        return random.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return random.integers(info.min, info.max, shape, dtype, endpoint=True)
    return random.standard_normal(shape).astype(dtype)


def inputs(shape: tuple[int, int], *, binary: bool) -> dict[str, Any]:
    """All of the pipeline's inputs by name, as the client has them."""
    found = {}
    for name in DATATYPES:
        tensor = triton.InferInput(name, list(shape), name)
        as_binary = binary or name in BINARY_ONLY
        tensor.set_data_from_numpy(values(name, shape), binary_data=as_binary)
        found[name] = tensor
    return found


def assert_all_equal(result: Any, shape: tuple[int, int]) -> None:
    for name in DATATYPES:
        expected, got = values(name, shape), result.as_numpy(name)
        assert got.shape == expected.shape
        assert got.dtype == expected.dtype
        if name == "BYTES":  # from JSON they come as text
            got = [each if isinstance(each, bytes) else each.encode() for each in got.flat]
            assert got == list(expected.flat)
        else:
            assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
def test_every_datatype_comes_back(
    server: triton.InferenceServerClient, shape: tuple[int, int], binary: bool
) -> None:
    given = inputs(shape, binary=binary)
    outputs = [triton.InferRequestedOutput(name, binary_data=binary) for name in DATATYPES]
    result = server.infer("all", list(given.values()), outputs=outputs, request_id="one")
    assert_all_equal(result, shape)
    assert result.get_response()["id"] == "one"


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_without_outputs_and_compressed(
    server: triton.InferenceServerClient, encoding: str
) -> None:
    given = inputs((200, 37), binary=True)
    result = server.infer(
        "all",
        list(given.values()),
        request_compression_algorithm=encoding,
        response_compression_algorithm=encoding,
    )
    assert_all_equal(result, (200, 37))


def test_asyncio(mill: Deployment) -> None:
    async def run() -> list[Any]:
        async with triton_aio.InferenceServerClient(f"127.0.0.1:{mill.port}") as server:
            assert await server.is_server_ready()
            tensor = triton_aio.InferInput("x", [8192, 2], "FP32")
            tensor.set_data_from_numpy(np.arange(16384, dtype=np.float32).reshape(-1, 2))
            asked = [server.infer("pairs", [tensor]) for _ in range(8)]
            return [result.as_numpy("x") for result in await asyncio.gather(*asked)]

    for got in asyncio.run(run()):
        assert np.array_equal(got, np.arange(16384, dtype=np.float32).reshape(-1, 2))


def test_large_tensors(server: triton.InferenceServerClient) -> None:
    array = np.arange(1 << 21, dtype=np.float32).reshape(-1, 2)  # 8 MiB: through shared memory
    tensor = triton.InferInput("x", list(array.shape), "FP32")
    tensor.set_data_from_numpy(array)
    assert np.array_equal(server.infer("pairs", [tensor]).as_numpy("x"), array)


def test_shared_memory_is_given_back(
    mill: Deployment, server: triton.InferenceServerClient
) -> None:
    for _ in range(3):  # many tensors in one slot
        server.infer("all", list(inputs((200, 37), binary=True).values()))

    def held() -> int:
        return sum(arena["slots"] for arena in mill.status()["arenas"])

    wait_until(lambda: held() == 0, 10.0, "no slot is held")


def test_two_stages_and_one_bare_output(server: triton.InferenceServerClient) -> None:
    image = np.ones((3, 2, 2), np.float32)
    tensor = triton.InferInput("image", [3, 2, 2], "FP32")
    tensor.set_data_from_numpy(image)
    result = server.infer("sum", [tensor], priority=1, timeout=5_000_000)
    assert result.as_numpy("sum").tolist() == [4.0, 4.0, 4.0]


def test_a_result_that_is_not_as_declared(server: triton.InferenceServerClient) -> None:
    tensor = triton.InferInput("image", [1, 2, 2], "FP32")
    tensor.set_data_from_numpy(-np.ones((1, 2, 2), np.float32))
    with pytest.raises(InferenceServerException, match="the worker failed on this item"):
        server.infer("sum", [tensor])


def test_metadata(server: triton.InferenceServerClient) -> None:
    assert server.is_server_live()
    assert server.is_server_ready()
    assert server.is_model_ready("sum")
    assert server.is_model_ready("sum", "1")
    assert not server.is_model_ready("sum", "2")
    assert not server.is_model_ready("no such")
    assert "binary_tensor_data" in server.get_server_metadata()["extensions"]
    assert server.get_model_metadata("sum") == {
        "name": "sum",
        "versions": ["1"],
        "platform": "millstream",
        "inputs": [{"name": "image", "datatype": "FP32", "shape": [-1, 2, 2]}],
        "outputs": [{"name": "sum", "datatype": "FP64", "shape": [-1]}],
    }
    assert server.get_model_config("count")["model_transaction_policy"] == {"decoupled": True}
    config = server.get_model_config("texts")
    assert config["model_transaction_policy"] == {"decoupled": False}
    assert config["max_batch_size"] == 0
    assert config["input"] == [{"name": "text", "data_type": "TYPE_STRING", "dims": [-1]}]
    index = server.get_model_repository_index()
    assert {"name": "all", "version": "1", "state": "READY", "reason": ""} in index
    with pytest.raises(InferenceServerException, match="no model 'no such'"):
        server.get_model_metadata("no such")


def test_statistics(server: triton.InferenceServerClient) -> None:
    def stats(model: str) -> dict[str, Any]:
        (found,) = server.get_inference_statistics(model, "1")["model_stats"]
        return dict(found)

    before = stats("pairs")
    tensor = triton.InferInput("x", [1, 2], "FP32")
    tensor.set_data_from_numpy(np.zeros((1, 2), np.float32))
    for _ in range(5):
        server.infer("pairs", [tensor])
    after = stats("pairs")
    assert after["inference_count"] - before["inference_count"] == 5
    assert after["execution_count"] - before["execution_count"] == 5
    for name in ("success", "queue", "compute_infer"):
        now, then = after["inference_stats"][name], before["inference_stats"][name]
        assert now["count"] - then["count"] == 5
        assert now["ns"] >= then["ns"] + (name == "compute_infer")
    everything = server.get_inference_statistics()["model_stats"]
    assert [each["name"] for each in everything][:2] == ["all", "pairs"]
    with pytest.raises(InferenceServerException, match="no version '7'"):
        server.get_inference_statistics("pairs", "7")
