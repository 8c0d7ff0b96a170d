"""Who may use a folder of arenas, and what of it is left when its users have gone."""

import fcntl
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from broker.payload.arena import Arena
from broker.payload.folder import (
    ArenaError,
    ArenaFolder,
    default_limit_bytes,
    folder_name,
    shm_root,
)

NAME = folder_name("ipc:///run/test.sock")


def test_one_name_for_each_address_and_user() -> None:
    assert folder_name("ipc:///run/test.sock") == NAME
    assert folder_name("ipc:///run/other.sock") != NAME
    assert NAME.startswith(f"millstream-{os.getuid()}-")


def test_shared_memory_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MILLSTREAM_SHM", raising=False)
    assert shm_root() == Path("/dev/shm")
    about = os.statvfs("/dev/shm")
    assert default_limit_bytes() == min(about.f_blocks * about.f_frsize // 8, 1 << 30)
    monkeypatch.setenv("MILLSTREAM_SHM", "/nowhere/at/all")
    assert default_limit_bytes() == 0


def test_peers_that_read_the_token_join(folder: ArenaFolder) -> None:
    joined = ArenaFolder.join(folder.name, folder.token)
    assert joined is not None
    assert (joined.path, joined.token) == (folder.path, folder.token)
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert (folder.path / "token").stat().st_mode & 0o777 == 0o600
    assert os.listdir(folder.path) == ["token"]


def test_the_next_broker_keeps_the_token(folder: ArenaFolder) -> None:
    folder.close()
    again = ArenaFolder.make(folder.name)
    assert again.token == folder.token
    again.close()
    (folder.path / "token").write_text("half of i")
    renewed = ArenaFolder.make(folder.name)
    assert renewed.token != folder.token
    assert ArenaFolder.join(folder.name, folder.token) is None
    assert ArenaFolder.join(folder.name, renewed.token) is not None


def test_two_brokers_do_not_share_a_folder(folder: ArenaFolder) -> None:
    with pytest.raises(ArenaError, match="another broker"):
        ArenaFolder.make(folder.name)


def test_the_last_peer_cleans_up_where_no_broker_is_left(folder: ArenaFolder) -> None:
    peer, other = (ArenaFolder.join(folder.name, folder.token) for _ in range(2))
    assert peer is not None
    assert other is not None
    assert peer.has_broker()
    peer.leave()
    assert folder.path.exists(), "the broker sees to it"
    folder.close()
    assert not peer.has_broker()
    arena = Arena(other, 1 << 20)
    peer.leave()
    assert folder.arena_path(arena.id).exists(), "it is in use"
    arena.close()
    other.leave()
    assert not folder.path.exists()
    assert not other.has_broker()
    other.leave()


def test_another_host(folder: ArenaFolder, shm: Path) -> None:
    other_token = "0" * 32
    assert ArenaFolder.join(folder.name, other_token) is None
    assert ArenaFolder.join(folder_name("tcp://10.0.0.5:5570"), folder.token) is None
    (folder.path / "token").unlink()
    assert ArenaFolder.join(folder.name, folder.token) is None


@pytest.mark.parametrize(
    "name", ["", ".", "..", "/etc", "../x", NAME + "/..", NAME + "\n", "millstream-1-xyz", "a\0b"]
)
def test_names_from_the_network_lead_nowhere_else(folder: ArenaFolder, name: str) -> None:
    assert ArenaFolder.join(name, folder.token) is None
    with pytest.raises(ArenaError):
        ArenaFolder.make(name)


@pytest.mark.parametrize("token", ["", "../token", "x" * 32])
def test_no_token_is_no_token(folder: ArenaFolder, token: str) -> None:
    (folder.path / "token").write_text(token)
    assert ArenaFolder.join(folder.name, token) is None


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_folder_that_others_may_enter_is_refused(folder: ArenaFolder, mode: int) -> None:
    folder.path.chmod(mode)
    assert ArenaFolder.join(folder.name, folder.token) is None
    with pytest.raises(ArenaError, match="mode 0700"):
        ArenaFolder.make(folder.name)


def test_a_link_or_a_file_in_its_place_is_refused(folder: ArenaFolder, shm: Path) -> None:
    elsewhere = shm / "elsewhere"
    folder.path.rename(elsewhere)
    folder.path.symlink_to(elsewhere)
    assert ArenaFolder.join(folder.name, folder.token) is None
    with pytest.raises(ArenaError, match="not a folder"):
        ArenaFolder.make(folder.name)
    folder.path.unlink()
    folder.path.touch()
    with pytest.raises(ArenaError, match="not a folder"):
        ArenaFolder.make(folder.name)


def test_a_token_that_is_a_link_is_not_followed(folder: ArenaFolder, shm: Path) -> None:
    (shm / "real").write_text(folder.token)
    (folder.path / "token").unlink()
    (folder.path / "token").symlink_to(shm / "real")
    assert ArenaFolder.join(folder.name, folder.token) is None


def test_no_shared_memory_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLSTREAM_SHM", "/nowhere/at/all")
    with pytest.raises(ArenaError, match=r"no arenas in /nowhere.*: No such file"):
        ArenaFolder.make(NAME)
    assert ArenaFolder.join(NAME, "0" * 32) is None


def test_nothing_is_left_where_there_is_no_room_for_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLSTREAM_SHM", str(tmp_path))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(ArenaError, match="no arenas in"):
            ArenaFolder.make(NAME)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())


