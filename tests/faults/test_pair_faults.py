"""The rows of the first table of docs/reference/faults.md, by pairs of the other dialects."""

import pytest
from tests.faults.playing import cases, play_row

pytestmark = pytest.mark.asyncio(loop_scope="module")

CASES = cases(["prefill", "decode"], ["fastdeploy", "vllm"], is_short=True)


@pytest.mark.parametrize(("row", "mode", "dialect", "stream", "others"), CASES)
async def test_row(stages, row, mode, dialect, stream, others):
    await play_row(stages, row, mode, dialect, stream, others)
