import logging

from tests.fleet.conftest import QUICK
from tests.fleet.rosters import Surroundings, healthy

from warmroute.fleet.client import EngineClient, open_session
from warmroute.fleet.watcher import Intervals, Watcher


async def test_an_error_is_logged_once_until_it_changes_or_ends(caplog):
    caplog.set_level(logging.ERROR)
    roster = Surroundings().roster()
    async with open_session() as session:
        client = EngineClient(session, "/health", 1.0)
        watcher = Watcher(healthy(roster), roster, client, Intervals(1.0, 1.0), QUICK)

        troubles = [KeyError("a"), KeyError("a"), ValueError("b"), ValueError("b"), None, ValueError("b")]
        counts = []

        async def step() -> None:
            trouble = troubles[len(counts)]
            if trouble is not None:
                raise trouble

        for _ in troubles:
            await watcher._survive("probe", step)
            counts.append(len(caplog.records))
    assert counts == [1, 1, 2, 2, 2, 3]
