"""scikit-learn: flowers are told as the model tells them without a server."""

import json

import pytest

from tests.examples.served.examples import needs, run_shown
from tests.system.client import Client
from tests.system.deployment import Deployment
from tests.system.readme import ROOT

pytestmark = [pytest.mark.system, needs("sklearn")]
PATH = "/pipelines/iris"
COLUMNS = ("sepal_length", "sepal_width", "petal_length", "petal_width")


def test_flowers_are_told_as_by_the_model_itself(client: Client) -> None:
    # Not at the top: every process that collects tests would load scipy.
    import joblib  # noqa: PLC0415
    from sklearn.datasets import load_iris  # noqa: PLC0415

    rows = load_iris().data[::10]
    model = joblib.load(ROOT / "examples" / "sklearn" / "model" / "iris.joblib")
    answers = [client.post_json(PATH, dict(zip(COLUMNS, row, strict=True))) for row in rows]
    told = [answer.json()["species"] for answer in answers]
    assert told == list(model.predict(rows))
    assert set(told) == {"setosa", "versicolor", "virginica"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"sepal_length": 5.1, "sepal_width": 3.5, "petal_length": 1.4}, "petal_width"),
        (dict.fromkeys(COLUMNS, "5.1"), "float"),
        ([5.1, 3.5, 1.4, 0.2], "object"),
    ],
    ids=["a measure is missing", "text", "a list"],
)
def test_what_is_no_flower_is_refused(client: Client, body: object, words: str) -> None:
    answer = client.post_json(PATH, body)
    assert answer.status == 422
    assert words in answer.json()["error"]["message"]


def test_what_the_page_shows(mill: Deployment) -> None:
    for ran in run_shown(mill, "sklearn"):
        written, shown = json.loads(ran.written), json.loads(ran.shown)
        assert written["species"] == shown["species"]
        assert written["probabilities"] == pytest.approx(shown["probabilities"], abs=0.01)
