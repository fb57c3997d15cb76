"""What exact mode costs: taking in events, and deciding on a conversation of 100,000 tokens that has grown by a turn.

Run by hand: pytest benchmarks/micro/test_exact_speed.py --benchmark-timer=time.process_time
Targets: 50,000 blocks a second (less than 20 ms for two messages of 500), less than 2 ms for tokens and decision.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random

import msgspec
import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from warmroute.engines.kv_events.batch import read_batch
from warmroute.gateway.exact_tokens import ExactTokens, LocalBlocks
from warmroute.prompts.chat_template import ChatTemplate
from warmroute.prompts.ladder import Ladder
from warmroute.prompts.tokenizer import LocalTokenizer
from warmroute.scheduling.exact_index import Coverage, ExactIndex
from warmroute.scheduling.kv_events import Stored
from warmroute.scheduling.lease import Lease, Outcome
from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.policies.cache_aware import CacheAware
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.scheduler import Scheduler
from warmroute.scheduling.worker import ROLES, Pool, Worker

BLOCKS = 500
SIZE = 16
WORDS = ["the", "cache", "worker", "turn", "prefix", "block", "token", "engine", "answer", "river", "garden", "paper"]
TEMPLATE = "{% for m in messages %}<|s|>{{ m.role }}\n{{ m.content }}<|e|>\n{% endfor %}<|s|>assistant"


@pytest.mark.parametrize("size", [1, 16, 32, 128])
def test_a_message_is_taken_in(benchmark: BenchmarkFixture, size: int):
    """Twice 500 blocks stored and 500 others removed, decoding included."""
    rng = Random(1)
    source = ExactIndex(1 << 30).source(Worker("w", ""))
    stored = [[rng.getrandbits(64) for _ in range(BLOCKS)] for _ in range(2)]
    messages = []
    for new, old in ((0, 1), (1, 0)):
        event = {
            "type": "BlockStored",
            "block_hashes": stored[new],
            "parent_block_hash": None,
            "token_ids": [rng.randrange(150_000) for _ in range(BLOCKS * size)],
            "block_size": size,
            "extra_keys": [None] * BLOCKS,
        }
        removed = [{"type": "BlockRemoved", "block_hashes": [one]} for one in stored[old]]
        messages.append(msgspec.msgpack.encode([1.0, [*removed, event], 0]))

    def take_in() -> None:
        for message in messages:
            source.apply(read_batch(message).events)

    benchmark(take_in)


def words(count: int, rng: Random) -> str:
    """So many words."""
    return " ".join(rng.choices(WORDS, k=count))


class House:
    """Eight workers whose events tell that they hold more and more of one conversation."""

    def __init__(self, directory: Path) -> None:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=["<|s|>", "<|e|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator([" ".join(WORDS)], trainer)
        tokenizer.save(str(directory / "tokenizer.json"))
        local = LocalTokenizer(directory / "tokenizer.json")
        self.tokens = ExactTokens(LocalBlocks(local, ChatTemplate(TEMPLATE)), 60)
        self.rng, self.ladder = Random(1), Ladder.default()
        workers = [Worker(f"w{number}", "") for number in range(8)]
        index = PrefixIndex(self.ladder, 1 << 28, 0)
        self.scheduler = Scheduler(dict.fromkeys(ROLES, CacheAware()), index, Ledger(), rng=self.rng, clock=lambda: 1.0)
        exact = self.scheduler.exact = ExactIndex(1 << 30)
        self.pool = Pool("mixed", [worker.candidate for worker in workers])
        self.messages = [{"role": "system", "content": words(2000, self.rng)}]
        while len(self.body()) < 600_000:
            self.say(500)
        prompt = self.tokens.read(self.body(), "chat", self.ladder)
        blocks = asyncio.run(self.tokens.refine(prompt, self.body(), "chat", self.ladder)).blocks
        assert blocks is not None
        for number, worker in enumerate(workers):
            source, held = exact.source(worker), blocks.tokens // SIZE * (number + 1) // 8
            source.apply([Stored(list(range(held)), None, blocks.packed[: held * SIZE * 4], SIZE)])
            exact.cover(source, Coverage.COMPLETE)

    def body(self) -> bytes:
        """The next request."""
        return json.dumps({"model": "m", "messages": self.messages}).encode()

    def say(self, count: int) -> None:
        """One more turn."""
        self.messages.append({"role": "assistant", "content": words(count, self.rng)})
        self.messages.append({"role": "user", "content": words(count, self.rng)})

    async def decide(self, body: bytes) -> Lease:
        """All that happens until a worker is chosen."""
        prompt = self.tokens.read(body, "chat", self.ladder)
        prompt = await self.tokens.refine(prompt, body, "chat", self.ladder)
        return self.scheduler.select(prompt, self.pool)


def test_a_conversation_of_100k_tokens_grows_by_a_turn(benchmark: BenchmarkFixture, tmp_path: Path):
    """Reading the body, rendering, encoding the new turn, matching and choosing."""
    house = House(tmp_path)
    loop = asyncio.new_event_loop()

    def grown() -> tuple[tuple[bytes], dict[str, object]]:
        house.say(80)
        return (house.body(),), {}

    def decide(body: bytes) -> None:
        lease = loop.run_until_complete(house.decide(body))
        assert lease.prompt.tokens > 100_000
        assert lease.matched_tokens > 90_000
        lease.release(Outcome.SERVED)

    benchmark.pedantic(decide, setup=grown, rounds=40)
    loop.close()
