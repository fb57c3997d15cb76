"""Children that fail, hang, or do not want to end."""

from __future__ import annotations

import os

import pytest

from warmroute.simulation.processes import ChildError, Children, free_ports


async def never() -> bool:
    return False


async def test_a_child_that_ends_is_told_with_what_it_wrote(tmp_path):
    with Children(tmp_path) as children:
        children.start("engine", "--port", "nonsense")
        with pytest.raises(ChildError, match=r"(?s)engine ended with exit code 2.*--port"):
            await children.until(never, seconds=20)


async def test_a_child_that_is_never_ready_is_told_and_stopped(tmp_path):
    with Children(tmp_path) as children:
        child = children.start("engine", "--port", str(free_ports(1)[0]))
        with pytest.raises(ChildError, match=r"not ready after 0\.1 s"):
            await children.until(never, seconds=0.1)
        os.kill(child.pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


def test_free_ports_are_different():
    assert len(set(free_ports(20))) == 20
