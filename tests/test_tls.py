"""Which certificate files are used, what is wrong with others, and how a renewed one is taken over."""

import logging
import ssl

import pytest
import trustme

from warmroute.cli.settings import effective_config
from warmroute.config.load import ConfigError
from warmroute.tls import ClientTls, ServerTls, TlsError


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def write(tmp_path, authority):
    """Write the files of a fresh certificate; in one file if `together`."""

    def write(name="cert", *, together=False):
        made = authority.issue_cert("127.0.0.1", "localhost")
        cert, key = tmp_path / f"{name}.pem", tmp_path / f"{name}.key"
        if together:
            made.private_key_and_cert_chain_pem.write_to_path(cert)
            return str(cert), ""
        made.cert_chain_pems[0].write_to_path(cert)
        made.private_key_pem.write_to_path(key)
        return str(cert), str(key)

    return write


def handshake(server: ssl.SSLContext, authority: trustme.CA) -> bytes:
    """The certificate that a client sees, as DER. In memory: each side's bytes are the other's input."""
    client = ssl.create_default_context()
    authority.configure_trust(client)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        for end in list(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ends.remove(end)
            if not end.server_side:
                seen = end.getpeercert(binary_form=True)
    return seen


@pytest.mark.parametrize("together", [False, True])
def test_the_key_may_stand_in_a_file_of_its_own(write, authority, together):
    assert handshake(ServerTls(*write(together=together)).context, authority)


def test_a_renewed_certificate_is_shown_from_the_next_look_on(write, authority, caplog):
    caplog.set_level(logging.INFO)
    tls = ServerTls(*write())
    first = handshake(tls.context, authority)
    tls.look()
    assert not caplog.messages
    write()
    assert handshake(tls.context, authority) == first
    tls.look()
    second = handshake(tls.context, authority)
    assert second != first
    assert caplog.messages == [f"the certificate was renewed: {tls._files._cert}"]


def test_a_renewal_that_is_half_done_leaves_the_old_certificate(write, authority, caplog, tmp_path):
    cert, key = write()
    tls = ServerTls(cert, key)
    first = handshake(tls.context, authority)
    other, other_key = write("other")
    with open(other) as source, open(cert, "w") as target:
        target.write(source.read())
    tls.look()
    tls.look()
    assert handshake(tls.context, authority) == first
    assert len(caplog.messages) == 1
    assert "the private key is not that of the certificate" in caplog.messages[0]
    with open(other_key) as source, open(key, "w") as target:
        target.write(source.read())
    tls.look()
    assert handshake(tls.context, authority) != first


def test_our_certificate_for_workers_is_renewed_in_the_context_that_is_in_use(write, authority):
    """What a server sees of it, tests/behaviour/test_tls_to_workers.py says."""
    tls = ClientTls("", *write(), insecure=True)
    context = tls.context
    write()
    tls.look()
    assert tls.context is context


@pytest.mark.parametrize(
    ("cert", "key", "reason"),
    [
        ("missing.pem", "", "No such file"),
        ("cert.pem", "", "no private key, in PEM form .a key in a file of its own has an option of its own"),
        ("cert.pem", "other.key", "the private key is not that of the certificate"),
        ("garbage.pem", "cert.key", "in PEM form"),
    ],
)
def test_what_is_wrong_with_the_files_is_told_in_a_line(write, tmp_path, cert, key, reason):
    write()
    write("other")
    (tmp_path / "garbage.pem").write_text("canary")
    with pytest.raises(TlsError, match=reason) as caught:
        ServerTls(str(tmp_path / cert), str(tmp_path / key) if key else "")
    assert cert in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "canary" not in str(caught.value)


def test_the_start_names_the_option(write, tmp_path):
    cert, key = write()
    (tmp_path / "garbage.pem").write_text("x")
    garbage = str(tmp_path / "garbage.pem")
    for flags, says in (
        (("--tls-key", key), "--tls-key needs tls-cert"),
        (("--upstream-key", key), "--upstream-key needs upstream-cert"),
        (("--tls-cert", garbage, "--tls-key", key), "--tls-cert: "),
        (("--upstream-ca", garbage), "--upstream-ca: "),
        (("--upstream-ca", cert, "--upstream-insecure"), "--upstream-ca is not used with upstream-insecure"),
        (("--upstream-cert", garbage), "--upstream-cert: "),
    ):
        with pytest.raises(ConfigError) as caught:
            effective_config(["--port", "1", *flags], {})
        assert str(caught.value).startswith(says)
    effective_config(["--port", "1", "--tls-cert", cert, "--tls-key", key, "--upstream-ca", cert], {})
