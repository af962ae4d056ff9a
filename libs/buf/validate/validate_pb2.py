"""Registers protovalidate's rule options, which the generated code imports, from the package's own descriptor."""

from google.protobuf import (  # noqa: F401  the file's own imports must be in the pool first
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    field_mask_pb2,
    timestamp_pb2,
)
from protovalidate._gen.buf.validate import validate_pb

DESCRIPTOR = descriptor_pool.Default().AddSerializedFile(validate_pb.desc().proto.to_binary())
