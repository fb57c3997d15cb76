import pytest

from warmroute.config import ManagerConfig
from warmroute.fleet.errors import InvalidInstance
from warmroute.fleet.static import read_statics, static_instances


def write(tmp_path, text: str) -> ManagerConfig:
    path = tmp_path / "register.yaml"
    path.write_text(text)
    return ManagerConfig(register_path=str(path))


def test_nothing_named_is_nobody():
    assert static_instances(ManagerConfig()) == []


def test_urls_and_entries_of_the_file(tmp_path):
    manager = write(
        tmp_path,
        """
instances:
  - role: "prefill"
    host_ip: 127.0.0.1
    port: 8097
    connector_port: 8001
    engine_worker_queue_port: 8002
    transfer_protocol:
      - ipc
      - rdma
    rdma_ports: [7100, "7101"]
    device_ids: [0, "1"]
    metrics_port: 8003
  - {role: 2, host_ip: engine-2, port: "8098"}
""",
    )
    both = manager.model_copy(update={"worker": ("http://a:1",)})
    infos = static_instances(both)
    assert [(info.id, info.role) for info in infos] == [
        ("a:1", "mixed"),
        ("127.0.0.1:8097", "prefill"),
        ("engine-2:8098", "decode"),
    ]
    assert infos[1].rdma_ports == ("7100", "7101")
    assert infos[1].metrics_url == "http://127.0.0.1:8003/metrics"


def test_prefill_and_decode_workers_with_the_port_of_their_pairs():
    manager = ManagerConfig(prefill=("http://a:1,8998", "http://b:1"), decode=("http://[::1]:2,7",))
    infos = static_instances(manager)
    assert [(info.id, info.role, info.bootstrap_port, info.connector_port) for info in infos] == [
        ("a:1", "prefill", 8998, 8998),
        ("b:1", "prefill", 0, 0),
        ("[::1]:2", "decode", 7, 7),
    ]
    assert not any(info.registers for info in infos)


@pytest.mark.parametrize("text", ["", "instances:\n", "instances: []\n"])
def test_an_empty_file_is_no_mistake(tmp_path, text):
    assert static_instances(write(tmp_path, text)) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n", "expected a list `instances:`"),
        ("instances: 3\n", "expected a list `instances:`"),
        ("instances: [\n", "expected the node content"),
        ("instances: []\ninstances: []\n", "key 'instances' comes twice"),
        ("instances: [{role: mixed, host_ip: a, port: 1}, {role: mixed}]\n", r"instances\[1\]: .*host_ip is required"),
        ("instances: [a:1]\n", r"instances\[0\]: .*expected an object"),
        ("instances: [{role: mixed, role: mixed}]\n", "key 'role' comes twice"),
    ],
)
def test_a_mistake_names_file_and_entry(tmp_path, text, message):
    with pytest.raises(InvalidInstance, match=rf"register-path .*register\.yaml(:\d+)?: {message}"):
        static_instances(write(tmp_path, text))


def test_every_mistake_of_the_file_is_told_at_once(tmp_path):
    manager = write(
        tmp_path,
        """
instance: []
instances:
  - {role: mixed, host_ip: 127.0.0.1, port: 0, metrics_prot: 1}
  - role: decode
    host_ip: 127.0.0.1
    prot: 8098
    tp_size: none
  - {role: mixed, host_ip: 127.0.0.1, port: 8099}
""",
    ).model_copy(update={"worker": ("http://a b:1",)})
    found = read_statics(manager)
    assert [problem.replace(manager.register_path, "F") for problem in found.problems] == [
        "worker 'http://a b:1' must not contain spaces or control characters",
        "register-path F:2: unknown key instance (nearest known: instances)",
        "register-path F:4: instances[0]: unknown key metrics_prot (nearest known: metrics_port)",
        "register-path F:4: instances[0]: invalid InstanceInfo format:invalid port: 0",
        "register-path F:7: instances[1]: unknown key prot (nearest known: port)",
        "register-path F:5: instances[1]: invalid InstanceInfo format:port is required",
        "register-path F:5: instances[1]: invalid InstanceInfo format:invalid tp_size: none",
    ]
    assert [info.id for info in found.instances] == ["127.0.0.1:8099"]


def test_all_that_an_engine_tells_may_stand_in_the_file(tmp_path):
    (info,) = static_instances(
        write(
            tmp_path,
            """
instances:
  - {role: mixed, host_ip: a, port: 1, connector_port: 2, engine_worker_queue_port: 3, transfer_protocol: [ipc],
     rdma_ports: [4], device_ids: [0], metrics_port: 5, tp_size: 1, is_paused: true, version: v, connected_decodes: [],
     bootstrap_port: 6}
""",
        )
    )
    assert (info.version, info.is_paused, info.metrics_port) == ("v", True, 5)


def test_keys_may_come_from_another_entry(tmp_path):
    infos = static_instances(
        write(tmp_path, "instances:\n  - &a {role: mixed, host_ip: a, port: 1}\n  - {<<: *a, port: 2}\n")
    )
    assert [info.id for info in infos] == ["a:1", "a:2"]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidInstance, match=r"nowhere\.yaml: cannot be read \(No such file"):
        static_instances(ManagerConfig(register_path=str(tmp_path / "nowhere.yaml")))


def test_a_bad_url_is_named():
    manager = ManagerConfig().model_copy(update={"worker": ("http://a b:1",)})
    with pytest.raises(InvalidInstance, match="worker 'http://a b:1'"):
        static_instances(manager)
