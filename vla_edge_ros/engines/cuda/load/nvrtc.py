# SPDX-License-Identifier: Apache-2.0
"""Compile the kernels with NVRTC; keep the machine code on disk, so that the second start compiles nothing.

The key covers the text of every kernel file, the options and NVRTC's version. (CuPy's own cache leaves
included headers out of its key, so an edit of a ``.cuh`` would go unnoticed.)
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from cupy_backends.cuda.libs import nvrtc

from vla_edge_ros.errors import EngineError, KernelCompileError

CACHE_VARIABLE = "VLA_EDGE_KERNEL_CACHE"
_DIGEST_BYTES = 32


@cache
def kernel_folder() -> Path:
    """``csrc/kernels`` of the source tree, or of the installed share folder."""
    for parent in Path(__file__).resolve().parents:
        for folder in (parent / "csrc/kernels", parent / "share/vla_edge_ros/csrc/kernels"):
            if (folder / "common.cuh").is_file():
                return folder
    raise EngineError(f"expected csrc/kernels beside the package or below share/, found none from {__file__}")


@cache
def kernel_text() -> dict[str, bytes]:
    """Every kernel file by name."""
    files = sorted(kernel_folder().glob("*.cu*"))
    return {path.name: path.read_bytes() for path in files if path.suffix in (".cu", ".cuh")}


def cache_folder() -> Path:
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "vla_edge_ros" / "kernels"


def options(architecture: int, macros: Mapping[str, str | int]) -> tuple[str, ...]:
    defined = (f"-D{name}={value}" for name, value in sorted(macros.items()))
    return (f"-arch=sm_{architecture}", "--std=c++17", "-default-device", "-lineinfo", *defined)


def compile_kernels(file: str, architecture: int, macros: Mapping[str, str | int]) -> bytes:
    """Machine code of ``file`` for ``sm_<architecture>``, from the cache where it is there.

    Raises ``KernelCompileError`` with NVRTC's log, which names file and line.
    """
    chosen = options(architecture, macros)
    path = cache_folder() / f"{_key(file, chosen)}.cubin"
    code = _read(path)
    if code is None:
        code = _compile(file, chosen)
        _write(path, code)
    return code


def compile_anew(file: str, architecture: int, macros: Mapping[str, str | int]) -> bytes:
    """``compile_kernels`` past the cache: to see whether this machine can compile."""
    return _compile(file, options(architecture, macros))


def _key(file: str, chosen: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for part in (file, *chosen, str(nvrtc.getVersion())):
        digest.update(part.encode() + b"\0")
    for name, text in kernel_text().items():
        digest.update(name.encode() + b"\0" + hashlib.sha256(text).digest())
    return digest.hexdigest()


def _compile(file: str, chosen: tuple[str, ...]) -> bytes:
    text = kernel_text()
    headers = [name for name in text if name.endswith(".cuh")]
    program = nvrtc.createProgram(
        text[file].decode(), file, [text[name] for name in headers], [name.encode() for name in headers]
    )
    try:
        nvrtc.compileProgram(program, chosen)
        return nvrtc.getCUBIN(program)
    except nvrtc.NVRTCError as error:
        log = nvrtc.getProgramLog(program)
        raise KernelCompileError(f"{file} with {' '.join(chosen)}: {error}\n{log}") from error
    finally:
        nvrtc.destroyProgram(program)


def _read(path: Path) -> bytes | None:
    """The kept code, unless the file is missing or damaged."""
    try:
        kept = path.read_bytes()
    except OSError:
        return None
    digest, code = kept[:_DIGEST_BYTES], kept[_DIGEST_BYTES:]
    return code if hashlib.sha256(code).digest() == digest else None


def _write(path: Path, code: bytes) -> None:
    """Whole or not at all; a folder that cannot be written only costs the next start its time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(hashlib.sha256(code).digest() + code)
        os.replace(file.name, path)
    except OSError:
        return
