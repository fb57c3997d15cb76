import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.fleet.address import Address
from warmroute.fleet.errors import InvalidInstance
from warmroute.fleet.instance import InstanceInfo, check_role, read_instance

MINIMAL = {"role": "mixed", "host_ip": "10.0.0.1", "port": 8000}
FULL = {
    "role": "Prefill",
    "host_ip": "10.0.0.1",
    "port": "8188",
    "connector_port": "8190",
    "engine_worker_queue_port": 8191,
    "transfer_protocol": ["IPC", "rdma"],
    "rdma_ports": ["7671", 7672],
    "device_ids": [0, "1"],
    "metrics_port": "8189",
    "tp_size": 2,
    "is_paused": True,
    "version": "v7",
    "connected_decodes": [{"host_ip": "10.0.0.9"}],
}


def test_the_least_that_an_engine_must_say():
    info = read_instance(MINIMAL)
    assert info == InstanceInfo.at(Address("10.0.0.1", 8000), "mixed")
    assert (info.id, info.url) == ("10.0.0.1:8000", "http://10.0.0.1:8000")
    assert info.metrics_url == "http://10.0.0.1:8000/metrics"


def test_all_that_an_engine_can_say():
    assert read_instance(FULL) == InstanceInfo(
        "prefill",
        Address("10.0.0.1", 8188),
        metrics_port=8189,
        connector_port=8190,
        engine_worker_queue_port=8191,
        transfer_protocol=("ipc", "rdma"),
        rdma_ports=("7671", "7672"),
        device_ids=("0", "1"),
        tp_size=2,
        is_paused=True,
        version="v7",
    )


@pytest.mark.parametrize(
    ("given_version", "version"),
    [
        ("v7", "v7"),
        (7, "7"),
        (1.5, "1.5"),
        ("", None),
        (None, None),
        ([], None),
        ({"a": 1}, None),
        ("x" * 500, "x" * 100),
    ],
)
def test_the_version_is_told_as_text(given_version, version):
    assert read_instance({**MINIMAL, "version": given_version}).version == version


def test_a_bootstrap_port_is_checked_like_the_other_ports_of_a_pair():
    assert read_instance({**MINIMAL, "role": "prefill", "bootstrap_port": "8998"}).bootstrap_port == 8998
    with pytest.raises(InvalidInstance, match="invalid bootstrap_port: 70000"):
        read_instance({**MINIMAL, "role": "prefill", "bootstrap_port": 70000})


def test_ports_that_were_told_before_stay():
    told = InstanceInfo.at(Address("a", 1), "prefill", pd_port=8998)
    heard = read_instance({"role": "decode", "host_ip": "a", "port": 1, "connector_port": 5})
    assert (heard.completed(told).connector_port, heard.completed(told).bootstrap_port) == (5, 8998)
    assert heard.completed(told).role == "decode"


@pytest.mark.parametrize(
    ("fields", "ranks"), [({}, 1), ({"device_ids": "0,1,2"}, 3), ({"device_ids": [0, 1], "tp_size": 8}, 8)]
)
def test_an_engine_has_one_rank_for_each_device_unless_it_tells(fields, ranks):
    assert read_instance({**MINIMAL, **fields}).ranks == ranks


@pytest.mark.parametrize(
    ("given_role", "role"),
    [("mixed", "mixed"), ("DECODE", "decode"), ("Prefill", "prefill"), (0, "mixed"), (1, "prefill"), (2, "decode")],
)
def test_roles_are_words_or_numbers(given_role, role):
    assert read_instance({**MINIMAL, "role": given_role}).role == role


@pytest.mark.parametrize(("host", "worker_id"), [("Engine-1", "engine-1:8000"), ("::1", "[::1]:8000")])
def test_hosts_may_be_names_and_ipv6(host, worker_id):
    info = read_instance({**MINIMAL, "host_ip": host})
    assert info.id == worker_id
    assert info.metrics_url == f"http://{worker_id}/metrics"


def test_lists_may_be_comma_separated_and_absent_is_the_same_as_null():
    fields = {**FULL, "transfer_protocol": "ipc, rdma", "rdma_ports": "7671,7672", "device_ids": "0,1"}
    assert read_instance(fields) == read_instance(FULL)
    nothing = dict.fromkeys(set(FULL) - set(MINIMAL))
    assert read_instance({**MINIMAL, **nothing}) == read_instance(MINIMAL)


