"""The stock clients of gRPC, unmodified, and what only gRPC has."""

import asyncio
import queue
import struct
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import psutil  # type: ignore[import-untyped]  # it ships no types
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

from tests.oip.conftest import counted
from tests.oip.faces import Ask, In, Rpc, message_of
from tests.oip.plugins.tensors import DATATYPES
from tests.system.client import Client
from tests.system.deployment import Deployment, wait_until

pytestmark = pytest.mark.system

RAW = struct.pack("<4f", 1, 2, 3, 4)
PAIRS = Ask([In("x", "FP32", [2, 2], RAW)])


@pytest.fixture
def server(mill: Deployment, grpc_address: str) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(grpc_address) as server:
        yield server


@pytest.fixture
def rpc(mill: Deployment, grpc_address: str) -> Iterator[Rpc]:
    with Rpc(grpc_address) as rpc:
        yield rpc


def pairs(rows: int = 3) -> Any:
    tensor = triton.InferInput("x", [rows, 2], "FP32")
    tensor.set_data_from_numpy(np.arange(2 * rows, dtype=np.float32).reshape(-1, 2))
    return tensor


def scalar(name: str, value: float, datatype: str) -> Any:
    tensor = triton.InferInput(name, [1], datatype)
    tensor.set_data_from_numpy(np.array([value], triton_to_np_dtype(datatype)))
    return tensor


# ------------------------------------------------------------------ stock clients


def test_every_datatype(server: triton.InferenceServerClient) -> None:
    given, arrays = [], {}
    for name in DATATYPES:
        dtype = object if name == "BYTES" else triton_to_np_dtype(name)
        arrays[name] = np.array([[b"a", b""]] if name == "BYTES" else [[1, 0]], dtype)
        tensor = triton.InferInput(name, [1, 2], name)
        tensor.set_data_from_numpy(arrays[name])
        given.append(tensor)
    result = server.infer("all", given, compression_algorithm="gzip")
    for name, array in arrays.items():
        assert np.array_equal(result.as_numpy(name), array)


def test_large_tensors_and_shared_memory(
    mill: Deployment, server: triton.InferenceServerClient
) -> None:
    tensor = pairs(1 << 20)  # 8 MiB
    result = server.infer("pairs", [tensor])
    assert result.as_numpy("x").tobytes() == np.arange(1 << 21, dtype=np.float32).tobytes()

    def held() -> int:
        return sum(arena["slots"] for arena in mill.status()["arenas"])

    wait_until(lambda: held() == 0, 10.0, "no slot is held")


def test_asyncio(mill: Deployment, grpc_address: str) -> None:
    async def run() -> list[Any]:
        async with triton_aio.InferenceServerClient(grpc_address) as server:
            assert await server.is_server_ready()
            asked = [server.infer("pairs", [pairs()], request_id=str(n)) for n in range(32)]
            results = await asyncio.gather(*asked)
            return [result.get_response().id for result in results]

    assert asyncio.run(run()) == [str(n) for n in range(32)]


def test_documents(server: triton.InferenceServerClient, client: Client) -> None:
    assert server.is_server_live()
    assert server.is_server_ready()
    assert server.is_model_ready("sum", "1")
    assert not server.is_model_ready("sum", "2")
    assert not server.is_model_ready("no such")
    for as_rpc, path in (
        (server.get_server_metadata(as_json=True), "/v2"),
        (server.get_model_metadata("sum", as_json=True), "/v2/models/sum"),
    ):
        assert _numbers(as_rpc) == client.get(path).json()
    config = server.get_model_config("texts", as_json=True)["config"]
    assert config["input"] == [{"name": "text", "data_type": "TYPE_STRING", "dims": ["-1"]}]
    assert not server.get_model_config("texts").config.model_transaction_policy.decoupled
    assert server.get_model_config("count").config.model_transaction_policy.decoupled
    with pytest.raises(InferenceServerException, match="no version '7'"):
        server.get_inference_statistics("pairs", "7")
    with pytest.raises(InferenceServerException, match="none is loaded"):
        server.load_model("pairs")
    for call in (server.get_trace_settings, server.get_system_shared_memory_status):
        with pytest.raises(InferenceServerException, match=r"UNIMPLEMENTED.*no shared memory"):
            call()


