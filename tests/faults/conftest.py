"""One router for each mode, with and without short deadlines: a router takes 200 ms to stop."""

from contextlib import AsyncExitStack

import pytest_asyncio
import uvloop
from tests.faults.stage import Stage, staged
from tests.support.router import assert_nothing_held

HASTY = {"first_byte_timeout": 0.5, "stream_idle_timeout": 0.5, "client_read_timeout": 0.5}


def pytest_asyncio_loop_factories():
    return {"uvloop": uvloop.new_event_loop}


class Stages:
    """Made when they are asked for."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._stages: dict[tuple[str, str, bool], Stage] = {}

    async def of(self, mode: str, dialect: str = "sglang", *, hasty: bool = False) -> Stage:
        """The stage for failing workers of a role."""
        stage = self._stages.get((mode, dialect, hasty))
        if stage is None:
            stage = await self._stack.enter_async_context(staged(mode, dialect, **(HASTY if hasty else {})))
            self._stages[mode, dialect, hasty] = stage
        await assert_nothing_held(stage.router)
        return stage


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stages():
    async with AsyncExitStack() as stack:
        yield Stages(stack)