VALUE = "invalid InstanceInfo format:"
JSON = "Invalid InstanceInfo JSON format: "


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"role": None}, VALUE + "role is required"),
        ({"role": ""}, VALUE + "role is required"),
        ({"role": "both"}, VALUE + "invalid role: both"),
        ({"role": 3}, JSON + "invalid role number 3"),
        ({"role": True}, JSON + "role must be a string or an integer"),
        ({"role": ["mixed"]}, JSON + "role must be a string or an integer"),
        ({"host_ip": None}, VALUE + "host_ip is required"),
        ({"host_ip": "300.0.0.1"}, VALUE + "invalid host_ip: 300.0.0.1"),
        ({"host_ip": "a b"}, VALUE + "invalid host_ip: a b"),
        ({"host_ip": 7}, JSON + "host_ip must be a string"),
        ({"port": None}, VALUE + "port is required"),
        ({"port": ""}, VALUE + "port is required"),
        ({"port": 0}, VALUE + "invalid port: 0"),
        ({"port": -5}, VALUE + "invalid port: -5"),
        ({"port": "eighty"}, VALUE + "invalid port: eighty"),
        ({"port": 65536}, VALUE + "invalid port: 65536"),
        ({"port": 10**5000}, VALUE + "invalid port: a huge number"),
        ({"port": 80.5}, JSON + "port must be a number or a string"),
        ({"port": True}, JSON + "port must be a number or a string"),
        ({"metrics_port": "x"}, VALUE + "invalid metrics_port: x"),
        ({"transfer_protocol": ["tcp"]}, VALUE + "invalid protocol: tcp"),
        ({"transfer_protocol": {"a": 1}}, JSON + "transfer_protocol must be a list of at most 4096 items"),
        ({"rdma_ports": [[1]]}, JSON + "rdma_ports items must be a number or a string"),
        ({"device_ids": ["0"] * 5000}, JSON + "device_ids must be a list of at most 4096 items"),
        ({"tp_size": "two"}, VALUE + "invalid tp_size: two"),
        ({"tp_size": 0}, VALUE + "invalid tp_size: 0"),
        ({"is_paused": "yes"}, JSON + "is_paused must be true or false"),
        ({"role": "decode", "connector_port": "x"}, VALUE + "invalid connector_port: x"),
        ({"role": "decode", "engine_worker_queue_port": 70000}, VALUE + "invalid engine_worker_queue_port: 70000"),
        ({"role": "decode", "rdma_ports": [7671, "x"]}, VALUE + "rdma_ports[1] invalid port: x"),
    ],
)
def test_mistakes_are_told_in_the_contracts_words(changes, message):
    with pytest.raises(InvalidInstance) as raised:
        read_instance({**MINIMAL, **changes})
    assert str(raised.value) == message


def test_ports_for_pairing_do_not_matter_to_a_mixed_worker():
    info = read_instance({**MINIMAL, "connector_port": "x", "engine_worker_queue_port": -1, "rdma_ports": ["y"]})
    assert (info.connector_port, info.engine_worker_queue_port, info.rdma_ports) == (0, 0, ("y",))


@pytest.mark.parametrize("fields", [None, [], "x", 7])
def test_anything_but_an_object_is_refused(fields):
    with pytest.raises(InvalidInstance, match="expected an object"):
        read_instance(fields)


@pytest.mark.parametrize(
    ("role", "splitwise", "message"),
    [
        ("mixed", True, "splitwise mode only supports PREFILL/DECODE instances"),
        ("prefill", False, "only MIXED instances are allowed"),
        ("decode", False, "only MIXED instances are allowed"),
        ("mixed", False, None),
        ("prefill", True, None),
        ("decode", True, None),
    ],
)
def test_each_mode_has_its_roles(role, splitwise, message):
    if message is None:
        check_role(role, splitwise=splitwise)
        return
    with pytest.raises(InvalidInstance) as raised:
        check_role(role, splitwise=splitwise)
    assert str(raised.value) == message


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(list(FULL)), JSON_VALUES), st.booleans())
def test_any_json_gives_an_instance_or_a_clear_error(changes, full):
    message = ""
    try:
        info = read_instance({**(FULL if full else MINIMAL), **changes})
    except InvalidInstance as error:
        message = str(error)
    else:
        assert 1 <= info.address.port <= 65535
        assert 1 <= info.metrics_port <= 65535
    assert len(message) < 250
