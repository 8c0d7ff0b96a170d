"""What is served, as these protocols say it, and whether it is ready."""

import pytest

from tests.system.client import Client
from tests.system.deployment import Deployment, wait_until
from tests.system.readme import ROOT

pytestmark = pytest.mark.system

GATED = ROOT / "tests" / "plugins" / "gated.py"
OK = {"error_code": "OK", "error_message": ""}
AVAILABLE = {"version": "1", "state": "AVAILABLE", "status": OK}


def test_state(client: Client) -> None:
    assert client.get("/").json() == {"status": "alive"}
    assert "half" in client.get("/v1/models").json()["models"]
    both = {"name": "half", "ready": True, "model_version_status": [AVAILABLE]}
    assert client.get("/v1/models/half").json() == both
    for path in ("/versions/1", "/labels/stable"):
        answer = client.get(f"/v1/models/half{path}")
        assert (answer.status, answer.json()) == (200, {"model_version_status": [AVAILABLE]})


def test_metadata(client: Client) -> None:
    def tensor(name: str, dtype: str, *sizes: str) -> dict[str, object]:
        dims = [{"size": size, "name": ""} for size in sizes]
        shape = {"dim": dims, "unknown_rank": False}
        return {"dtype": dtype, "tensor_shape": shape, "name": name}

    for path in ("", "/versions/1", "/labels/stable"):
        found = client.get(f"/v1/models/flowers{path}/metadata").json()
        assert found["model_spec"] == {"name": "flowers", "signature_name": "", "version": "1"}
    signatures = found["metadata"]["signature_def"]["signature_def"]
    assert set(signatures) == {"serving_default", "named", "fixed", "bare", "area"}
    default = signatures["serving_default"]
    assert default["inputs"] == {
        "size": tensor("size", "DT_FLOAT", "-1", "2"),
        "kind": tensor("kind", "DT_STRING", "-1"),
    }
    assert set(default["outputs"]) == {"scores", "names", "area"}
    assert default["method_name"] == "tensorflow/serving/predict"
    assert signatures["named"] == {
        "inputs": default["inputs"],
        "outputs": {
            "scores": tensor("scores", "DT_FLOAT", "-1", "2"),
            "classes": tensor("names", "DT_STRING", "-1", "2"),
        },
        "method_name": "tensorflow/serving/classify",
    }
    assert signatures["area"]["outputs"] == {"outputs": tensor("area", "DT_DOUBLE", "-1", "1")}
    everything = client.get("/v1/models/scalars/metadata").json()
    inputs = everything["metadata"]["signature_def"]["signature_def"]["serving_default"]["inputs"]
    dtypes = [each["dtype"] for each in inputs.values()]
    assert dtypes[:2] == ["DT_BOOL", "DT_UINT8"]
    assert dtypes[-6:] == ["DT_HALF", "DT_BFLOAT16", "DT_FLOAT", "DT_DOUBLE", *["DT_STRING"] * 2]


def test_a_model_on_its_way() -> None:
    """Clients of TensorFlow Serving find its state, those of KServe a 503."""
    with Deployment(pipelines='[pipelines.gated]\nchain = ["gated"]\n') as late:
        late.gateway()

        def look(path: str) -> tuple[int, str]:
            try:
                with late.client() as client:
                    answer = client.get(f"/v1/models/gated{path}")
            except OSError:
                return 0, ""
            states = answer.json().get("model_version_status", [{"state": ""}])
            return answer.status, states[0]["state"]

        wait_until(lambda: look("") == (503, ""), 10.0, "no broker has said what is served")
        late.broker()
        wait_until(lambda: look("") == (503, "START"), 10.0, "there is no worker")
        assert look("/versions/1") == (200, "START")
        gate = late.write("shut", "")
        late.worker(GATED, env={"GATE": str(late.folder)})
        wait_until(lambda: look("") == (503, "LOADING"), 20.0, "its worker is being set up")
        assert look("/labels/stable") == (200, "LOADING")
        with late.client() as client:
            answer = client.get("/v1/models/gated")
            assert answer.headers["retry-after"] == "1"
            assert (answer.json()["ready"], answer.json()["name"]) == (False, "gated")
            assert "gated/gated" in answer.json()["error"]
        gate.unlink()
        wait_until(lambda: look("") == (200, "AVAILABLE"), 20.0, "it is ready")
