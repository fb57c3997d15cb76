"""Certificates: contexts for both sides of the router, and their renewal while it runs.

A renewed certificate is loaded into the context that is in use: new handshakes get it, connections that are open stay
as they are. It is tried on a context of its own first, so that a file that is half written changes nothing.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

logger = logging.getLogger(__name__)

_NO_PASSWORD = ""  # Else OpenSSL asks for one on the terminal, and waits.
_NOT_PEM = (None, "", "PEM_LIB", "NO_START_LINE", "NO_CERTIFICATE_OR_CRL_FOUND")
Stamp = tuple[tuple[int, int, int], ...]


class TlsError(ValueError):
    """Certificate files that cannot be used; one line, which names them and shows nothing of what is in them."""


class ServerTls:
    """What the router shows its clients. `key` may be empty: then it stands in the file of the certificate."""

    def __init__(self, cert: str, key: str = "") -> None:
        """Raises TlsError."""
        self._files = _Files(cert, key)
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._files.load_into(self.context)

    def look(self) -> None:
        """Load what has changed since the last look. What cannot be loaded is logged once, and the old one stays."""
        self._files.renew(self.context)


class ClientTls:
    """How the router trusts engines over https, and what it shows them. `ca` empty: the system's; `insecure`: any."""

    def __init__(self, ca: str = "", cert: str = "", key: str = "", *, insecure: bool = False) -> None:
        self._ca = ca
        self._insecure = insecure
        self._files = _Files(cert, key) if cert else None
        self._context: ssl.SSLContext | None = None

    @property
    def context(self) -> ssl.SSLContext:
        """Made when it is needed first: reading the system's authorities takes its time. Raises TlsError."""
        if self._context is None:
            self._context = self._make()
        return self._context

    def look(self) -> None:
        """Load a certificate of ours that has changed since the last look."""
        if self._files is not None and self._context is not None:
            self._files.renew(self._context)

    def _make(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self._ca or None)
        except OSError as error:
            raise TlsError(f"{self._ca}: {_reason(error)}") from None
        if self._insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self._files is not None:
            self._files.load_into(context)
        return context


class _Files:
    """A certificate chain and its private key."""

    def __init__(self, cert: str, key: str) -> None:
        self._cert = cert
        self._key = key
        self._seen: Stamp | None = None

    def load_into(self, context: ssl.SSLContext) -> None:
        """Raises TlsError; the context is unchanged then, unless the files change at this very moment."""
        self._seen = self._stamp()
        for target in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), context):
            try:
                target.load_cert_chain(self._cert, self._key or None, _NO_PASSWORD)
            except OSError as error:
                names = f"{self._cert}, {self._key}" if self._key else self._cert
                raise TlsError(f"{names}: {_reason(error)}") from None

    def renew(self, context: ssl.SSLContext) -> None:
        if self._stamp() == self._seen:
            return
        try:
            self.load_into(context)
        except TlsError as error:
            logger.error("the certificate has changed and cannot be used, the one before stays: %s", error)
        else:
            logger.info("the certificate was renewed: %s", self._cert)

    def _stamp(self) -> Stamp:
        found = []
        for path in filter(None, (self._cert, self._key)):
            try:
                state = Path(path).stat()
            except OSError:
                found.append((0, 0, 0))
            else:
                found.append((state.st_mtime_ns, state.st_ino, state.st_size))
        return tuple(found)


def _reason(error: OSError) -> str:
    """Why OpenSSL, or the system, will not have a file."""
    if not isinstance(error, ssl.SSLError):
        return error.strerror or "cannot be read"
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the private key is not that of the certificate"
    if error.reason in _NOT_PEM:
        return (
            "holds no certificate, or no private key, in PEM form (a key in a file of its own has an option of its own)"
        )
    return f"cannot be used ({error.reason})"
