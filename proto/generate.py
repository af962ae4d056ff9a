"""Turns proto/ into libs/ddz (Python, stubs), the gateway's descriptor set, and the image that buf lints.

The rules of protovalidate are imported by our files. Their source is not ours to keep, so they are taken from the
installed package as a descriptor (docs/decisions/0003). Run by `make proto`; `--check` fails when libs/ddz is stale.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from google.protobuf import descriptor_pb2
from grpc_tools import protoc
from protovalidate._gen.buf.validate import validate_pb

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
WELL_KNOWN = Path(protoc.__file__).parent / "_proto"
GOOGLEAPIS = Path(sysconfig.get_path("purelib"))


def validate_descriptors(folder: Path) -> Path:
    """Writes buf/validate/validate.proto and what it imports as a descriptor set; returns its path."""
    found = descriptor_pb2.FileDescriptorSet()
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", f"-I{WELL_KNOWN}", f"-I{GOOGLEAPIS}", "--include_imports"]
        + [f"--descriptor_set_out={folder / 'well_known.pb'}", "google/api/annotations.proto"]
        + [f"google/protobuf/{name}.proto" for name in ("duration", "timestamp", "field_mask", "any")],
        check=True,
    )
    found.ParseFromString((folder / "well_known.pb").read_bytes())
    found.file.append(descriptor_pb2.FileDescriptorProto.FromString(validate_pb.desc().proto.to_binary()))
    path = folder / "imports.pb"
    path.write_bytes(found.SerializeToString())
    return path


def run_protoc(imports: Path, source: Path, *flags: str) -> None:
    """Runs protoc over every file of ddz in `source`; exits with its code when it fails."""
    files = sorted(str(path.relative_to(source)) for path in (source / "ddz").rglob("*.proto"))
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"--descriptor_set_in={imports}",
        f"-I{source}",
        *flags,
        *files,
    ]
    done = subprocess.run(command, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)


def generate(out: Path) -> None:
    """Writes the Python tree below `out` (out/ddz/...)."""
    with tempfile.TemporaryDirectory() as temporary:
        imports = validate_descriptors(Path(temporary))
        plugins = Path(sys.executable).parent
        run_protoc(
            imports,
            PROTO,
            f"--plugin=protoc-gen-mypy={plugins / 'protoc-gen-mypy'}",
            f"--plugin=protoc-gen-mypy_grpc={plugins / 'protoc-gen-mypy_grpc'}",
            *(f"--{kind}_out={out}" for kind in ("python", "grpc_python", "mypy", "mypy_grpc")),
        )


def image(path: Path, source: Path = PROTO) -> None:
    """Writes all descriptors with their comments and imports: what Envoy transcodes by and buf lints."""
    with tempfile.TemporaryDirectory() as temporary:
        imports = validate_descriptors(Path(temporary))
        path.parent.mkdir(parents=True, exist_ok=True)
        run_protoc(imports, source, "--include_imports", "--include_source_info", f"--descriptor_set_out={path}")


def stale(out: Path, committed: Path) -> list[str]:
    """Names of generated files that differ from the committed ones, or stand on one side only."""
    suffixes = {".py", ".pyi"}
    names = {
        path.relative_to(base)
        for base in (out, committed)
        for path in base.rglob("*")
        if path.suffix in suffixes and "__pycache__" not in path.parts
    }

    def content(base: Path, name: Path) -> bytes:
        return (base / name).read_bytes() if (base / name).exists() else b""

    return sorted(str(name) for name in names if content(out, name) != content(committed, name))


def main() -> None:
    """Generates, checks, or writes the image, as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="exit 1 when libs/ddz is not what proto/ says")
    parser.add_argument("--image", type=Path, help="write the descriptor image here instead")
    parser.add_argument("--source", type=Path, default=PROTO, help="with --image: protos other than ours")
    arguments = parser.parse_args()
    if arguments.image:
        image(arguments.image, arguments.source)
        return
    with tempfile.TemporaryDirectory() as temporary:
        generate(Path(temporary))
        fresh, committed = Path(temporary) / "ddz", ROOT / "libs" / "ddz"
        if arguments.check:
            names = stale(fresh, committed)
            if names:
                raise SystemExit(f"libs/ddz is stale ({', '.join(names[:3])} …): run `make proto` and commit it.")
            return
        shutil.rmtree(committed, ignore_errors=True)
        shutil.copytree(fresh, committed)


if __name__ == "__main__":
    main()
