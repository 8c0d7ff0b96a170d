"""The environment of a worker process, and how an exit is put into words."""

import pytest

from workers.devices import Device
from workers.heap import MALLOC_TUNABLES
from workers.process import describe_exit, environment


def test_memory_of_freed_arrays_is_kept_for_the_next_batch() -> None:
    env = environment({"HOME": "/root"}, Device("cpu", None), "2")
    assert env["GLIBC_TUNABLES"] == MALLOC_TUNABLES
    assert (env["HOME"], env["OMP_NUM_THREADS"]) == ("/root", "2")


def test_threads_of_numpy_sleep_between_batches() -> None:
    variable = "OPENBLAS_THREAD_TIMEOUT"
    assert environment({}, Device("cpu", None), "2")[variable] == "16"
    assert environment({variable: "26"}, Device("cpu", None), "2")[variable] == "26"


@pytest.mark.parametrize("own", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES"])
def test_who_has_tuned_malloc_is_left_alone(own: str) -> None:
    env = environment({own: "7"}, Device("cpu", None), "2")
    assert env[own] == "7"
    assert MALLOC_TUNABLES not in env.values()


def test_a_worker_sees_its_own_device_only() -> None:
    env = environment({"CUDA_VISIBLE_DEVICES": "0,1"}, Device("cuda:0", "1"), "2")
    assert env["CUDA_VISIBLE_DEVICES"] == "1"


def test_exits_in_words() -> None:
    assert describe_exit(3) == "exit code 3"
    assert describe_exit(-9) == "signal 9 (SIGKILL)"
    assert describe_exit(-99) == "signal 99"
