"""The process around a router."""

import logging
import resource
import socket
from collections.abc import Iterator

import pytest

from warmroute import process
from warmroute.config import Config


@pytest.fixture
def few_files() -> Iterator[int]:
    """The process may open fewer files than the system grants it; the grant is returned."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 500), hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_serving_takes_all_the_files_that_the_system_grants(few_files, caplog, capsys):
    """With 1024, some 500 streams use up the descriptors, and then no worker can be reached."""
    caplog.set_level(logging.DEBUG, "warmroute.open_files")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert process.run(Config.model_validate({"server": {"host": "127.0.0.1", "port": port}})) == 2
    told = capsys.readouterr().err
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use; --host and --port" in told
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (few_files, few_files)
    assert caplog.messages == [f"at most {few_files} open files"]
