"""mTLS between processes: each shows a certificate of the deployment's own authority and believes no other (RFC 8446).

All bear one name, so that a node can come and go at any address: whoever has a certificate of the authority is inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import grpc

from servicekit.config import ConfigError

NAME = "ddz.internal"  # the name in the certificate of every process


@dataclass(frozen=True, slots=True)
class Inside:
    """What a process shows to the others, and whose certificates it believes; all PEM."""

    certificate: bytes  # its own first, then those between it and the authority
    key: bytes = field(repr=False)
    authority: bytes
    name: str = NAME

    @classmethod
    def read(cls, certificate: str, key: str, authority: str, name: str = NAME) -> Self | None:
        """From three files; None when none is named. Raises ConfigError that names the setting at fault."""
        if not (certificate or key or authority):
            return None
        return cls(
            certificate=_pem("DDZ_TLS_CERT", certificate),
            key=_pem("DDZ_TLS_KEY", key),
            authority=_pem("DDZ_TLS_CA", authority),
            name=name,
        )

    def server_credentials(self) -> grpc.ServerCredentials:
        """For a server that refuses callers without a certificate of the authority."""
        return grpc.ssl_server_credentials([(self.key, self.certificate)], self.authority, require_client_auth=True)

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """For a channel; go with `channel_options`."""
        return grpc.ssl_channel_credentials(self.authority, self.key, self.certificate)

    def channel_options(self) -> tuple[tuple[str, Any], ...]:
        """Makes a channel expect the common name, whatever the address."""
        return (("grpc.ssl_target_name_override", self.name),)


def _pem(setting: str, path: str) -> bytes:
    if not path:
        raise ConfigError(f"{setting} is not set: TLS between processes needs a certificate, a key and an authority.")
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{setting} cannot be read: {error.strerror} ({path}).") from None


def channel(target: str, inside: Inside | None = None, options: tuple[tuple[str, Any], ...] = ()) -> grpc.Channel:
    """As `aio_channel`, for who does not run an event loop."""
    if inside is None:
        return grpc.insecure_channel(target, options=options)
    options = (*options, *inside.channel_options())
    return grpc.secure_channel(target, inside.channel_credentials(), options=options)


def aio_channel(
    target: str,
    inside: Inside | None = None,
    options: tuple[tuple[str, Any], ...] = (),
    interceptors: Sequence[grpc.aio.ClientInterceptor] = (),
) -> grpc.aio.Channel:
    """A channel to a process of the deployment, with mTLS when `inside` is given."""
    if inside is None:
        return grpc.aio.insecure_channel(target, options=options, interceptors=interceptors)
    options = (*options, *inside.channel_options())
    return grpc.aio.secure_channel(target, inside.channel_credentials(), options=options, interceptors=interceptors)
