"""The wait for a worker that has left and is wanted back."""

from warmroute.fleet.address import parse_address
from warmroute.fleet.client import Probe
from warmroute.fleet.instance import InstanceInfo
from warmroute.fleet.returns import wait_for_return

UP, DOWN = Probe(True), Probe(False, "HTTP 503")


class Scripted:
    """Gives one scripted result after the other."""

    def __init__(self, *results: Probe | Exception) -> None:
        self.results = list(results)

    async def probe(self, url: str) -> Probe:
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


async def test_it_must_be_seen_down_and_then_up():
    client = Scripted(UP, UP, DOWN, DOWN, UP, UP)
    await wait_for_return(client, InstanceInfo.at(parse_address("a:1"), "mixed"), 0)
    assert client.results == [UP]


async def test_an_unexpected_error_does_not_end_the_wait(caplog):
    client = Scripted(RuntimeError("a bug"), UP, DOWN, RuntimeError("another"), UP)
    await wait_for_return(client, InstanceInfo.at(parse_address("a:1"), "mixed"), 0)
    assert client.results == []
    assert caplog.messages == ["unexpected error in the wait for http://a:1"] * 2
