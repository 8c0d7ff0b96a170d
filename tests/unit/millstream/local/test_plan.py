"""From what a script says to what is started."""

from typing import Any

import pytest

from broker.config import load_pipelines
from millstream import Pipeline, Worker, stage
from millstream.local.changes import changes
from millstream.local.declare import pipelines_of, script_name
from millstream.local.mistakes import Mistake, Place
from millstream.local.plan import Plan, make_plan

PLACE = Place(__file__, 7)


class Pre(Worker):
    def forward(self, batch: list[Any]) -> list[Any]:
        return batch


class Infer(Pre):
    stage = "infer.big"


class Again(Pre):
    stage = "pre"


@stage(max_batch_size=4)
def post(batch: list[Any]) -> list[Any]:
    return batch


def plan(*served: Any, environ: dict[str, str] | None = None, **options: Any) -> Plan:
    return make_plan(pipelines_of(served, PLACE), options, environ or {}, PLACE)


def workers(made: Plan) -> dict[str, list[str]]:
    return {role.name: role.arguments("P") for role in made.stages}


def test_a_list_is_a_pipeline_that_is_called_like_its_script() -> None:
    made = plan([Pre, Infer.replicas(2, device="cpu"), post])
    assert made.chains == {"test_plan": ["pre", "infer.big", "post"]}
    assert [role.name for role in made.roles] == ["gateway", "broker", "pre", "infer-big", "post"]
    assert workers(made)["infer-big"] == [
        *("worker", f"{__file__}:Infer", "--stage", "infer.big"),
        *("--processes", "2", "--device", "cpu"),
    ]
    assert (made.host, made.port, made.broker) == ("127.0.0.1", 8000, "")


def test_a_decorated_function_is_still_a_function() -> None:
    assert post([1, 2]) == [1, 2]
    assert post.worker.max_batch_size == 4
    assert post.worker().forward([3]) == [3]


def test_stages_are_shared_where_they_are_the_same() -> None:
    shared = plan({"a": [Pre.replicas(3), post], "b": [Pre, Infer]})
    assert list(workers(shared)) == ["pre", "post", "infer-big"]
    assert "--pipeline" not in workers(shared)["pre"]
    apart = plan({"a": [Pre.replicas(3)], "b": [Pre.replicas(2)], "c": [Again]})
    assert list(workers(apart)) == ["a-pre", "b-pre", "c-pre"]
    assert [role.pipeline for role in apart.stages] == ["a", "b", "c"]
    assert [role.attribute for role in apart.stages] == ["Pre", "Pre", "Again"]


def test_one_class_may_be_two_stages() -> None:
    made = plan([Pre, Pre.replicas(stage="gateway")])
    assert list(workers(made)) == ["pre", "worker-gateway"]


def test_a_pipeline_file_comes_of_it(tmp_path: Any) -> None:
    made = plan(
        Pipeline(
            "x.y",
            (Pre, post),
            timeout_s=2,
            headers=("X-User",),
            guard={},
            shadow={"compare": "top1", "key": 'a"b'},
            stages={"pre": {"max_wait_ms": 1.5}},
        ),
        Pipeline("z", [post]),
    )
    file = tmp_path / "p.toml"
    file.write_text(made.pipelines)
    loaded = load_pipelines([file])
    assert list(loaded) == ["x.y", "z"]
    assert loaded["x.y"].headers == ("x-user",)
    assert loaded["x.y"].guard is not None
    assert loaded["x.y"].shadow.key == 'a"b'
    assert loaded["x.y"].stages["pre"].max_wait_ms == 1.5


def test_the_environment_goes_before_the_script() -> None:
    made = plan([post], port=1, host="0.0.0.0", environ={"MILLSTREAM_PORT": "2"})
    assert made.port == 2
    assert made.roles[0].arguments("P") == ["gateway", "--host", "0.0.0.0"]
    with pytest.raises(Mistake, match="port must be a number, not 'x'"):
        plan([post], environ={"MILLSTREAM_PORT": "x"})


def test_options_go_to_whom_they_concern() -> None:
    made = plan(
        [post], access_log=True, cors_origin=["a://b", "c://d"], metrics_port=9, insecure=False,
        admin_token="x" * 20, log_level="debug", keys="/k", state="none",
    )  # fmt: skip
    gateway, broker, worker = (role.arguments("P") for role in made.roles)
    everybody = ["--keys", "/k", "--log-level", "debug"]
    assert gateway == [
        *("gateway", "--cors-origin", "a://b", "--cors-origin", "c://d", "--access-log"),
        *everybody,
    ]
    assert broker == ["broker", "P", "--metrics-port", "9", "--state", "none", *everybody]
    assert worker[2:] == ["--stage", "post", *everybody]
    assert made.roles[0].env == {"MILLSTREAM_ADMIN_TOKEN": "x" * 20}


@pytest.mark.parametrize(
    ("served", "options", "message"),
    [
        ((), {}, "nothing is to be served"),
        (([Pipeline("a", [post]), Pre],), {}, "of stages or of pipelines, not of both"),
        ((Pipeline("a", [post]), Pipeline("a", [Pre])), {}, "two pipelines 'a'"),
        ((Pipeline("a b", [post]),), {}, "a pipeline's name is 1 to 64"),
        ((Pipeline("a", "post"),), {}, "must be a list of stages"),  # type: ignore[arg-type]
        (([Pre.replicas(stage="a b")],), {}, "a stage's name is 1 to 64"),
        (([Worker],), {}, "define forward"),
        (([post],), {"port": "8000"}, "port = '8000' will not do"),
        (([post],), {"hots": "x"}, "no option 'hots'; did you mean host"),
        ((3,), {}, "neither a list of stages nor a Pipeline"),
    ],
)
def test_mistakes(served: tuple[Any, ...], options: dict[str, Any], message: str) -> None:
    with pytest.raises(Mistake, match=message) as caught:
        plan(*served, **options)
    assert "\n" not in str(caught.value)


def test_replicas_are_checked_where_they_are_said() -> None:
    for wrong in ({"processes": 0}, {"device": 3}, {"max_age": "long"}, {"version": ""}):
        with pytest.raises(TypeError, match=r"Pre\.replicas"):
            Pre.replicas(**wrong)
    with pytest.raises(TypeError, match="belongs above a function"):
        stage("x")(Pre)


def test_names_of_scripts() -> None:
    assert script_name("/a/my app.v2.py") == "my-app.v2"
    assert script_name("/a/&.py") == "app"


# ------------------------------------------------------------------ from one plan to the next


def test_what_another_plan_means() -> None:
    old = plan([Pre, post])
    assert changes(old, old, ()).are_none
    assert [role.name for role in changes(old, old, {"post"}).replaced] == ["post"]
    new = changes(old, plan([Pre.replicas(2), Infer]), ())
    assert [role.name for role in new.replaced] == ["pre"]
    assert [role.name for role in new.added] == ["infer-big"]
    assert new.removed == ["post"]
    assert new.broker is not None
    assert new.gateway is None
    other = changes(old, plan([Pre, post], port=9), ())
    assert (other.broker, other.replaced) == (None, [])
    assert other.gateway is not None
