"""Values of the command line, taken apart."""

from pathlib import Path

import pytest

from millstream.cli.amounts import arena, sampling
from millstream.cli.errors import CommandError
from millstream.cli.values import Script, script


@pytest.mark.parametrize(
    ("text", "class_name"), [("a/b.py:Infer", "Infer"), ("a/b.py", ""), ("a:b/c.py", "")]
)
def test_scripts_may_name_a_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, class_name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = text.removesuffix(f":{class_name}") if class_name else text
    Path(path).parent.mkdir()
    Path(path).touch()
    assert script(text) == Script(path, class_name)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("0", 0), ("1MiB", 1 << 20), ("1048576", 1 << 20), ("512MiB", 512 << 20), ("2G", 2 << 30)],
)
def test_sizes_of_an_arena(text: str, size_bytes: int) -> None:
    assert arena(text) == size_bytes


@pytest.mark.parametrize(
    ("asked", "sampler", "arg", "found"),
    [
        (None, "", "", None),
        (0.25, "always_off", "", (0.25, True)),
        (None, "always_off", "", (0.0, False)),
        (None, "always_on", "", (1.0, False)),
        (None, "parentbased_always_off", "", (0.0, True)),
        (None, "parentbased_always_on", "", (1.0, True)),
        (None, "traceidratio", "0.01", (0.01, False)),
        (None, "traceidratio", "", (1.0, False)),
        (None, "parentbased_traceidratio", "", (1.0, True)),
    ],
)
def test_which_requests_are_traced(
    asked: float | None, sampler: str, arg: str, found: tuple[float, bool] | None
) -> None:
    environ = {"OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": arg}
    assert sampling(asked, environ) == found
    assert sampling(asked, environ | {"OTEL_SDK_DISABLED": "TRUE"}) is None


@pytest.mark.parametrize(
    ("sampler", "arg", "said"),
    [
        ("parentbased_", "", "always_on, always_off, traceidratio"),
        ("jaeger_remote", "", "always_on, always_off, traceidratio"),
        ("traceidratio", "2", "a number from 0 to 1, not '2'"),
    ],
)
def test_samplers_that_there_are_not(sampler: str, arg: str, said: str) -> None:
    with pytest.raises(CommandError, match=said):
        sampling(None, {"OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": arg})
