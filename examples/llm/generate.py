"""Generate: a language model goes on with what clients have written, a token at a time.

All streams of this worker are one batch of the model. Whichever is asked for its next token first
computes one for each; the others find theirs.
"""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from batching import Batch, Sequence
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream
from transformers import AutoModelForCausalLM, AutoTokenizer

from millstream import Reject, Worker


class Prompt(msgspec.Struct):
    prompt: Annotated[str, msgspec.Meta(min_length=1)]
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 64
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] = 0.0
    seed: int = 0


class Generate(Worker):
    max_batch_size = 16
    max_streams = 32  # rows of the batch: what there is memory for
    inputs = Prompt

    def setup(self) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(self.model_dir)
        model = AutoModelForCausalLM.from_pretrained(self.model_dir, dtype="auto")
        self.context = model.config.max_position_embeddings
        self.batch = Batch(model.to(self.device).eval(), [self.tokenizer.eos_token_id])
        self.tokens = self.metrics.counter("tokens", "Tokens that were generated.")
        self.example = Prompt("The", max_tokens=2)

    def forward(self, batch: list[Prompt]) -> list[Iterator[dict[str, Any]] | Reject]:
        return [self.begin(prompt) for prompt in batch]

    def begin(self, prompt: Prompt) -> Iterator[dict[str, Any]] | Reject:
        read = self.tokenizer(prompt.prompt)["input_ids"]
        if len(read) + prompt.max_tokens > self.context:
            return Reject(f"prompt and answer have more than {self.context} tokens", status=422)
        sequence = Sequence(
            read,
            max_tokens=prompt.max_tokens,
            temperature=prompt.temperature,
            seed=prompt.seed,
        )
        self.batch.add(sequence)  # now, so that newcomers read their prompts together
        return Answer(self.batch, sequence, self.tokenizer.backend_tokenizer, self.tokens)


class Answer(Iterator[dict[str, Any]]):
    """The stream of one request. (No generator: one that was never begun cannot clean up.)"""

    def __init__(self, batch: Batch, sequence: Sequence, words: Tokenizer, tokens: Any) -> None:
        self._batch = batch
        self._sequence = sequence
        self._words = words
        self._tokens = tokens
        self._decoder = DecodeStream(skip_special_tokens=True)
        self._count = 0
        self._is_told = False

    def __next__(self) -> dict[str, Any]:
        """Some text; what lacks the rest of a character waits for it. In the end, why it ended."""
        while (token := self._batch.next_token(self._sequence)) is not None:
            self._count += 1
            self._tokens.inc()
            text = self._decoder.step(self._words, token)
            if text:
                return {"text": text}
        if self._is_told:
            raise StopIteration
        self._is_told = True
        return {"finish": "stop" if self._sequence.left else "length", "tokens": self._count}

    def close(self) -> None:
        """The client has gone, or has it all: its row is free."""
        self._batch.remove(self._sequence)
