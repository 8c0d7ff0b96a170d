"""Make a tiny language model that knows one story by heart, in seconds on a CPU.

    python make_model.py

Writes the folder `model` beside this file as transformers reads it. Any other causal language model
that was saved by `save_pretrained` will do in its place.
"""

from pathlib import Path

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

MODEL = Path(__file__).parent / "model"
STORY = """\
The river turns the wheel, and the wheel turns the stone. Between two stones the grain is ground to
flour. The miller listens: when the stones run dry, they sing, and he pours in more rye. In spring
the water is high, and the mill works all night. In summer the river is low, so the carts wait by
the gate, and the miller tells each of them when to come back. Nobody is turned away, and nobody
waits for nothing. When a stone is worn, it is lifted out, and another is laid in its place while
the wheel goes on.
"""
STEPS = 200
WINDOW = 128
BATCH = 4


def train_tokenizer() -> PreTrainedTokenizerFast:
    words = ByteLevelBPETokenizer()
    words.train_from_iterator([STORY], vocab_size=384, special_tokens=["</s>"], show_progress=False)
    return PreTrainedTokenizerFast(tokenizer_object=words, eos_token="</s>", pad_token="</s>")


def train_model(tokens: torch.Tensor, vocabulary: int, end: int) -> LlamaForCausalLM:
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=96,
            intermediate_size=192,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=512,
            bos_token_id=end,
            eos_token_id=end,
            pad_token_id=end,
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), 5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=STEPS)
    for _ in range(STEPS):
        starts = torch.randint(0, len(tokens) - WINDOW + 1, (BATCH,))
        windows = torch.stack([tokens[start : start + WINDOW] for start in starts])
        loss = model(input_ids=windows, labels=windows).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    print(f"loss {loss.item():.3f} after {STEPS} steps")
    return model


def main() -> None:
    tokenizer = train_tokenizer()
    story = [*tokenizer(STORY.strip().replace("\n", " "))["input_ids"], tokenizer.eos_token_id]
    twice = torch.tensor(2 * story)  # so that its end is in the middle as well
    model = train_model(twice, len(tokenizer), tokenizer.eos_token_id)
    tokenizer.save_pretrained(MODEL)
    model.save_pretrained(MODEL)


if __name__ == "__main__":
    main()
