"""A client of a running router's admin endpoints, for the commands that look at one."""

from __future__ import annotations

import os
import ssl
from argparse import ArgumentParser, Namespace
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import SplitResult, quote, urlsplit

import msgspec

from warmroute.cli.router_view import History, State
from warmroute.cli.values import is_http_url

DEFAULT_URL = "http://127.0.0.1:30000"
KEY_VARIABLE = "WARMROUTE_ADMIN_KEY"


class RouterError(ValueError):
    """The router cannot be reached, refuses, or says what is not understood. The message is one line."""


def add_connection_arguments(parser: ArgumentParser) -> None:
    """Which router, and how it is spoken to."""
    parser.add_argument("url", nargs="?", default=DEFAULT_URL, metavar="URL", help="the router (default: %(default)s)")
    parser.add_argument("--admin-key", metavar="KEY", help=f"for a router that wants one [env: {KEY_VARIABLE}]")
    parser.add_argument("--ca", metavar="FILE", help="certificates to trust for an https URL (default: the system's)")


def client_for(args: Namespace, timeout: float) -> AdminClient:
    """The client that the command line asks for. Raises RouterError for a URL or a file that cannot be used."""
    keys = args.admin_key or os.environ.get(KEY_VARIABLE, "")
    try:
        tls = ssl.create_default_context(cafile=args.ca) if args.url.startswith("https:") else None
    except OSError as error:
        raise RouterError(f"--ca {args.ca}: {error}") from error
    # The variable may list the keys of a router; each of them will do.
    return AdminClient(args.url, keys.partition(",")[0].strip(), timeout, tls)


class AdminClient:
    """Asks one router, over a new connection each time. Proxies are not used. `timeout` is in seconds."""

    def __init__(self, url: str, key: str, timeout: float, tls: ssl.SSLContext | None = None) -> None:
        self.url = url.rstrip("/")
        self._parts = _split(self.url)
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        self._timeout = timeout
        self._tls = tls

    def raw_state(self) -> bytes:
        """The body of /admin/state. Raises RouterError, as the other methods do."""
        return self._ask("GET", "/admin/state")

    def state(self) -> State:
        """The router at this moment."""
        return read_state(self.raw_state())

    def history(self) -> History:
        """Its last minutes."""
        try:
            return msgspec.json.decode(self._ask("GET", "/admin/history"), type=History)
        except msgspec.MsgspecError as error:
            raise RouterError(f"{self.url} does not answer like a router of this version: {error}") from error

    def hold(self, worker: str, *, drained: bool) -> None:
        """Drain a worker, or end that."""
        self._ask("POST", f"/workers/{quote(worker, safe='')}/{'drain' if drained else 'undrain'}")

    def _ask(self, method: str, path: str) -> bytes:
        where = self._parts
        if self._tls is not None:
            connection: HTTPConnection = HTTPSConnection(
                where.netloc.rpartition("@")[2], timeout=self._timeout, context=self._tls
            )
        else:
            connection = HTTPConnection(where.netloc.rpartition("@")[2], timeout=self._timeout)
        try:
            connection.request(method, where.path + path, headers=self._headers)
            response = connection.getresponse()
            body = response.read()
        except ssl.SSLCertVerificationError as error:
            raise RouterError(
                f"the certificate of {self.url} is not trusted ({error.verify_message}); "
                f"name the certificates to trust with --ca FILE"
            ) from error
        except (OSError, HTTPException) as error:
            raise RouterError(f"no router answers at {self.url}: {error or type(error).__name__}") from error
        finally:
            connection.close()
        if response.status == 401:
            raise RouterError(f"{self.url}{path} answers 401: {_reason(body)}; --admin-key or {KEY_VARIABLE} names it")
        if response.status != 200:
            raise RouterError(f"{self.url}{path} answers {response.status}: {_reason(body)}")
        return body


def read_state(body: bytes) -> State:
    """The body of /admin/state. Raises RouterError if it is none."""
    try:
        return msgspec.json.decode(body, type=State)
    except msgspec.MsgspecError as error:
        raise RouterError(f"what answers is no router of this version: {error}") from error


def _split(url: str) -> SplitResult:
    if not is_http_url(url):
        raise RouterError(f"{url!r} is no URL of a router; expected something like {DEFAULT_URL}")
    return urlsplit(url)


class _Told(msgspec.Struct):
    msg: str = ""
    error: dict[str, str | None] = {}  # msgspec copies it


def _reason(body: bytes) -> str:
    try:
        told = msgspec.json.decode(body, type=_Told)
    except msgspec.MsgspecError:
        return "it is no router, or an older one"
    return told.msg or told.error.get("message") or "no reason given"
