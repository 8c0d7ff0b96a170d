"""Pipeline files: what they become, and the one line that each mistake in them is told in."""

import os
from pathlib import Path

import msgspec
import pytest

from broker import config
from broker.config import ConfigError, load_pipelines
from broker.core.config import (
    GuardConfig,
    MosecConfig,
    PipelineConfig,
    ShadowConfig,
    StageConfig,
)

DIGITS = """
[pipelines.digits]
chain = ["preprocess", "infer", "postprocess"]
timeout_s = 2
max_items = 10
max_bytes = 1_000
attempts = 2
absent_s = 0
headers = ["X-User", "x-user", "Accept-Language"]
routes = ["/inference", "/v1/digits"]

[pipelines.digits.guard]
min_requests = 20
latency_ratio = 2

[pipelines.digits.mosec]
namespace = "mine"
streams = true
openapi = "{}"

[pipelines.digits.stages.infer]
max_batch_size = 32
max_wait_ms = 1.5
max_queue_items = 256
forward_timeout_s = 3
setup_timeout_s = 60.0
"""


def write(folder: Path, text: str, name: str = "x.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def error_of(*paths: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_pipelines(paths)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_every_key_is_read(tmp_path: Path) -> None:
    loaded = load_pipelines([write(tmp_path, DIGITS)])
    assert loaded == {
        "digits": PipelineConfig(
            chain=("preprocess", "infer", "postprocess"),
            timeout_s=2.0,
            max_items=10,
            max_bytes=1000,
            attempts=2,
            absent_s=0.0,
            headers=("x-user", "accept-language"),
            routes=("/inference", "/v1/digits"),
            mosec=MosecConfig(namespace="mine", streams=True, openapi="{}"),
            guard=GuardConfig(min_requests=20, latency_ratio=2.0),
            stages={
                "infer": StageConfig(
                    max_batch_size=32,
                    max_wait_ms=1.5,
                    max_queue_items=256,
                    forward_timeout_s=3.0,
                    setup_timeout_s=60.0,
                )
            },
        )
    }
    assert type(loaded["digits"].timeout_s) is float


def test_every_key_has_a_rule() -> None:
    for struct, rules in (
        (PipelineConfig, config._PIPELINE_RULES),
        (StageConfig, config._STAGE_RULES),
        (GuardConfig, config._GUARD_RULES),
        (ShadowConfig, config._SHADOW_RULES),
        (MosecConfig, config._MOSEC_RULES),
    ):
        assert {field.name for field in msgspec.structs.fields(struct)} == set(rules)


def test_how_a_shadow_is_compared(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(
        '[pipelines.a]\nchain = ["x"]\n[pipelines.a.shadow]\ncompare = "top1"\nrtol = 1'
    )
    assert load_pipelines([path])["a"].shadow == ShadowConfig(compare="top1", rtol=1.0)
    path.write_text('[pipelines.a]\nchain = ["x"]\n[pipelines.a.shadow]\nrtoll = 1')
    with pytest.raises(ConfigError, match=r"\[pipelines.a.shadow\] rtoll: no such key"):
        load_pipelines([path])


def test_a_route_belongs_to_one_pipeline(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        '[pipelines.a]\nchain = ["x"]\nroutes = ["/r"]\n'
        '[pipelines.b]\nchain = ["x"]\nroutes = ["/r"]\n',
    )
    assert error_of(path) == f"{path}: [pipelines.b] routes: /r is a route of a already"


@pytest.mark.parametrize(
    "route", ["", "/", "inference", "/pipelines/a", "/metrics", "/admin/x", "/a?b", "/a b", "//a"]
)
def test_what_is_no_route(tmp_path: Path, route: str) -> None:
    path = write(tmp_path, f'[pipelines.a]\nchain = ["x"]\nroutes = ["{route}"]\n')
    assert "routes: must be a list of paths that are not a gateway's own" in error_of(path)


def test_defaults(tmp_path: Path) -> None:
    loaded = load_pipelines([write(tmp_path, '[pipelines.a]\nchain = ["infer"]\n')])
    assert loaded == {"a": PipelineConfig(chain=("infer",))}
    assert loaded["a"].stage("infer") == StageConfig()


def test_files_are_merged_in_order(tmp_path: Path) -> None:
    first = write(tmp_path, '[pipelines.b]\nchain = ["x"]\n', "first.toml")
    second = write(tmp_path, '[pipelines.a]\nchain = ["x"]\n', "second.toml")
    assert list(load_pipelines([first, str(second)])) == ["b", "a"]


def test_a_pipeline_twice(tmp_path: Path) -> None:
    first = write(tmp_path, DIGITS, "first.toml")
    second = write(tmp_path, DIGITS, "second.toml")
    assert error_of(first, second) == (
        f"{second}: [pipelines.digits]: this pipeline is already defined in {first}"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no pipeline; one begins with [pipelines.NAME]"),
        ("[pipelines]", "has no pipeline; one begins with [pipelines.NAME]"),
        ("pipelines = 3", "has no pipeline; one begins with [pipelines.NAME]"),
        ("[pipeline.digits]", "pipeline: no such key; did you mean pipelines?"),
        ('"a b" = 1', '"a b": no such key'),
        ("[pipelines.a]", "[pipelines.a]: chain is missing; it names the stages, first to last"),
        ("[pipelines]\na = 3", "[pipelines.a]: must be a table, not 3"),
        (
            '[pipelines."a/b"]\nchain = ["x"]',
            "[pipelines.a/b]: a pipeline's name is 1 to 64 of the characters "
            'A-Z a-z 0-9 _ . -, not "a/b"',
        ),
        (
            '[pipelines.a]\nchain = ["x", ".."]',
            "[pipelines.a] chain: a stage's name is 1 to 64 of the characters "
            'A-Z a-z 0-9 _ . -, not ".."',
        ),
        (
            '[pipelines.a]\nchain = ["x", "y", "x"]',
            "[pipelines.a] chain: the stage x is in it twice",
        ),
        (
            "[pipelines.a]\nchain = []",
            '[pipelines.a] chain: must be a list of stage names, such as ["preprocess", "infer"], '
            "not []",
        ),
        (
            '[pipelines.a]\nchain = "infer"',
            '[pipelines.a] chain: must be a list of stage names, such as ["preprocess", "infer"], '
            'not "infer"',
        ),
        (
            '[pipelines.a]\nchain = ["x"]\nheaders = ["x y"]',
            '[pipelines.a] headers: must be a list of header names, such as ["x-user"], '
            'not ["x y"]',
        ),
        (
            '[pipelines.a]\nchain = ["x"]\ntimeout = 3',
            "[pipelines.a] timeout: no such key; did you mean timeout_s?",
        ),
        (
            '[pipelines.a]\nchain = ["x"]\nqqq = 3',
            "[pipelines.a] qqq: no such key",
        ),
        (
            '[pipelines.a]\nchain = ["x"]\nmax_batch_size = 3',
            "[pipelines.a] max_batch_size: no such key; it belongs in "
            "[pipelines.NAME.stages.STAGE]",
        ),
        (
            '[pipelines.a]\nchain = ["x"]\nstages = 3',
            "[pipelines.a] stages: must be tables [pipelines.NAME.stages.STAGE], not 3",
        ),
        (
            '[pipelines.a]\nchain = ["x"]\nstages.x = 3',
            "[pipelines.a.stages.x]: must be a table, not 3",
        ),
        (
            '[pipelines.a]\nchain = ["x"]\nguard = true',
            "[pipelines.a] guard: must be a table [pipelines.NAME.guard], not true",
        ),
        (
            '[pipelines.a]\nchain = ["x"]\n[pipelines.a.guard]\nmin_request = 3',
            "[pipelines.a.guard] min_request: no such key; did you mean min_requests?",
        ),
        (
            '[pipelines.a]\nchain = ["x"]\n[pipelines.a.guard]\ntimeout_s = 3',
            "[pipelines.a.guard] timeout_s: no such key; it belongs in [pipelines.NAME]",
        ),
        (
            '[pipelines.a]\nchain = ["infer"]\n[pipelines.a.stages.infre]',
            "[pipelines.a.stages.infre]: the chain has no such stage; did you mean infer?",
        ),
        (
            '[pipelines.a]\nchain = ["infer"]\n[pipelines.a.stages.infer]\nmax_batchsize = 3',
            "[pipelines.a.stages.infer] max_batchsize: no such key; did you mean max_batch_size?",
        ),
        (
            '[pipelines.a]\nchain = ["infer"]\n[pipelines.a.stages.infer]\nmax_wait_s = 3',
            "[pipelines.a.stages.infer] max_wait_s: no such key; did you mean max_wait_ms?",
        ),
        (
            '[pipelines.a]\nchain = ["infer"]\n[pipelines.a.stages.infer]\nattempts = 3',
            "[pipelines.a.stages.infer] attempts: no such key; it belongs in [pipelines.NAME]",
        ),
    ],
)
def test_what_is_wrong_and_where(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    assert error_of(path) == f"{path}: {message}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("timeout_s = 0", "a number of seconds, more than 0 and at most 604800, not 0"),
        ("timeout_s = -1.5", "a number of seconds, more than 0 and at most 604800, not -1.5"),
        ('timeout_s = "1"', 'a number of seconds, more than 0 and at most 604800, not "1"'),
        ("timeout_s = true", "a number of seconds, more than 0 and at most 604800, not true"),
        ("timeout_s = inf", "a number of seconds, more than 0 and at most 604800, not Infinity"),
        ("timeout_s = nan", "a number of seconds, more than 0 and at most 604800, not NaN"),
        ("absent_s = -1", "a number of seconds, 0 or more and at most 604800, not -1"),
        ("shadow = 3", "a table [pipelines.NAME.shadow], not 3"),
        ('mosec.namespace = "a-b"', 'the beginning of a metric\'s name, not "a-b"'),
        ("mosec.streams = 1", "true or false, not 1"),
        ("mosec.openapi = {}", "JSON in a string, not a table"),
        (
            'shadow.compare = "close to"',
            'one of "exact", "close", "top1", "plugin", not "close to"',
        ),
        ("shadow.rtol = -1", "a number, 0 or more, not -1"),
        ("shadow.key = 1", "the name of a key of its answers, not 1"),
        ("max_items = 0", "a whole number, 1 or more, not 0"),
        ("max_items = 1.5", "a whole number, 1 or more, not 1.5"),
        ("max_items = true", "a whole number, 1 or more, not true"),
        ("max_bytes = -1", "a whole number of bytes, 1 or more, not -1"),
        ("attempts = 0", "a whole number, 1 or more, not 0"),
        ("attempts = 1979-05-27", 'a whole number, 1 or more, not "1979-05-27"'),
        ("attempts = {}", "a whole number, 1 or more, not a table"),
        ("guard.min_requests = 0", "a whole number, 1 or more, not 0"),
        ("guard.latency_ratio = 0.5", "a factor, 1 to 1000, not 0.5"),
        ("guard.error_margin = nan", "a share, 0 to 1, not NaN"),
        ("guard.false_alarms = 0", "a chance, 1e-09 to 0.5, not 0"),
        ("stages.x.max_batch_size = 0", "a whole number, 1 or more, not 0"),
        ("stages.x.max_queue_items = 0", "a whole number, 1 or more, not 0"),
        (
            "stages.x.max_wait_ms = -0.5",
            "a number of milliseconds, 0 or more and at most 604800000, not -0.5",
        ),
        (
            "stages.x.forward_timeout_s = 0",
            "a number of seconds, more than 0 and at most 604800, not 0",
        ),
        (
            "stages.x.setup_timeout_s = 1e9",
            "a number of seconds, more than 0 and at most 604800, not 1000000000.0",
        ),
    ],
)
def test_values_out_of_range(tmp_path: Path, line: str, message: str) -> None:
    path = write(tmp_path, f'[pipelines.a]\nchain = ["x"]\n{line}\n')
    key = line.partition(" =")[0].rpartition(".")[2]
    assert error_of(path).endswith(f" {key}: must be {message}")


