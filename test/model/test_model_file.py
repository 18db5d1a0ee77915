# SPDX-License-Identifier: Apache-2.0
"""What lies in a model folder in place of a model file is told with the likely cause."""

from __future__ import annotations

import json

import pytest
from checkpoint_folders import SIZES

from vla_edge_ros.config import ModelSource
from vla_edge_ros.errors import WeightsError
from vla_edge_ros.model.weights import open_weights

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 3087467144\n"


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (LFS, "Git LFS pointer"),
        (b"<!DOCTYPE html>\n<html><body>Sign in</body></html>", "web page"),
        (b"\n  <html lang='en'>", "web page"),
        (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "XML answer of a server"),
        (b"GGUF\x03\x00\x00\x00", "GGUF"),
        (b"PK\x03\x04" + b"\x00" * 60, "torch.save"),
        (b"", "it is empty"),
    ],
)
@pytest.mark.parametrize("file", ["model.safetensors", "model.safetensors.index.json", "config.json"])
def test_what_is_no_model_file_is_told_in_one_line_with_the_likely_cause(tmp_path, file, content, cause):
    (tmp_path / "config.json").write_text(json.dumps(SIZES))
    (tmp_path / file).write_bytes(content)
    with pytest.raises(WeightsError) as caught:
        open_weights(ModelSource(path=str(tmp_path)))
    text = str(caught.value)
    assert text.startswith(f"{tmp_path / file}: ") and cause in text and "\n" not in text


@pytest.mark.parametrize("file", ["model.safetensors", "model.safetensors.index.json", "config.json"])
def test_dangling_link_of_a_hub_cache_is_told_with_its_target(tmp_path, file):
    (tmp_path / "config.json").write_text(json.dumps(SIZES))
    (tmp_path / file).unlink(missing_ok=True)
    (tmp_path / file).symlink_to("../../blobs/4d7a")
    with pytest.raises(WeightsError, match=rf"{file}: .*a link to \.\./\.\./blobs/4d7a, which is missing"):
        open_weights(ModelSource(path=str(tmp_path)))


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_folder_in_place_of_a_file_is_refused_by_name(tmp_path, file):
    (tmp_path / "config.json").write_text(json.dumps(SIZES))
    (tmp_path / file).unlink(missing_ok=True)
    (tmp_path / file).mkdir()
    with pytest.raises(WeightsError, match=rf"{file}: expected .*folder"):
        open_weights(ModelSource(path=str(tmp_path)))