def _numbers(document: Any) -> Any:
    """protobuf writes 64-bit numbers as text, and leaves out what is empty."""
    if isinstance(document, dict):
        return {name: _numbers(each) for name, each in document.items()}
    if isinstance(document, list):
        return [
            int(e) if isinstance(e, str) and e.lstrip("-").isdigit() and len(e) < 3 and e != "1"
            else _numbers(e)
            for e in document
        ]  # fmt: skip
    return document


def test_statistics_say_what_was_run(server: triton.InferenceServerClient) -> None:
    def stats() -> Any:
        return server.get_inference_statistics("texts", "1").model_stats[0]

    text = triton.InferInput("text", [1], "BYTES")
    text.set_data_from_numpy(np.array([b"a"], object))
    server.infer("texts", [text])
    before = stats()
    for _ in range(3):
        server.infer("texts", [text])
    after = stats()
    assert after.inference_count - before.inference_count == 3
    assert after.inference_stats.queue.count - before.inference_stats.queue.count == 3
    assert after.last_inference > before.last_inference > 1_600_000_000_000
    (ones,) = [each for each in after.batch_stats if each.batch_size == 1]
    assert ones.compute_infer.count == after.execution_count >= 4
    assert ones.compute_infer.ns > 0


# ------------------------------------------------------------------ what stock clients do not send


def contents(datatype: str, shape: list[int], **fields: Any) -> Any:
    message = service_pb2.ModelInferRequest(model_name="all")
    for name in DATATYPES:
        tensor = message.inputs.add(name=name, datatype=name, shape=[1, 1])
        if name == datatype:
            del tensor.shape[:]
            tensor.shape.extend(shape)
            for field, values in fields.items():
                getattr(tensor.contents, field).extend(values)
    return message


@pytest.mark.parametrize(
    ("datatype", "shape", "fields", "words"),
    [
        ("INT8", [1, 2], {"int_contents": [1, 200]}, "200 is beyond the range of INT8"),
        ("UINT8", [1, 1], {"uint_contents": [256]}, "256 is beyond the range of UINT8"),
        ("INT8", [1, 2], {"int_contents": [1]}, "expected 2 elements, got 1"),
        ("INT8", [1, 1], {"uint_contents": [1]}, "INT8 is in int_contents"),
        ("INT8", [1, 1], {"int_contents": [1], "bool_contents": [True]}, "has bool_contents"),
        ("INT8", [1, 1], {}, "neither contents nor raw_input_contents"),
    ],
)
def test_contents_that_are_wrong(
    rpc: Rpc, datatype: str, shape: list[int], fields: dict[str, Any], words: str
) -> None:
    message = contents(datatype, shape, **fields)
    kept = [each for each in message.inputs if each.name == datatype]
    del message.inputs[:]
    message.inputs.extend(kept)
    said = rpc.send(message)
    assert (said.code, words in said.text) == ("INVALID_ARGUMENT", True), said.text


def test_contents(rpc: Rpc) -> None:
    message = service_pb2.ModelInferRequest(model_name="pairs", id="c")
    tensor = message.inputs.add(name="x", datatype="FP32", shape=[2, 2])
    tensor.contents.fp32_contents.extend([1, 2, 3, 4])
    assert rpc.send(message).outputs == (("x", "FP32", (2, 2), RAW),)
    message.raw_input_contents.append(RAW)
    said = rpc.send(message)
    assert (said.code, "contents beside" in said.text) == ("INVALID_ARGUMENT", True)
    texts = service_pb2.ModelInferRequest(model_name="texts")
    tensor = texts.inputs.add(name="text", datatype="BYTES", shape=[2])
    tensor.contents.bytes_contents.extend([b"\xff", b""])
    (output,) = rpc.send(texts).outputs
    assert output[3] == b"\x01\0\0\0\xff\0\0\0\0"
    half = service_pb2.ModelInferRequest(model_name="all")
    half.inputs.add(name="FP16", datatype="FP16", shape=[1, 1]).contents.fp32_contents.append(1)
    said = rpc.send(half)
    assert (said.code, "must be raw" in said.text) == ("INVALID_ARGUMENT", True)


