"""Train a pipeline of scikit-learn that tells irises apart, in a second.

    python train.py

Writes `model/iris.joblib` beside this file: scaling and the classifier in one, with the names of
its columns and classes.
"""

from pathlib import Path

import joblib
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

MODEL = Path(__file__).parent / "model" / "iris.joblib"


def main() -> None:
    """Train on three quarters, say how many of the rest are told right, and write the model."""
    data = load_iris()
    labels = data.target_names[data.target]
    train, held_out, train_labels, held_out_labels = train_test_split(
        data.data, labels, random_state=0, stratify=labels
    )
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    model.fit(train, train_labels)
    MODEL.parent.mkdir(exist_ok=True)
    joblib.dump(model, MODEL)
    print(f"{model.score(held_out, held_out_labels):.3f} of the held-out flowers are told right")


if __name__ == "__main__":
    main()
