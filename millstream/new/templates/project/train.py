"""Trains the model on texts/, one file for each language, in a moment; writes model/languages.npz.

A naive Bayes classifier: how likely each three letters are in a language, as a logarithm.
"""

from pathlib import Path

import numpy as np
from features import features

HERE = Path(__file__).parent
MODEL = HERE / "model" / "languages.npz"


def main() -> None:
    files = sorted((HERE / "texts").glob("*.txt"))
    counts = np.stack([features(file.read_text()) for file in files]) + 0.1
    weights = np.log(counts / counts.sum(axis=1, keepdims=True)).T
    MODEL.parent.mkdir(exist_ok=True)
    np.savez(MODEL, weights=weights.astype(np.float32), names=[file.stem for file in files])
    print(f"{MODEL.relative_to(HERE)}: {', '.join(file.stem for file in files)}")


if __name__ == "__main__":
    main()