def test_raw_tensors_of_another_number(rpc: Rpc) -> None:
    message = message_of(PAIRS)
    message.raw_input_contents.append(b"")
    said = rpc.send(message)
    assert (said.code, "2 raw_input_contents for 1" in said.text) == ("INVALID_ARGUMENT", True)


BROKEN = (b"\xff", b"\x0a\x05ab", b"\x0a\x01\xff")
"""As any message."""
BROKEN_REQUESTS = (
    *BROKEN,
    b"\x3a\xff\xff\xff\xff\x0f",
    b"\x0b\x0c",
    b"\xff" * 11,
    b"\x2a\x00" * 20_000,
    b"\x2a\x02\x0a\x05",
)


@pytest.mark.parametrize(
    ("method", "body"),
    [
        *(("ModelInfer", body) for body in BROKEN_REQUESTS),
        *(("ModelMetadata", body) for body in BROKEN),
        *(("ModelStatistics", body) for body in BROKEN),
    ],
    ids=lambda given: repr(given)[:30],
)
def test_bytes_that_are_no_message(rpc: Rpc, method: str, body: bytes) -> None:
    call = rpc.channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
    with pytest.raises(grpc.RpcError) as caught:
        call(body, timeout=10)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details()


def test_messages_that_are_too_large(rpc: Rpc, client: Client) -> None:
    large = message_of(Ask([In("x", "FP32", [1 << 22, 2], bytes(1 << 25))]))
    for compression in (grpc.Compression.NoCompression, grpc.Compression.Gzip):
        said = rpc.send(large, compression=compression)
        assert said.code == "RESOURCE_EXHAUSTED", said
    assert rpc.ask(PAIRS).code == "OK"


def test_messages_that_are_refused_are_let_go_of(mill: Deployment, rpc: Rpc) -> None:
    large = message_of(Ask([In("x", "FP32", [1, 3], bytes(8 << 20))]))
    (gateway,) = [role for role in mill.roles if role.name == "gateway"]
    process = psutil.Process(gateway.pid)

    def held_bytes() -> int:
        said = process.memory_info()
        return int(said.rss - said.shared)

    before = held_bytes()
    for _ in range(40):  # 320 MiB
        assert rpc.send(large).code == "INVALID_ARGUMENT"
    wait_until(lambda: held_bytes() - before < 100 << 20, 20.0, "their memory is free again")


def test_metadata(rpc: Rpc) -> None:
    said = rpc.ask(Ask(PAIRS.inputs, headers={"x-api-key": "k", "x-priority": "high"}))
    assert said.code == "OK"
    with pytest.raises(grpc.RpcError) as caught:
        rpc.stub.ModelInfer(message_of(PAIRS), metadata=[("x-timeout-ms", "-1")])
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


# ------------------------------------------------------------------ streams


class Streamed:
    """A stream of the stock client, and what comes by it."""

    def __init__(self, server: triton.InferenceServerClient, **options: Any) -> None:
        self._came: queue.Queue[tuple[Any, Any]] = queue.Queue()
        self._server = server
        server.start_stream(lambda result, error: self._came.put((result, error)), **options)

    def next(self) -> tuple[Any, Any]:
        return self._came.get(timeout=10)

    def responses(self, count: int) -> list[Any]:
        found = []
        for _ in range(count):
            result, error = self.next()
            assert error is None, error
            found.append(result.get_response())
        return found


