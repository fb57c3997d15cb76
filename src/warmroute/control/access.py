"""Who may call control endpoints. What only reads is open to whoever reaches the port; what changes something is not.

* `/register`: from the networks that `allow-registration-from` names, or with an admin key. A registered worker gets
  users' prompts.
* Whatever else is not a GET, HEAD or OPTIONS, endpoints yet to come among them: with an admin key. If there are none:
  from this host, and then not by a web page that happens to be open there (a page of another site may send requests
  to any address that its visitor's browser reaches).
* `/admin/`: open like all that reads, but with an admin key if there are any.
* `/v1/models`: with an API or admin key, if API keys are asked for.

No answer and no log line repeats a key.
"""

from __future__ import annotations

from fastapi.responses import Response
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from warmroute.access.keyring import NOBODY, Keyring, presented_key
from warmroute.access.networks import LOOPBACK, Networks, parse_peer
from warmroute.config.tree import Config
from warmroute.control.errors import ControlError, OpenAIError, control_response, openai_response
from warmroute.control.rejections import Rejections

_READING = ("GET", "HEAD", "OPTIONS")
_CONTRACT = ("/register", "/deregister", "/workers")
_HOW = "'Authorization: Bearer KEY'"
_CHALLENGE = {"WWW-Authenticate": "Bearer"}


class AccessRules:
    """What is let in. `refusal` is pure: it judges what a request says of itself and whom it comes from."""

    def __init__(self, config: Config) -> None:
        security = config.security
        self._api_keys = Keyring(security.api_key)
        self._admin_keys = Keyring(security.admin_key)
        self._registrars = Networks(security.allow_registration_from)
        self._here = Networks((LOOPBACK,))
        self._origins = frozenset(config.server.cors_allowed_origins)

    def refusal(self, method: str, path: str, peer: str, key: bytes, origin: str, host: str) -> tuple[int, str] | None:
        """Status and reason if the request is not let in."""
        if method in _READING:
            if path.startswith("/admin/") and self._admin_keys and not self._is_admin(key):
                return 401, _wants_admin(method, path, key)
            return self._models(key) if path == "/v1/models" and self._api_keys else None
        if self._is_admin(key):
            return None
        if path == "/register" and method == "POST":
            return self._registration(peer)
        if self._admin_keys:
            return 401, _wants_admin(method, path, key)
        if peer not in self._here:
            return 403, (
                f"{method} {path} from {peer or 'an unknown address'}: without admin keys only this host "
                f"may change anything; start the router with --admin-key and send {_HOW}"
            )
        if origin and not self._is_own(origin, host):
            return 403, (
                f"{method} {path} by a web page of {origin[:200]}: name it in --cors-allowed-origins, or "
                f"start the router with --admin-key and send {_HOW}"
            )
        return None

    def _models(self, key: bytes) -> tuple[int, str] | None:
        if self._api_keys.holder(key) != NOBODY or self._is_admin(key):
            return None
        return 401, f"{'Invalid API key' if key else 'An API key is required'}; send it as {_HOW}"

    def _registration(self, peer: str) -> tuple[int, str] | None:
        if peer in self._registrars:
            return None
        address = parse_peer(peer)
        return 403, (
            f"registration from {peer or 'an unknown address'}: allowed are {self._registrars}; start the "
            f"router with --allow-registration-from {address or 'CIDR'}, or with --admin-key and send {_HOW}"
        )

    def _is_admin(self, key: bytes) -> bool:
        return self._admin_keys.holder(key) != NOBODY

    def _is_own(self, origin: str, host: str) -> bool:
        """Whether a page comes from this router itself, or from an origin that was named. A host that has a name
        other than localhost proves nothing: whoever owns a name can let it point here.
        """
        if origin in self._origins:
            return True
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        is_address = name == "localhost" or parse_peer(name.strip("[]")) is not None
        return is_address and origin in (f"http://{host}", f"https://{host}")


def _wants_admin(method: str, path: str, key: bytes) -> str:
    needs = f"{method} {path} needs an admin key"
    return f"{needs}, and the key that came is none; send one as {_HOW}" if key else f"{needs}; send it as {_HOW}"


class AccessGuard:
    """ASGI middleware: answers what the rules refuse, and logs it without flooding."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self._app = app
        self._rules = rules
        self._rejections = Rejections("control request from")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; anything else than a request passes through."""
        if scope["type"] == "http" and (answer := self._judge(Request(scope))) is not None:
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _judge(self, request: Request) -> Response | None:
        peer = request.client.host if request.client else ""
        path = request.scope["path"]
        fields = request.headers
        key = presented_key(
            fields.get("authorization", "").encode("latin-1"), fields.get("x-api-key", "").encode("latin-1")
        )
        refused = self._rules.refusal(request.method, path, peer, key, fields.get("origin", ""), fields.get("host", ""))
        if refused is None:
            return None
        status, reason = refused
        self._rejections.rejected(peer, reason)
        headers = _CHALLENGE if status == 401 else {}
        if path.startswith(_CONTRACT):
            return control_response(ControlError(status, reason), headers)
        code = "invalid_api_key" if status == 401 else "forbidden"
        return openai_response(OpenAIError(status, reason, code=code), headers)
