"""Both event loops that the gateway runs on: uvloop, and asyncio's own where uvloop is not to be had."""

import asyncio

import uvloop


def pytest_asyncio_loop_factories(config, item):
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