def numbers(responses: list[Any]) -> list[int]:
    return [struct.unpack("<i", each.raw_output_contents[0])[0] for each in responses]


def test_a_stream_of_values(server: triton.InferenceServerClient) -> None:
    stream = Streamed(server)
    server.async_stream_infer("count", [scalar("to", 5, "INT32")], request_id="five")
    came = stream.responses(5)
    assert numbers(came) == [1, 2, 3, 4, 5]
    assert {each.id for each in came} == {"five"}
    assert [output.name for output in came[0].outputs] == ["number", "square"]
    asked = [triton.InferRequestedOutput("square")]
    server.async_stream_infer(
        "count", [scalar("to", 2, "INT32")], outputs=asked, enable_empty_final_response=True
    )
    *values, last = stream.responses(3)
    assert [each.outputs[0].name for each in values] == ["square", "square"]
    assert [each.parameters["triton_final_response"].bool_param for each in values] == [False] * 2
    assert last.parameters["triton_final_response"].bool_param
    assert not last.outputs
    server.stop_stream()


def test_many_values_pass_while_others_do(server: triton.InferenceServerClient) -> None:
    stream = Streamed(server)
    server.async_stream_infer("pairs", [pairs(1)], request_id="before")
    for n in range(40):
        server.async_stream_infer("count", [scalar("to", 12, "INT32")], request_id=str(n))
    server.async_stream_infer("pairs", [pairs(1)], request_id="after")
    came = stream.responses(40 * 12 + 2)
    for n in range(40):
        assert numbers([each for each in came if each.id == str(n)]) == list(range(1, 13))
    assert [each.id for each in came if not each.id.isdigit()] == ["before", "after"]
    server.stop_stream()


def test_plain_answers_come_in_the_order_of_requests(server: triton.InferenceServerClient) -> None:
    stream = Streamed(server)
    server.async_stream_infer("slow", [scalar("seconds", 0.2, "FP32")], request_id="slow")
    for n in range(300):  # more than are open at once
        server.async_stream_infer("pairs", [pairs(1)], request_id=str(n))
    assert [each.id for each in stream.responses(301)] == ["slow", *map(str, range(300))]
    server.stop_stream()


def test_errors_leave_a_stream_open(server: triton.InferenceServerClient) -> None:
    stream = Streamed(server)
    server.async_stream_infer("nobody", [pairs()])
    server.async_stream_infer("pairs", [])
    server.async_stream_infer("count", [scalar("to", 20, "INT32")])
    for words in ("no pipeline 'nobody'", "'x' is missing"):
        _, error = stream.next()
        assert words in str(error)
    assert numbers(stream.responses(12)) == list(range(1, 13))
    _, error = stream.next()
    assert "the worker failed on this item" in str(error)
    server.async_stream_infer("pairs", [pairs()])
    assert stream.responses(1)
    server.stop_stream()


def test_an_error_may_end_a_stream(server: triton.InferenceServerClient) -> None:
    stream = Streamed(server, headers={"triton_grpc_error": "true"})
    server.async_stream_infer("nobody", [pairs()])
    _, error = stream.next()
    assert (error.status(), "nobody" in error.message()) == ("StatusCode.NOT_FOUND", True)
    server.stop_stream()


def test_garbage_on_a_stream_is_answered(rpc: Rpc) -> None:
    call = rpc.channel.stream_stream(
        "/inference.GRPCInferenceService/ModelStreamInfer",
        response_deserializer=service_pb2.ModelStreamInferResponse.FromString,
    )
    asked = [b"\xff", message_of(PAIRS).SerializeToString()]
    bad, good = call(iter(asked), timeout=10)
    assert "cut off" in bad.error_message
    assert good.infer_response.raw_output_contents == [RAW]


# ------------------------------------------------------------------ ends


