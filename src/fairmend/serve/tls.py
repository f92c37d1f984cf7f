"""Certificates: those of both ports, and who vouches for the vendor's."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path

from fairmend.apply.draw import refuse_readable
from fairmend.errors import DataError

__all__ = ["renew", "served_by", "trusting"]


def served_by(certificate: str, key: str) -> ssl.SSLContext:
    """What a port serves with; a `DataError` where the files do not belong together."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        refuse_readable(Path(key), f"config tls_key {key!r}")
        context.load_cert_chain(certificate, key, password=lambda: b"")  # or it would ask for one
    except DataError:
        raise
    except (OSError, ValueError) as error:
        raise _unfit(
            f"config tls_certificate {certificate!r} and tls_key {key!r}",
            "must be PEM files of a certificate and its key, without a password",
            error,
        ) from None
    return context


def renew(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Go by the files as they are now, unless one of them is only half replaced."""
    with suppress(DataError):
        served_by(certificate, key)
        context.load_cert_chain(certificate, key)


def trusting(authorities: str) -> ssl.SSLContext:
    """What calls a server whose certificate these authorities vouch for."""
    try:
        return ssl.create_default_context(cafile=authorities)
    except (OSError, ValueError) as error:
        must = "must be a PEM file of certificates"
        raise _unfit(f"config upstream_ca {authorities!r}", must, error) from None


def _unfit(what: str, must: str, error: Exception) -> DataError:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
    return DataError(what, must, f"it is not: {reason}", "Check the names of the files.")
