"""Export the digits model from torch to ONNX, and see that both say the same.

    python export.py

Writes `model/digits.onnx` beside this file: (n, 8, 8) float32 to (n, 10) probabilities, for any n.
"""

import sys
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from torch import nn

DIGITS = Path(__file__).parents[1] / "digits"
MODEL = Path(__file__).parent / "model" / "digits.onnx"

sys.path.append(str(DIGITS))
from model import DigitNet  # noqa: E402  from the folder that was just named


def main() -> None:
    """Raises AssertionError where the two do not agree."""
    net = DigitNet()
    net.load_state_dict(torch.load(DIGITS / "model" / "digits.pt", weights_only=True))
    whole = nn.Sequential(net, nn.Softmax(dim=1)).eval()
    digits = torch.rand(2, 8, 8)
    MODEL.parent.mkdir(exist_ok=True)
    torch.onnx.export(
        whole,
        (digits,),
        MODEL,
        input_names=["digits"],
        output_names=["probabilities"],
        dynamic_shapes=({0: torch.export.Dim("n")},),
        external_data=False,
        verbose=False,
    )
    session = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    (ours,) = session.run(None, {"digits": digits.numpy()})
    np.testing.assert_allclose(ours, whole(digits).detach().numpy(), atol=1e-5)


if __name__ == "__main__":
    main()