def test_the_living_are_not_removed(folder: ArenaFolder) -> None:
    arena = Arena(folder, 1 << 20)
    assert folder.arenas() == [arena.id]
    assert not folder.is_dead(arena.id)
    folder.remove(arena.id)
    assert folder.arena_path(arena.id).exists()
    arena.close(remove=False)
    assert folder.is_dead(arena.id)
    assert folder.arenas() == [arena.id]
    folder.remove(arena.id)
    assert folder.arenas() == []
    assert folder.is_dead(arena.id)
    folder.remove(arena.id)  # once more is no error


def test_what_is_no_arena_stays_out_of_it(folder: ArenaFolder) -> None:
    for name in ("x.arena", "0123.arena", "0123456789abcdef.arena.bak", "0123456789ABCDEF.arena"):
        (folder.path / name).touch()
    assert folder.arenas() == []


def test_files_that_never_became_arenas(folder: ArenaFolder) -> None:
    folder.unborn_path(1).touch()
    folder.unborn_path(2).touch()
    with open(folder.unborn_path(2)) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        folder.remove_unborn()
        assert folder.unborn_path(2).exists()
        assert not folder.unborn_path(1).exists()
        folder.leave()
        assert (folder.path / "token").exists()
    folder.leave()
    assert not folder.path.exists()


def test_leaving_removes_the_dead_and_spares_the_living(folder: ArenaFolder) -> None:
    living, dead = Arena(folder, 1 << 20), Arena(folder, 1 << 20)
    dead.close(remove=False)
    folder.leave()
    assert folder.arenas() == [living.id]
    assert ArenaFolder.join(folder.name, folder.token) is not None
    living.close()
    folder.leave()
    assert not folder.path.exists()
    folder.leave()  # once more is no error


def test_who_ends_while_another_one_leaves_is_seen_to(
    folder: ArenaFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finds the lock taken, as by a broker, and leaves its arena to whoever has it."""
    living = Arena(folder, 1 << 20)
    remove = ArenaFolder.remove

    def remove_too_early(self: ArenaFolder, id: int) -> None:
        remove(self, id)
        peer = ArenaFolder.join(folder.name, folder.token)
        assert peer is not None
        living.close(remove=not peer.has_broker())
        peer.leave()

    monkeypatch.setattr(ArenaFolder, "remove", remove_too_early)
    folder.leave()
    assert not folder.path.exists()


def test_a_foreign_file_is_left_alone(folder: ArenaFolder) -> None:
    (folder.path / "notes.txt").write_text("mine")
    folder.leave()
    assert (folder.path / "notes.txt").read_text() == "mine"


@pytest.mark.system
def test_an_owner_that_is_killed_is_dead(folder: ArenaFolder) -> None:
    code = (
        "import sys\n"
        "from broker.payload.arena import Arena\n"
        "from broker.payload.folder import ArenaFolder\n"
        "folder = ArenaFolder.join(*sys.argv[1:])\n"
        "arena = Arena(folder, 1 << 20)\n"
        "print(arena.id, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, folder.name, folder.token],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as owner:
        assert owner.stdout is not None
        id = int(owner.stdout.readline())
        assert folder.arenas() == [id]
        assert not folder.is_dead(id)
        owner.kill()
        owner.wait(timeout=10)
    assert folder.is_dead(id)
    folder.leave()
    assert not folder.path.exists()
