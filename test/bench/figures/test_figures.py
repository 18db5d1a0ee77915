# SPDX-License-Identifier: Apache-2.0
"""Every figure that a page marks is what the data files say."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

from vla_edge_ros.bench.figures import latency_picture, pages
from vla_edge_ros.bench.figures.__main__ import main
from vla_edge_ros.bench.figures.data import FOLDER, ROOT, row, short

MARKED = {page: page.read_text(encoding="utf-8") for page in pages.pages()}


def test_pages_and_picture_are_what_the_data_say():
    names = [str(path.relative_to(ROOT)) for path in pages.stale()]
    assert not names, "run: python -m vla_edge_ros.bench.figures"


def test_every_mark_names_a_figure_and_is_closed():
    for page, text in MARKED.items():
        begun = re.findall(r"<!-- figures: ([^ ]+) -->", text)
        assert set(begun) <= set(pages.FIGURES), page
        assert len(begun) == text.count("<!-- end -->"), page


def test_the_readme_takes_its_table_from_the_data():
    assert "<!-- figures: measured -->" in MARKED[ROOT / "README.md"]


def test_a_changed_figure_is_found_and_mended():
    page = "It takes <!-- figures: plain-chunk-ms -->1.00<!-- end --> ms.\n"
    chunks = json.loads((FOLDER / "chunk-h200.json").read_text(encoding="utf-8"))["rows"]
    plain = next(each for each in chunks if each["draft"] == "off")  # the first is bf16, persistent
    assert f"-->{plain['chunk_ms']['median']:.2f}<!--" in pages.filled(page)
    block = "<!-- figures: chunk -->\n| old |\n<!-- end -->\n"
    assert "| old |" not in pages.filled(block)
    assert pages.filled(pages.filled(block)) == pages.filled(block)


def test_the_program_tells_and_then_mends(monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- figures: plain-chunk-ms -->1.00<!-- end -->\n", encoding="utf-8")
    monkeypatch.setattr(pages, "pages", lambda: [page])
    assert main(["--check"]) == 1
    assert "1.00" in page.read_text(encoding="utf-8")
    assert main([]) == 0
    assert main(["--check"]) == 0
    assert "1.00" not in page.read_text(encoding="utf-8")


def test_an_unknown_figure_is_an_error():
    with pytest.raises(KeyError, match="no-such"):
        pages.filled("<!-- figures: no-such -->1<!-- end -->")


def test_a_row_must_be_the_only_one():
    with pytest.raises(LookupError, match="expected one row"):
        row("chunk-h200", engine="vla_edge_ros")


def test_three_digits_that_mean_something():
    assert [short(value) for value in (0.6742, 1.943, 9.996, 17.36, 99.96, 232.3)] == [
        "0.67",
        "1.94",
        "10.0",
        "17.4",
        "100",
        "232",
    ]


def test_the_picture_holds_each_runs_slowest_message():
    root = ElementTree.fromstring(latency_picture.render())
    said = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    for name, _, _ in latency_picture.RUNS:
        run = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["rows"][0]
        assert f"{run['latency_ms_max']:.1f}" in said
