"""Deaths by the kernel's OOM killer, by the counts that it keeps."""

from pathlib import Path

from workers.oom_killer import OomKills, counter, kills

V2 = "low 0\nhigh 3\nmax 120\noom 2\noom_kill {}\noom_group_kill 0\n"
V1 = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_the_count_in_each_of_the_files() -> None:
    assert kills(V2.format(7)) == 7
    assert kills(V1.format(1)) == 1
    assert kills("nr_free_pages 5\noom_kill 12\ndrop_pagecache 0\n") == 12
    assert kills("oom_kill_disable 0\nunder_oom 0\n") is None  # Linux before 4.13
    assert kills(Path("/proc/vmstat").read_text()) is not None


def test_the_group_of_the_process_counts(tmp_path: Path) -> None:
    write(tmp_path / "memory.events", V2.format(9))
    own = write(tmp_path / "a/b/memory.events", V2.format(0))
    assert counter(tmp_path, "0::/a/b\n") == own


def test_version_1_beside_a_version_2_without_memory(tmp_path: Path) -> None:
    own = write(tmp_path / "memory/x/memory.oom_control", V1.format(0))
    assert counter(tmp_path, "9:name=systemd:/\n4:memory:/x\n0::/x\n") == own


def test_inside_a_container_the_mount_itself_is_the_group(tmp_path: Path) -> None:
    own = write(tmp_path / "memory.events", V2.format(0))
    assert counter(tmp_path, "0::/../elsewhere\n") == own


def test_without_cgroups_the_host_counts(tmp_path: Path) -> None:
    assert counter(tmp_path, "0::/\n") == Path("/proc/vmstat")
    assert counter(tmp_path, "") == Path("/proc/vmstat")


def test_each_kill_explains_one_death(tmp_path: Path) -> None:
    file = write(tmp_path / "memory.events", V2.format(5))
    oom_kills = OomKills(file)
    assert not oom_kills.explain()
    write(file, V2.format(7))
    assert [oom_kills.explain() for _ in range(3)] == [True, True, False]


def test_a_kill_of_before_explains_nothing(tmp_path: Path) -> None:
    file = write(tmp_path / "memory.events", V2.format(0))
    oom_kills = OomKills(file)
    write(file, V2.format(1))
    oom_kills.forget()
    assert not oom_kills.explain()


def test_a_file_that_has_gone_explains_nothing(tmp_path: Path) -> None:
    file = write(tmp_path / "memory.events", V2.format(3))
    oom_kills = OomKills(file)
    file.unlink()
    assert not oom_kills.explain()
