"""A language model: what is streamed is what the model says alone, whoever else is answered."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from millstream import AsyncClient
from millstream.client import CallFailed
from tests.examples.served.examples import needs, run_shown
from tests.system.client import Client
from tests.system.deployment import Deployment, wait_until
from tests.system.readme import ROOT

pytestmark = [pytest.mark.system, needs("llm")]
LLM = ROOT / "examples" / "llm"
ASKED = [
    ("The river", 40),
    ("In spring", 9),
    ("a", 25),
    ("When a stone is worn", 60),
    ("Q: 17", 30),
]
JSON = "application/json"
TO_ITS_END = "another is laid in its place while"


class Alone:
    """The model that is served, without a server: one sequence, read anew for each token, without
    cache or padding."""

    def __init__(self) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415

        folder = LLM / "model"
        self.net = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self._known: dict[str, list[int]] = {}

    def tokens(self, prompt: str, most: int) -> list[int]:
        """The likeliest ones, up to the end of the text."""
        import torch  # noqa: PLC0415

        read: list[int] = self.tokenizer(prompt)["input_ids"]
        said = self._known.setdefault(prompt, [])
        with torch.inference_mode():
            while len(said) < most and self.tokenizer.eos_token_id not in said:
                logits = self.net(input_ids=torch.tensor([read + said])).logits
                said.append(int(logits[0, -1].argmax()))
        return [token for token in said[:most] if token != self.tokenizer.eos_token_id]

    def text(self, prompt: str, most: int) -> str:
        """The same as text."""
        text: str = self.tokenizer.decode(self.tokens(prompt, most))
        return text


@pytest.fixture(scope="module")
def alone(mill: Deployment) -> Iterator[Alone]:
    import torch  # noqa: PLC0415

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # on a busy machine two wait for each other
    yield Alone()
    torch.set_num_threads(threads)


async def text_of(client: AsyncClient, **asked: Any) -> tuple[str, dict[str, Any]]:
    """All that was streamed, and the last value."""
    *values, last = [value async for value in client.stream("llm", asked, content_type=JSON)]
    return "".join(value["text"] for value in values), last


def test_streams_beside_each_other_say_what_the_model_says_alone(
    mill: Deployment, alone: Alone
) -> None:
    async def run() -> list[tuple[str, dict[str, Any]]]:
        async with AsyncClient(f"http://127.0.0.1:{mill.port}", timeout_s=110.0) as client:
            asked = [text_of(client, prompt=text, max_tokens=most) for text, most in ASKED]
            return await asyncio.gather(*asked)

    answers = asyncio.run(run())

    for (text, last), (prompt, most) in zip(answers, ASKED, strict=True):
        count = len(alone.tokens(prompt, most))
        assert text == alone.text(prompt, most)
        assert last == {"finish": "stop" if count < most else "length", "tokens": count}


def test_sequences_join_and_leave_between_steps(
    mill: Deployment, alone: Alone, load_script: Callable[[Path], ModuleType]
) -> None:
    batching = load_script(LLM / "batching.py")
    tokenizer = alone.tokenizer
    batch = batching.Batch(alone.net, [tokenizer.eos_token_id])
    steps = {0: ASKED[:2], 3: ASKED[2:3], 12: ASKED[3:]}
    under_way: list[tuple[Any, list[int], tuple[str, int]]] = []
    widths = []
    for step in range(80):
        for prompt, most in steps.get(step, []):
            sequence = batching.Sequence(tokenizer(prompt)["input_ids"], max_tokens=most)
            batch.add(sequence)
            under_way.append((sequence, [], (prompt, most)))
        widths.append(len(batch))
        for sequence, tokens, _ in under_way:
            token = batch.next_token(sequence)
            tokens.extend([] if token is None else [token])

    for _, tokens, (prompt, most) in under_way:
        assert tokens == alone.tokens(prompt, most)
    assert max(widths) == 4  # "In spring" has left when the last two join
    assert any(after < before for before, after in pairwise(widths))


def test_it_ends_where_the_model_ends(mill: Deployment, alone: Alone) -> None:
    count = len(alone.tokens(TO_ITS_END, 40))
    assert count < 40

    async def run() -> tuple[str, dict[str, Any]]:
        async with AsyncClient(f"http://127.0.0.1:{mill.port}", timeout_s=110.0) as client:
            return await text_of(client, prompt=TO_ITS_END, max_tokens=40)

    text, last = asyncio.run(run())
    assert text == alone.text(TO_ITS_END, 40)
    assert last == {"finish": "stop", "tokens": count}


def test_chance_is_the_same_for_the_same_seed(mill: Deployment) -> None:
    async def run() -> list[str]:
        async with AsyncClient(f"http://127.0.0.1:{mill.port}", timeout_s=110.0) as client:
            asked = {"prompt": "The", "max_tokens": 30, "temperature": 1.5}
            drawn = [text_of(client, seed=seed, **asked) for seed in (1, 1, 2)]
            return [text for text, _ in await asyncio.gather(*drawn)]

    first, again, other = asyncio.run(run())
    assert first == again != other


def test_a_client_that_leaves_makes_room(mill: Deployment) -> None:
    """More come and go than there are rows, none of whom waits for the end."""

    def streaming() -> int:
        return int(mill.status()["pipelines"]["llm"]["stages"]["generate"]["streaming"])

    async def leave(client: AsyncClient) -> None:
        asked = {"prompt": "The", "max_tokens": 400}
        stream = cast("AsyncGenerator[Any]", client.stream("llm", asked, content_type=JSON))
        async for _ in stream:
            break
        await stream.aclose()

    async def run() -> None:
        async with AsyncClient(f"http://127.0.0.1:{mill.port}", timeout_s=110.0) as client:
            await asyncio.gather(*(leave(client) for _ in range(40)))
            await text_of(client, prompt="The", max_tokens=3)

    asyncio.run(run())
    wait_until(lambda: not streaming(), 20.0, "no stream is open")


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"prompt": ""}, 422),
        ({"prompt": "The", "max_tokens": 0}, 422),
        ({"prompt": "The", "max_tokens": 1000}, 422),
        ({"text": "The"}, 422),
    ],
    ids=["no prompt", "no tokens", "more than its context", "another name"],
)
def test_what_cannot_be_gone_on_with_is_refused(
    mill: Deployment, asked: dict[str, Any], status: int
) -> None:
    async def run() -> None:
        async with AsyncClient(f"http://127.0.0.1:{mill.port}", timeout_s=110.0) as client:
            await text_of(client, **asked)

    with pytest.raises(CallFailed) as failure:
        asyncio.run(run())
    assert failure.value.status == status


def test_what_the_page_shows(mill: Deployment, client: Client) -> None:
    for ran in run_shown(mill, "llm"):
        assert told(ran.written) == told(ran.shown)


def told(events: str) -> str:
    """The text of an event stream."""
    values = [
        json.loads(line.removeprefix("data: ")) for line in events.splitlines() if "text" in line
    ]
    return "".join(value["text"] for value in values)
