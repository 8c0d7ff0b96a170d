"""Encrypted deployments: the gateway speaks CURVE when it is given keys."""

import socket
from pathlib import Path

import zmq

from broker.wire.keys import KeyPair, load_broker_keys, write_keys
from tests.integration.gateway.conftest import StartGateway
from tests.integration.gateway.fake_broker import FakeBroker


def test_with_keys_it_gets_through_and_without_it_does_not(
    tmp_path: Path, start_gateway: StartGateway
) -> None:
    keys = tmp_path / "keys"
    write_keys(keys, broker=KeyPair(*zmq.curve_keypair()), client=KeyPair(*zmq.curve_keypair()))
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    with FakeBroker(address, secret=load_broker_keys(keys).secret) as broker:
        gateway = start_gateway(broker=address, keys=str(keys)).wait_until_ready()
        assert gateway.post(b"5").body == b"5"
        in_the_clear = start_gateway(broker=address)
        assert in_the_clear.post(headers={"X-Timeout-Ms": "200"}).code == "not_ready"
        assert len(broker.gateways) == 1
