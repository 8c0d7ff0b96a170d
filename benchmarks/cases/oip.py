"""What the Open Inference Protocol costs beside the native upload of the same 602 KB.

Both do the same work; the pairs are measured in turn. gRPC has no load generator that is no
bottleneck here, so its figure is that of a client in Python, on the same cores.
"""

import asyncio
import json
import random
import statistics
import time
from pathlib import Path

from benchmarks import processes
from benchmarks.peers.server import Exchange, Server, Target, Workload

FOLDER = Path(__file__).resolve().parent.parent / "plugins" / "oip"
SHAPE = (3, 224, 224)
ELEMENTS = SHAPE[0] * SHAPE[1] * SHAPE[2]
IMAGE = bytes(4 * ELEMENTS)
LEAST = 0.85
"""Of the native rate: what the protocol must keep."""
JSON_BYTES = 1 << 20


def _binary_request() -> tuple[bytes, dict[str, str]]:
    tensor = {
        "name": "image",
        "shape": SHAPE,
        "datatype": "FP32",
        "parameters": {"binary_data_size": len(IMAGE)},
    }
    head = json.dumps({"inputs": [tensor]}).encode()
    headers = {
        "Content-Type": "application/octet-stream",
        "Inference-Header-Content-Length": str(len(head)),
    }
    return head + IMAGE, headers


def _workload(exchange: Exchange, variables: dict[str, str]) -> Workload:
    return Workload(
        title="602 KB",
        folder=FOLDER,
        pipeline="oip",
        chain=("bytes", "tensors"),
        classes={"bytes": "Bytes", "tensors": "Tensors"},
        exchanges={"millstream": exchange},
        variables=variables,
    )


def run(millstream: Server, *, clients: int, rounds: int, seconds: int) -> str:
    """Print the figures; the fault that they have, or ""."""
    native = Exchange(
        "/pipelines/bytes", IMAGE, "0.0", {"Content-Type": "application/octet-stream"}
    )
    body, headers = _binary_request()
    rest = Exchange("/v2/models/tensors/infer", body, '"data":[0.0]', headers)
    port = processes.free_port()
    with (
        millstream.deploy(_workload(native, {})) as of_native,
        millstream.deploy(_workload(rest, {"MILLSTREAM_GRPC_PORT": str(port)})) as of_rest,
    ):
        shares = []
        for _ in range(rounds):
            rates = [_rate(target, clients, seconds) for target in (of_native, of_rest)]
            if min(rates) == 0.0:
                return "a measurement failed"
            shares.append(rates[1] / rates[0])
            print(f"native {rates[0]:7.0f}/s   REST {rates[1]:7.0f}/s   {shares[-1]:.2f}")
        grpc_rate = asyncio.run(_grpc_rate(port, clients, seconds))
        print(f"gRPC, with a client in Python: {grpc_rate:.0f}/s")
    print(f"JSON of {JSON_BYTES / 1e6:.2f} MB to tensors: {_json_ms():.1f} ms")
    share = statistics.median(shares)
    print(f"REST keeps {share:.2f} of the native rate at {clients} clients")
    return "" if share >= LEAST else f"that is less than {LEAST}"


def _rate(target: Target, clients: int, seconds: int) -> float:
    measured = target.load(clients=clients, seconds=seconds)
    if measured.fault:
        print(measured.fault)
        return 0.0
    return measured.requests_per_s


async def _grpc_rate(port: int, clients: int, seconds: int) -> float:
    import grpc  # noqa: PLC0415  an extra

    from gateway.rpc import messages  # noqa: PLC0415

    request = messages.ModelInferRequest(model_name="tensors", raw_input_contents=[IMAGE])
    request.inputs.add(name="image", datatype="FP32", shape=SHAPE)
    body = request.SerializeToString()
    done = 0
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        infer = channel.unary_unary(f"/{messages.SERVICE}/ModelInfer")
        end = time.monotonic() + seconds

        async def ask() -> None:
            nonlocal done
            while time.monotonic() < end:
                await infer(body)
                done += 1

        await asyncio.gather(*(ask() for _ in range(clients)))
    return done / seconds


def _json_ms() -> float:
    """How long the gateway takes to make tensors of JSON that is so large."""
    from broker.payload.signature import Declared, TensorSpec  # noqa: PLC0415
    from gateway.oip.requests import read_request  # noqa: PLC0415

    chance = random.Random(1)
    values: list[float] = []
    text = b""
    while len(text) < JSON_BYTES:
        values += [chance.gauss(0.0, 1.0) for _ in range(5000)]
        tensor = {"name": "x", "datatype": "FP32", "shape": [len(values)], "data": values}
        text = json.dumps({"inputs": [tensor]}).encode()
    declared = Declared([TensorSpec("x", "FP32", (-1,))])
    times = []
    for _ in range(9):
        begun = time.perf_counter()
        read_request(text, (), declared, declared)
        times.append(time.perf_counter() - begun)
    return 1e3 * statistics.median(times)
