"""The soak: what is sent, what must be answered, and the verdict on memory."""

import os
import random
from pathlib import Path

import numpy as np
import pytest

from benchmarks import mixed, resident
from benchmarks.cases import soak
from benchmarks.cases.soak import Sample
from benchmarks.mixed import Job
from benchmarks.plugins.arrays import functions
from benchmarks.resident import Resident
from tests.ports import free_port

MIB = 1024 * 1024
STATUS = (
    "Name:\tpython\nVmRSS:\t  300 kB\nRssAnon:\t     100 kB\nRssFile:\t 150 kB\nRssShmem:\t 50 kB\n"
)


def sample(own_mib: float, shared_mib: float, in_shm_mib: float, role: str = "gateway") -> Sample:
    held = Resident(int(own_mib * MIB), int(shared_mib * MIB))
    return Sample(1000, {role: held}, int(in_shm_mib * MIB))


def test_the_same_chance_gives_the_same_jobs_of_all_kinds() -> None:
    first, second = (list(mixed.jobs(500, random.Random(1))) for _ in range(2))
    assert first == second
    assert {job.side for job in first} == {*mixed.SIDES, 0}
    sizes = [job.upload_bytes for job in first if not job.side]
    assert min(sizes) >= 200_000
    assert max(sizes) <= 2_000_000


def test_an_array_must_come_back_doubled() -> None:
    array = functions.transform(functions.make(1000, 224))
    said = {"sum": int(array.sum(dtype=np.float64)), "bytes": array.nbytes}
    assert Job(seed=1000, side=224).answer == said


def test_an_upload_must_come_back_whole() -> None:
    job = Job(seed=257, upload_bytes=1000)
    assert job.body == b"\1" * 1000
    assert job.answer == {"sum": 1000, "bytes": 1000}
    assert job.content_type == "image/png"


def test_the_last_jobs_are_the_smallest() -> None:
    assert [job.side for job in mixed.tiny(3)] == [8, 8, 8]


def test_a_server_that_is_gone_is_no_right_answer() -> None:
    with pytest.raises(mixed.WrongAnswer, match="ClientConnectorError"):
        mixed.send(f"http://127.0.0.1:{free_port()}/", mixed.tiny(1), clients=2)


def test_flat_within_a_tenth_is_fine() -> None:
    assert soak.verdict(sample(40, 10, 20), sample(44, 11, 22)) == ""


def test_every_growth_is_named() -> None:
    said = soak.verdict(sample(40, 10, 20), sample(46, 10, 24))
    assert said == ("gateway, own grew from 40.0 to 46.0 MiB; /dev/shm grew from 20.0 to 24.0 MiB")


def test_a_process_that_was_replaced_is_told() -> None:
    said = soak.verdict(sample(40, 0, 0), sample(40, 0, 0, role="worker-take, child 1"))
    assert said.startswith("processes came or went: gateway, own")


def test_resident_memory_is_read_without_mapped_files() -> None:
    assert resident.parse(STATUS) == Resident(own_bytes=102_400, shared_bytes=51_200)
    with pytest.raises(KeyError):
        resident.parse("Name:\tpython\n")


def test_holes_in_a_file_take_no_memory(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(100 * MIB)
    assert resident.allocated_bytes(tmp_path) < MIB


def test_the_folders_of_open_files_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident, "SHARED_MEMORY", tmp_path)
    folder = tmp_path / "millstream-0-abc"
    folder.mkdir()
    assert resident.shared_folders([os.getpid()]) == set()
    with (folder / "1.arena").open("wb"):
        assert resident.shared_folders([os.getpid()]) == {folder}
