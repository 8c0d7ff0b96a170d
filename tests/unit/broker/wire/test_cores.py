"""How many cores a container may use."""

from pathlib import Path

import pytest

from broker.wire.cores import cgroup_quota, usable_cores
from workers.cores import threads_per_process


def write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_the_least_quota_on_the_way_up_counts(tmp_path: Path) -> None:
    write(tmp_path, "a/cpu.max", "200000 100000\n")
    write(tmp_path, "a/b/cpu.max", "max 100000\n")
    assert cgroup_quota(tmp_path, "0::/a/b\n") == 2.0


def test_inside_a_container_the_mount_itself_is_the_group(tmp_path: Path) -> None:
    write(tmp_path, "cpu.max", "150000 100000\n")
    assert cgroup_quota(tmp_path, "0::/../elsewhere\n") == 1.5


def test_version_1(tmp_path: Path) -> None:
    write(tmp_path, "cpu/x/cpu.cfs_quota_us", "300000")
    write(tmp_path, "cpu/x/cpu.cfs_period_us", "100000")
    assert cgroup_quota(tmp_path, "5:memory:/x\n4:cpu,cpuacct:/x\n") == 3.0
    write(tmp_path, "cpu/x/cpu.cfs_quota_us", "-1")
    assert cgroup_quota(tmp_path, "4:cpu,cpuacct:/x\n") is None


@pytest.mark.parametrize("text", ["", "rubbish", "1 0"])
def test_files_that_say_nothing(tmp_path: Path, text: str) -> None:
    write(tmp_path, "cpu.max", text)
    assert cgroup_quota(tmp_path, "0::/\n") is None


def test_at_least_one() -> None:
    assert usable_cores() >= 1
    assert threads_per_process(4, 3) == 1
    assert threads_per_process(2, 8) == 1
    assert threads_per_process(8, 2) == 4
