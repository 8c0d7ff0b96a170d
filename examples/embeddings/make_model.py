"""Make a tiny encoder of sentences with random weights, and a tokenizer, in seconds on a CPU.

    python make_model.py

Writes the folder `model` beside this file as transformers reads it: a stand-in, of the right form,
for a model that knows something. Any BERT-like one that was saved by `save_pretrained` will do in
its place, such as those of sentence-transformers.
"""

from pathlib import Path

import torch
from tokenizers import BertWordPieceTokenizer
from transformers import BertConfig, BertModel, BertTokenizerFast

MODEL = Path(__file__).parent / "model"
TEXT = """\
The river turns the wheel, and the wheel turns the stone. Between two stones the grain is ground to
flour. The miller listens: when the stones run dry, they sing, and he pours in more rye. In spring
the water is high, and the mill works all night. In summer the river is low, so the carts wait by
the gate, and the miller tells each of them when to come back.
"""


def main() -> None:
    words = BertWordPieceTokenizer()
    words.train_from_iterator(
        TEXT.splitlines(), vocab_size=300, min_frequency=1, show_progress=False
    )
    tokenizer = BertTokenizerFast(tokenizer_object=words._tokenizer, model_max_length=512)
    torch.manual_seed(0)
    model = BertModel(
        BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            initializer_range=0.2,
        )
    )
    tokenizer.save_pretrained(MODEL)
    model.save_pretrained(MODEL)


if __name__ == "__main__":
    main()