def test_a_long_value_is_cut(tmp_path: Path) -> None:
    path = write(tmp_path, f'[pipelines.a]\nchain = "{"x" * 1000}"')
    assert len(error_of(path)) < 300


def test_no_toml(tmp_path: Path) -> None:
    path = write(tmp_path, "[pipelines.a]\nchain = [\n  nope\n]\n")
    assert error_of(path) == f"{path}: is not valid TOML: Invalid value (at line 3, column 3)"
    path.write_bytes(b"\xff\xfe")
    assert error_of(path) == f"{path}: is not UTF-8 text, so it is no TOML"
    path.write_text(f"a = {'[' * 5000}")
    assert error_of(path) == f"{path}: is not valid TOML: nested too deeply"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert error_of(tmp_path / "absent.toml") == f"{tmp_path}/absent.toml: no such file"
    near = write(tmp_path, DIGITS, "digits.toml")
    assert error_of(tmp_path / "digit.toml") == (
        f"{tmp_path}/digit.toml: no such file; did you mean {near}?"
    )
    assert error_of(tmp_path / "no" / "x.toml") == f"{tmp_path}/no/x.toml: no such file"
    assert error_of(tmp_path) == f"{tmp_path}: is a folder, not a pipeline file"
    assert error_of(near / "x.toml") == f"{near}/x.toml: cannot be read: Not a directory"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    path = write(tmp_path, DIGITS)
    path.chmod(0)
    assert error_of(path) == f"{path}: cannot be read: Permission denied"
