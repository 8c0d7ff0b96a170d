"""A broker on tcp lets in who has the keys, and nobody else."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.system.deployment import Deployment

pytestmark = pytest.mark.system

ECHO = Path(__file__).parent / "plugins" / "echo.py"


@pytest.fixture(scope="module")
def mill() -> Iterator[Deployment]:
    """A deployment over tcp whose own processes have the keys."""
    address = f"tcp://127.0.0.1:{free_port()}"
    with Deployment(pipelines='[pipelines.echo]\nchain = ["echo"]\n', address=address) as mill:
        made = mill.run("keys", "keys")
        assert made.returncode == 0, made.stderr
        mill.broker("--keys", "keys")
        mill.worker(ECHO, "--keys", "keys")
        mill.gateway("--keys", "keys")
        mill.wait_ready()
        yield mill


def test_who_has_the_keys_is_served(mill: Deployment) -> None:
    with mill.client() as client:
        assert client.post("/pipelines/echo", b'"hello"').json() == "hello"
    status = mill.run("status", "--keys", "keys")
    assert status.returncode == 0, status.stderr
    assert "pipeline echo: ready" in status.stdout


def test_who_compares_for_a_shadow_has_keys_of_its_own(mill: Deployment) -> None:
    for version in ("2", "3"):
        worker = mill.worker(ECHO, "--version", version, "--keys", "keys")
        worker.wait_for_output("worker ready")
    changed = mill.run("traffic", "echo", "2=1", "--shadow", "3", "--keys", "keys")
    assert changed.returncode == 0, changed.stderr
    (broker,) = [role for role in mill.roles if role.name.startswith("broker")]
    broker.wait_for_output("comparer_joined")


def test_secret_keys_are_for_their_owner_alone(mill: Deployment) -> None:
    secrets = [path for path in (mill.folder / "keys").rglob("*") if "secret" in path.name]
    assert secrets
    assert {path.stat().st_mode & 0o777 for path in secrets} == {0o600}


def test_who_has_no_keys_or_others_is_not_let_in(mill: Deployment) -> None:
    stranger = mill.worker(ECHO)
    assert mill.run("keys", "others").returncode == 0
    with_others = mill.start("status", "--keys", "others")
    with_others.expected_exit = 2
    status = mill.run("status")
    assert status.returncode == 2
    assert status.stderr == (
        f"millstream: the broker at {mill.address} wants keys; give --keys DIR\n"
    )
    stranger.wait_for_output("waiting for the broker")
    listed = mill.run("status", "--keys", "keys")
    assert str(stranger.pid) not in listed.stdout.split()
    stranger.stop()
    with_others.check_exit()
    assert with_others.output.startswith("millstream: ")
    assert with_others.output.count("\n") == 1


def test_keys_are_never_overwritten(mill: Deployment) -> None:
    again = mill.run("keys", "keys")
    assert again.returncode == 2
    assert again.stderr.count("\n") == 1
    assert mill.run("status", "--keys", "keys").returncode == 0
