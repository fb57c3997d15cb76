from warmroute.engines.peer import Peer
from warmroute.fleet.instance import read_instance
from warmroute.fleet.peers import peer_of


def test_a_peer_has_all_that_was_told_of_the_engine():
    info = read_instance(
        {
            "role": "prefill",
            "host_ip": "::1",
            "port": 8188,
            "connector_port": 8190,
            "bootstrap_port": 8998,
            "engine_worker_queue_port": 8191,
            "transfer_protocol": ["ipc"],
            "rdma_ports": [7671],
            "device_ids": [0, 1],
            "version": 7,
        }
    )
    assert peer_of(info, "NixlConnector") == Peer(
        "http://[::1]:8188",
        "::1",
        8188,
        connector_port=8190,
        bootstrap_port=8998,
        engine_worker_queue_port=8191,
        transfer_protocol=("ipc",),
        rdma_ports=("7671",),
        device_ids=("0", "1"),
        tp_size=2,
        version="7",
        kv_connector="NixlConnector",
    )
