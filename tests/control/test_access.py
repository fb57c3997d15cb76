"""Who may call which control endpoint."""

import pytest

from warmroute.config import Config
from warmroute.control.access import AccessRules

HERE, NEAR, FAR = "127.0.0.1", "10.1.2.3", "203.0.113.9"
CHANGES = [
    ("POST", "/workers"),
    ("DELETE", "/workers/a:1"),
    ("POST", "/workers/a:1/drain"),
    ("POST", "/deregister"),
    ("POST", "/v1/abort_requests"),
    ("POST", "/register/"),
    ("PUT", "/register"),
    ("POST", "/an-endpoint-yet-to-come"),
]
READS = [(method, path) for method in ("GET", "HEAD") for path in ("/health", "/ready", "/metrics", "/workers")]


def rules(cors=(), **security) -> AccessRules:
    return AccessRules(Config.model_validate({"security": security, "server": {"cors_allowed_origins": cors}}))


def verdict(access, method, path, peer, key=b"", origin="", host="127.0.0.1:8000"):
    refused = access.refusal(method, path, peer, key, origin, host)
    return 200 if refused is None else refused[0]


@pytest.mark.parametrize(("method", "path"), CHANGES)
def test_without_admin_keys_only_this_host_changes_anything(method, path):
    access = rules()
    assert verdict(access, method, path, HERE) == verdict(access, method, path, "::1") == 200
    assert verdict(access, method, path, "::ffff:127.0.0.1") == 200
    for peer in (NEAR, FAR, ""):
        assert verdict(access, method, path, peer) == 403
        assert verdict(access, method, path, peer, b"guess") == 403


@pytest.mark.parametrize(("method", "path"), CHANGES)
def test_with_admin_keys_everybody_needs_one(method, path):
    """Also this host: behind a proxy beside the router everybody seems to be here."""
    access = rules(admin_key=("a", "b"), api_key=("k",))
    for peer in (HERE, NEAR, FAR):
        assert verdict(access, method, path, peer, b"a") == verdict(access, method, path, peer, b"b") == 200
        for wrong in (b"", b"c", b"k"):
            assert verdict(access, method, path, peer, wrong) == 401


@pytest.mark.parametrize(("method", "path"), READS)
def test_what_only_reads_is_open(method, path):
    for access in (rules(), rules(admin_key=("a",), api_key=("k",))):
        assert verdict(access, method, path, FAR) == 200


def test_what_pages_and_tools_show_is_open_until_there_is_an_admin_key():
    for path in ("/admin/state", "/admin/history", "/admin/events"):
        assert verdict(rules(api_key=("k",)), "GET", path, FAR) == 200
        access = rules(admin_key=("a",), api_key=("k",))
        assert verdict(access, "GET", path, HERE, b"a") == 200
        assert verdict(access, "GET", path, HERE) == verdict(access, "GET", path, HERE, b"k") == 401


def test_models_are_for_whoever_may_ask_them():
    access = rules(admin_key=("a",), api_key=("k",))
    assert verdict(access, "GET", "/v1/models", HERE) == verdict(access, "GET", "/v1/models", HERE, b"x") == 401
    assert verdict(access, "GET", "/v1/models", FAR, b"k") == verdict(access, "GET", "/v1/models", FAR, b"a") == 200
    assert verdict(rules(), "GET", "/v1/models", FAR) == 200


def test_engines_of_private_networks_may_register():
    access = rules()
    for peer, expected in ((HERE, 200), (NEAR, 200), (FAR, 403), ("", 403)):
        assert verdict(access, "POST", "/register", peer) == expected


def test_networks_and_keys_widen_and_narrow_registration():
    access = rules(allow_registration_from=("203.0.113.0/24",), admin_key=("a",))
    assert verdict(access, "POST", "/register", FAR) == 200
    assert verdict(access, "POST", "/register", NEAR) == verdict(access, "POST", "/register", HERE) == 403
    assert verdict(access, "POST", "/register", NEAR, b"a") == 200
    nobody = rules(allow_registration_from=("none",), admin_key=("a",))
    assert verdict(nobody, "POST", "/register", HERE) == 403
    assert verdict(nobody, "POST", "/register", FAR, b"a") == 200


@pytest.mark.parametrize(
    ("origin", "host", "expected"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1:8000", 200),
        ("http://[::1]:8000", "[::1]:8000", 200),
        ("http://localhost:8000", "localhost:8000", 200),
        ("https://10.0.0.1", "10.0.0.1", 200),
        ("https://chat.example", "127.0.0.1:8000", 200),
        ("https://evil.example", "127.0.0.1:8000", 403),
        ("http://127.0.0.1:9000", "127.0.0.1:8000", 403),
        ("null", "127.0.0.1:8000", 403),
        # DNS rebinding: the page's own name points here now.
        ("http://evil.example:8000", "evil.example:8000", 403),
    ],
)
def test_a_page_of_another_site_changes_nothing(origin, host, expected):
    access = rules(cors=("https://chat.example",))
    assert verdict(access, "POST", "/workers", HERE, origin=origin, host=host) == expected
    assert verdict(rules(admin_key=("a",)), "POST", "/workers", HERE, b"a", origin, host) == 200


async def test_refusals_say_what_to_do_and_come_in_the_endpoints_form(start_control, caplog):
    control = await start_control(
        security={"admin_key": ["canary-a"], "api_key": ["canary-k"], "allow_registration_from": ["192.0.2.0/24"]}
    )
    answer = await control.call("POST", "/register", {"role": "mixed"})
    assert answer.status == answer.body["code"] == 403
    assert "--allow-registration-from 127.0.0.1" in answer.body["msg"]
    answer = await control.call("POST", "/workers", {}, headers={"Authorization": "Bearer canary-wrong"})
    assert answer.status == answer.body["code"] == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert "Authorization: Bearer KEY" in answer.body["msg"]
    for path, method in (("/v1/abort_requests", "POST"), ("/v1/models", "GET")):
        answer = await control.call(method, path)
        assert (answer.status, answer.body["error"]["code"]) == (401, "invalid_api_key")
    answer = await control.call("POST", "/v1/abort_requests", {}, headers={"x-api-key": "canary-a"})
    assert answer.status == 400
    assert (await control.call("GET", "/v1/models", headers={"Authorization": "Bearer canary-k"})).status == 200
    lines = [record.getMessage() for record in caplog.records if "refused" in record.getMessage()]
    assert any(line.startswith("control request from 127.0.0.1 is refused: POST /workers") for line in lines)
    assert not any("canary" in line for line in lines)


async def test_this_host_registers_and_changes_workers_without_any_key(start_control):
    control = await start_control()
    answer = await control.call("POST", "/workers", {"url": "http://127.0.0.1:1"})
    assert answer.status == 200
    answer = await control.call(
        "POST", "/workers", {"url": "http://127.0.0.1:2"}, headers={"Origin": "http://evil.example"}
    )
    assert answer.status == 403
    assert "--cors-allowed-origins" in answer.body["msg"]
