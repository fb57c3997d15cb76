"""Both event loops that the gateway runs on: uvloop, and asyncio's own where uvloop is not to be had."""

import asyncio

import pytest
import uvloop


@pytest.fixture(params=["asyncio", "uvloop"], scope="session")
def event_loop_policy(request):
    return uvloop.EventLoopPolicy() if request.param == "uvloop" else asyncio.DefaultEventLoopPolicy()
