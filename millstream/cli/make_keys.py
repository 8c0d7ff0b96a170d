"""`millstream keys DIR`: makes the keys of a deployment and says which host needs which."""

import sys

from broker.wire.keys import KeyPair, write_keys
from millstream.cli.errors import CommandError

_DONE = """\
Keys made in {folder}:
  on the broker's host   broker.public  broker.secret  clients/
  on every other host    broker.public  client.public  client.secret

  millstream broker PIPELINE.toml --broker tcp://0.0.0.0:5570 --keys {folder}
  millstream gateway --broker tcp://HOST:5570 --keys {folder}
  millstream worker SCRIPT.py --broker tcp://HOST:5570 --keys {folder}

Whose public key lies in clients/ may join. The .secret files are for no one else to read.
"""


def make_keys(folder: str) -> int:
    """Exit code 0. Raises KeysError where the folder has keys or cannot be written."""
    import zmq  # noqa: PLC0415  # the other commands' start does not wait for it

    if not zmq.has("curve"):
        raise CommandError("the ZeroMQ library here was built without CURVE, which keys need")
    broker, client = KeyPair(*zmq.curve_keypair()), KeyPair(*zmq.curve_keypair())
    write_keys(folder, broker=broker, client=client)
    sys.stdout.write(_DONE.format(folder=folder))
    return 0
