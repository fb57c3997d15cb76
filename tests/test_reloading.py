"""A configuration that changes while the router runs."""

import asyncio
import logging
import os

import pytest
from tests.fleet.fake_engine import until
from tests.support.http_client import Client, post
from tests.support.router import config, running
from tests.support.scripted_worker import SSE_HEAD, ScriptedWorker, chunk

from warmroute.config import Config
from warmroute.config.load import ConfigError
from warmroute.fleet import InvalidInstance
from warmroute.reloading import Reloader, compare


def given(**sections) -> Config:
    return Config.model_validate(sections)


def test_workers_and_weights_are_taken_over_and_the_rest_is_named():
    old = given(server={"port": 1}, scheduler={"hit_ratio_weight": 1.0}, manager={"worker": ["http://a:1"]})
    new = given(
        server={"port": 2, "drain_timeout": 5},
        scheduler={"hit_ratio_weight": 2.0, "policy": "random"},
        manager={"worker": ["http://b:1"], "breaker_open": 3},
    )
    changes = compare(old, new)
    assert changes.weights == {"hit_ratio_weight"}
    assert set(changes.fixed) == {"server.port", "server.drain-timeout", "scheduler.policy", "manager.breaker-open"}
    assert changes.config == given(
        server={"port": 1}, scheduler={"hit_ratio_weight": 2.0}, manager={"worker": ["http://b:1"]}
    )


def test_nothing_has_changed():
    old = given(manager={"worker": ["http://a:1"]})
    changes = compare(old, given(manager={"worker": ["http://a:1"]}))
    assert (changes.config, changes.weights, changes.fixed) == (old, frozenset(), ())


class Loads:
    """Counts loads, and what was taken over; `error` is raised instead, if there is one."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.taken: list[Config] = []

    def load(self) -> Config:
        if self.error is not None:
            raise self.error
        return given(server={"port": len(self.taken)})


@pytest.fixture
async def loads():
    return Loads()


@pytest.fixture
async def reload_when(loads, tmp_path):
    """Start a reloader for the files of these names; they are in `tmp_path`."""
    tasks = []

    def start(*names: str) -> Reloader:
        reloader = Reloader(
            loads.load, loads.taken.append, lambda: [str(tmp_path / name) for name in names], look_seconds=0.02
        )
        tasks.append(asyncio.create_task(reloader.run()))
        return reloader

    yield start
    for task in tasks:
        task.cancel()


async def test_a_changed_file_is_loaded_once_and_an_untouched_one_never(loads, reload_when, tmp_path):
    (tmp_path / "a.yaml").write_text("1")
    reload_when("a.yaml", "b.yaml")
    await asyncio.sleep(0.1)
    assert loads.taken == []
    (tmp_path / "a.yaml").write_text("22")
    await until(lambda: len(loads.taken) == 1)
    await asyncio.sleep(0.1)
    assert len(loads.taken) == 1
    (tmp_path / "b.yaml").write_text("appears")
    await until(lambda: len(loads.taken) == 2)


async def test_a_file_that_is_replaced_by_a_link_is_seen(loads, reload_when, tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).write_text(name[:5])
        os.utime(tmp_path / name, (1, 1))
    (tmp_path / "file").symlink_to(tmp_path / "first")
    reload_when("file")
    await asyncio.sleep(0.05)
    (tmp_path / "new").symlink_to(tmp_path / "second")
    (tmp_path / "new").rename(tmp_path / "file")
    await until(lambda: loads.taken)


async def test_when_asked_it_loads_whether_a_file_has_changed_or_not(loads, reload_when):
    reloader = reload_when()
    reloader.ask()
    await until(lambda: len(loads.taken) == 1)
    reloader.ask()
    await until(lambda: len(loads.taken) == 2)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ConfigError(["router.yaml:3: bad"]), "router.yaml:3: bad"),
        (
            ConfigError(["a.yaml:1: bad", "a.yaml:2: bad"]),
            "a.yaml:1: bad (1 more: `warmroute check` with the same flags tells all)",
        ),
        (InvalidInstance("only MIXED instances are allowed"), "only MIXED instances are allowed"),
    ],
)
async def test_what_cannot_be_used_is_told_in_one_line_and_the_next_try_counts(loads, reload_when, caplog, error, told):
    reloader = reload_when()
    loads.error = error
    reloader.ask()
    await until(lambda: caplog.messages)
    assert caplog.messages == [f"the configuration is not reloaded, all stays as it was: {told}"]
    loads.error = None
    reloader.ask()
    await until(lambda: loads.taken)


async def test_a_fault_that_a_changed_file_has_shown_is_no_second_warning_when_asked(
    loads, reload_when, tmp_path, caplog
):
    caplog.set_level(logging.INFO)
    reloader = reload_when("a.yaml")
    reloader.ask()
    await until(lambda: loads.taken)  # from here on the file is looked at
    loads.taken.clear()
    loads.error = ConfigError(["a.yaml:1: bad"])
    (tmp_path / "a.yaml").write_text("bad")
    await until(lambda: len(caplog.records) == 1)
    reloader.ask()
    await until(lambda: len(caplog.records) == 2)
    loads.error = None
    reloader.ask()
    await until(lambda: loads.taken)
    loads.error = ConfigError(["a.yaml:1: bad"])
    reloader.ask()
    await until(lambda: len(caplog.records) == 3)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "WARNING"]


async def test_workers_come_and_go_and_no_stream_is_dropped(caplog):
    caplog.set_level(logging.INFO)
    may_end = asyncio.Event()

    async def held(_request, connection) -> None:
        await connection.send(SSE_HEAD + chunk(b'data: {"n": 1}\n\n'))
        await may_end.wait()
        await connection.send(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")

    async with ScriptedWorker() as first, ScriptedWorker() as second:
        first.script = second.script = held
        settings = config(first.url)
        async with running(settings) as router, await Client.connect(router.port) as client:
            await client.send(post(body=b'{"stream": true}'))
            assert (await client.read_head()).status == 200
            manager = settings.manager.model_copy(update={"worker": (second.url,)})
            scheduler = settings.scheduler.model_copy(update={"hit_ratio_weight": 3.0, "policy": "random"})
            router.reload(settings.model_copy(update={"manager": manager, "scheduler": scheduler}))
            await until(lambda: [row.worker.url for row in router.fleet.pool("mixed", None).candidates] == [second.url])
            assert router.fleet.get(first.url).running == 1
            assert router.config.scheduler.hit_ratio_weight == 3.0
            assert router.scheduler.policy_name("mixed") == "least_delay"
            may_end.set()
            assert await client.read_chunk() == b'data: {"n": 1}\n\n'
            assert await client.read_chunk() == b"data: [DONE]\n\n"
            assert await client.read_chunk() == b""
            await until(lambda: router.fleet.get(first.url) is None)
    assert "configuration reloaded: 1 workers new or changed, 1 gone, hit-ratio-weight 3.0" in caplog.messages
    assert "only a restart takes over the changes of scheduler.policy" in caplog.messages


async def test_workers_that_do_not_fit_change_nothing():
    async with ScriptedWorker() as worker:
        settings = config(worker.url)
        async with running(settings) as router:
            manager = settings.manager.model_copy(update={"worker": (), "prefill": ("http://127.0.0.1:1",)})
            scheduler = settings.scheduler.model_copy(update={"hit_ratio_weight": 3.0})
            with pytest.raises(InvalidInstance):
                router.reload(settings.model_copy(update={"manager": manager, "scheduler": scheduler}))
            assert router.config == settings
            assert [row.worker.url for row in router.fleet.pool("mixed", None).candidates] == [worker.url]