def test_a_cancelled_call_is_cancelled_everywhere(
    mill: Deployment, rpc: Rpc, client: Client
) -> None:
    before = counted(client, "slow", 499)
    slow = message_of(Ask([In("seconds", "FP32", [1], struct.pack("<f", 1.0))], model="slow"))
    calls = [rpc.stub.ModelInfer.future(slow) for _ in range(20)]  # two batches and more
    wait_until(lambda: mill.status()["pipelines"]["slow"]["items"] == 20, 15.0, "all are admitted")
    for call in calls:
        call.cancel()
    wait_until(lambda: mill.status()["pipelines"]["slow"]["items"] == 0, 15.0, "all are gone")
    wait_until(lambda: counted(client, "slow", 499) == before + 20, 15.0, "all are counted")


def test_a_stream_that_is_cancelled_takes_its_requests_along(
    mill: Deployment, server: triton.InferenceServerClient
) -> None:
    Streamed(server)
    for _ in range(20):
        server.async_stream_infer("slow", [scalar("seconds", 0.3, "FP32")])
    wait_until(lambda: mill.status()["pipelines"]["slow"]["items"] > 0, 15.0, "some are admitted")
    server.stop_stream(cancel_requests=True)
    wait_until(lambda: mill.status()["pipelines"]["slow"]["items"] == 0, 15.0, "all are gone")


def test_deadlines(rpc: Rpc, client: Client) -> None:
    before = counted(client, "slow", 504)
    slow = message_of(Ask([In("seconds", "FP32", [1], struct.pack("<f", 0.3))], model="slow"))
    warm = rpc.send(slow)
    assert warm.code == "OK"
    blockers = [rpc.stub.ModelInfer.future(slow) for _ in range(8)]
    with pytest.raises(grpc.RpcError) as caught:
        rpc.stub.ModelInfer(slow, timeout=0.15)
    assert caught.value.code() in (
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNAVAILABLE,  # said at arrival
    )
    for blocker in blockers:
        blocker.result()
    if caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        wait_until(lambda: counted(client, "slow", 504) > before, 15.0, "it is counted as late")


# ------------------------------------------------------------------ health and reflection


def test_health(rpc: Rpc) -> None:
    health = health_pb2_grpc.HealthStub(rpc.channel)
    serving = health_pb2.HealthCheckResponse.SERVING
    for name in ("", "inference.GRPCInferenceService", "pairs"):
        assert health.Check(health_pb2.HealthCheckRequest(service=name)).status == serving
    with pytest.raises(grpc.RpcError) as caught:
        health.Check(health_pb2.HealthCheckRequest(service="nobody"))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    watch = health.Watch(health_pb2.HealthCheckRequest(service="nobody"))
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    watch.cancel()


def test_health_follows_the_workers(mill: Deployment, rpc: Rpc) -> None:
    health = health_pb2_grpc.HealthStub(rpc.channel)
    watch = health.Watch(health_pb2.HealthCheckRequest(service="texts"), timeout=30)
    response = health_pb2.HealthCheckResponse
    assert next(watch).status == response.SERVING
    (texts,) = [role for role in mill.roles if role.name == "worker-3"]
    texts.stop()
    assert next(watch).status == response.NOT_SERVING
    mill.roles.remove(texts)
    mill.worker(texts_script())
    assert next(watch).status == response.SERVING
    watch.cancel()


def texts_script() -> str:
    from tests.oip.conftest import PLUGINS  # noqa: PLC0415

    return f"{PLUGINS}:Texts"


def test_reflection(rpc: Rpc) -> None:
    database = ProtoReflectionDescriptorDatabase(rpc.channel)
    assert set(database.get_services()) == {
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
        "inference.GRPCInferenceService",
    }
    file = database.FindFileContainingSymbol("inference.GRPCInferenceService")
    assert file.package == "inference"
    assert {each.name for each in file.service[0].method} >= {"ModelInfer", "ModelStreamInfer"}


def test_threads_share_one_channel(rpc: Rpc) -> None:
    said: list[str] = []

    def ask() -> None:
        said.extend(rpc.ask(PAIRS).code for _ in range(20))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == ["OK"] * 160
