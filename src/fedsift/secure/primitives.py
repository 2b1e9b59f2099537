"""X25519, HKDF-SHA256, ChaCha20 and ChaCha20-Poly1305, as ``cryptography`` has them."""

from __future__ import annotations

from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedsift.errors import InputError

KEY = 32
NONCE = b"\0" * 12  # every key encrypts one message


class Primitives:
    """Keys, secrets and messages are bytes; a key has 32 of them."""

    @staticmethod
    def public(private: bytes) -> bytes:
        """Return the public half of an X25519 key."""
        return _private(private)[1]

    @classmethod
    def agreed(cls, private: bytes, public: bytes, purpose: bytes) -> bytes:
        """Return the key that two clients agree on for a purpose."""
        return cls.expanded(_secret(private, public), purpose)

    @staticmethod
    def expanded(secret: bytes, purpose: bytes) -> bytes:
        """Return a key for a purpose."""
        return HKDF(SHA256(), length=KEY, salt=None, info=purpose).derive(secret)

    @staticmethod
    def key_stream(key: bytes, length: int) -> bytes:
        """Return the key stream of ChaCha20."""
        cipher = Cipher(algorithms.ChaCha20(key, b"\0" * 16), mode=None)
        return cipher.encryptor().update(bytes(length))

    @staticmethod
    def seal(key: bytes, message: bytes) -> bytes:
        """Encrypt and authenticate."""
        return ChaCha20Poly1305(key).encrypt(NONCE, message, None)

    @staticmethod
    def unseal(key: bytes, sealed: bytes) -> bytes:
        """Decrypt what was sealed with the same key."""
        try:
            return ChaCha20Poly1305(key).decrypt(NONCE, sealed, None)
        except InvalidTag:
            raise InputError("a share does not come from the client that it names") from None


@lru_cache(maxsize=256)
def _private(private: bytes) -> tuple[X25519PrivateKey, bytes]:
    key = X25519PrivateKey.from_private_bytes(private)
    return key, key.public_key().public_bytes_raw()


@lru_cache(maxsize=4096)  # the secrets of a pair are needed for every sum
def _secret(private: bytes, public: bytes) -> bytes:
    try:
        return _private(private)[0].exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise InputError("a client's public key is not valid; start the round again") from None
