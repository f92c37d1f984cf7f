"""Certificates for tests: an authority of our own, and what it signs."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PEM = serialization.Encoding.PEM
DAY = datetime.timedelta(days=1)


class Authority:
    """Signs certificates; its own is in ``folder/ca.pem``."""

    def __init__(self, folder, name="ca"):
        self.folder = Path(folder)
        self._key, self._name = ec.generate_private_key(ec.SECP256R1()), _named(name)
        self.path = self._write(name, self._certificate(name, self._key, ca=True))

    def sign(self, name):
        """Paths of a certificate for 127.0.0.1 and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        secret = self.folder / f"{name}.key"
        secret.write_bytes(
            key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
        secret.chmod(0o600)
        return self._write(name, self._certificate(name, key)), str(secret)

    def _certificate(self, name, key, *, ca=False):
        now = datetime.datetime.now(datetime.UTC)
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        made = (
            x509.CertificateBuilder(self._name, _named(name), key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
        )
        return made.sign(self._key, hashes.SHA256())

    def _write(self, name, certificate):
        path = self.folder / f"{name}.pem"
        path.write_bytes(certificate.public_bytes(PEM))
        return str(path)


def _named(name):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
