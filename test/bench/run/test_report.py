# SPDX-License-Identifier: Apache-2.0
"""The report of a run whose every number is known: the raw numbers, the page, and that both say the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from made_run import calm, plan, write_run

from vla_edge_ros.bench.run.blocks import shown
from vla_edge_ros.bench.run.measures import camera
from vla_edge_ros.bench.run.report import comparisons_of, page_of, write_report
from vla_edge_ros.bench.run.run_file import INCOMPLETE, RUN_FILE
from vla_edge_ros.bench.run.trial_data import read_run, split
from vla_edge_ros.errors import SourceError

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    """Tags in order with their attributes, tables as rows of text; refuses what is not closed in order."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[list[list[str]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        if self._open and self._open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data
        self.words.append(data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = write_run(tmp_path_factory.mktemp("runs") / "made", plan(), calm)
    write_report(read_run(made))
    return made


@pytest.fixture(scope="module")
def document(folder) -> dict[str, Any]:
    return json.loads((folder / "report.json").read_text())


@pytest.fixture(scope="module")
def page(folder) -> Page:
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def raw_tables(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for section in document["sections"]:
        yield from section["tables"]


def test_counts_and_quantiles_are_those_of_the_cycles(document):
    """Worked out by hand and by NumPy, not by the code under test."""
    fifo, novelty = document["measures"]["fifo"], document["measures"]["novelty"]
    assert fifo["outcomes"] == {"acted": 600, "late": 6} and fifo["warmup_outcomes"] == {"acted": 61}
    assert fifo["estimates"]["miss_rate"]["value"] == pytest.approx(6 / 606)
    assert novelty["estimates"]["miss_rate"]["value"] == 0
    assert novelty["estimates"]["fallback_rate"]["value"] == pytest.approx(60 / 606, abs=1 / 606)
    assert novelty["refusals"]["refused"] == {"over_budget": novelty["outcomes"]["refused"]}
    latency = np.array([10.0 + c % 5 for c in range(62, 668) if c % 101])
    for name, q in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        assert fifo["stages"]["latency"][name] == np.quantile(latency, q, method="higher")
        # 5 ms old when it was taken, 1 ms after the grid point.
        assert fifo["stages"]["to_action"][name] == fifo["stages"]["latency"][name] + 5.0 - 1.0
    assert fifo["stages"]["chunk"]["p50"] == 8.5 and fifo["stages"]["decode"]["max"] == 5.0
    assert fifo["predictions"]["error_ms_p50"] == pytest.approx(0.5)
    assert fifo["fallbacks"]["longest_repeat"] == 1 and fifo["fallbacks"]["longest_without_fresh"] == 1
    assert fifo["memory"]["reasoner"]["peak_mb"] == pytest.approx(102.49)
    assert fifo["decoding"]["passes"] == {"6": 600}


def test_an_even_camera_has_no_jitter_but_that_of_the_made_stamps(document):
    """Two pictures a cycle of 33 ms beside 60 Hz: each gap is 33 - 2 * 16.67 ms."""
    camera = document["measures"]["fifo"]["camera"]
    assert camera["off_ms_max"] == pytest.approx(2 * 1000 / 60 - 33.0, abs=1e-3)
    assert camera["late_by_a_period"] == 0 and camera["pauses"] == 0


def test_a_camera_that_stops_for_a_while_is_counted_apart(tmp_path):
    """0.5 s without a picture, and one picture that came a period late."""

    def records(trial):
        made = list(calm(trial))
        for index, record in enumerate(made):
            late_ns = (index >= 300) * 500_000_000 + (index == 200) * 16_666_667
            made[index] = replace(record, frame_stamp_ns=record.frame_stamp_ns + late_ns)
        return made

    run = read_run(write_run(tmp_path / "stop", plan(policies=("fifo",)), records))
    found = camera(run.of("fifo"), 60.0)
    assert (found["pauses"], found["late_by_a_period"]) == (1, 1)
    assert found["longest_pause_ms"] == pytest.approx(533.0) and found["off_ms_max"] == pytest.approx(
        17.0, abs=0.1
    )


def test_every_table_of_the_page_has_the_numbers_of_the_json_file(document, page):
    raw = list(raw_tables(document))
    assert len(page.tables) == len(raw) > 10
    for written, table in zip(page.tables, raw, strict=True):
        kinds = [kind for _, kind in table["columns"]]
        assert written[0] == [title for title, _ in table["columns"]]
        expected = [[shown(k, v) for k, v in zip(kinds, row, strict=True)] for row in table["rows"]]
        assert written[1:] == expected


def test_every_table_of_the_text_has_them_too(folder, document):
    text = (folder / "report.md").read_text(encoding="utf-8").replace("\\", "")
    for table in raw_tables(document):
        for row in table["rows"]:
            cells = [shown(kind, value) for (_, kind), value in zip(table["columns"], row, strict=True)]
            assert f"| {' | '.join(cells)} |" in text


def test_the_page_needs_no_network_and_runs_nothing(folder, page):
    for tag, attributes in page.tags:
        assert tag not in ("script", "link", "iframe", "object", "embed")
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in ("href", "src", "xlink:href", "action"):
                assert value.startswith(("#", "data:image/png;base64,")), value
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\s\"'<]+", text)) == {"http://www.w3.org/2000/svg"}  # a name
    assert "url(" not in text and "@import" not in text


def test_every_figure_says_in_words_what_it_shows(folder, document):
    figures = [figure for section in document["sections"] for figure in section["figures"]]
    names = {figure["name"] for figure in figures}
    assert {
        "deadline-misses", "latency", "stages", "fallbacks", "refusals", "predictions", "camera",
        "memory-reasoner", "kept-fifo", "pictures-novelty", "decoding",
    } <= names  # fmt: skip
    assert all(len(figure["alt"]) > 30 and figure["caption"] for figure in figures)
    text = (folder / "report.html").read_text(encoding="utf-8")
    drawings = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(drawings) == len(figures)
    for drawing, figure in zip(drawings, figures, strict=True):
        root = ElementTree.fromstring(drawing)
        assert root.get("role") == "img"
        assert root[0].tag.endswith("title") and root[0].text == figure["alt"]
        assert "nan" not in drawing.lower().replace("finance", "")
    markdown = (folder / "report.md").read_text(encoding="utf-8")
    for target in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", markdown):
        assert (folder / target).is_file()


def test_the_page_can_be_read_without_seeing_it(page):
    tags = [tag for tag, _ in page.tags]
    assert dict(page.tags)["html"]["lang"] == "en" and tags.count("h1") == 1 and "title" in tags
    assert [tag for tag in tags if re.fullmatch(r"h[1-6]", tag)][0] == "h1"
    assert all(a.get("scope") in ("col", "row") for tag, a in page.tags if tag == "th")
    assert tags.count("caption") == tags.count("table")
    idents = [a["id"] for _, a in page.tags if a.get("id")]
    assert len(idents) == len(set(idents))
    for tag, attributes in page.tags:
        if tag == "a":
            assert attributes["href"].removeprefix("#") in idents


def test_two_names_of_one_rule_are_said_and_shown_to_be_one(document, page):
    same = document["sliding_window_against_fifo"]
    assert same["differing"] == 0 and same["frames"] > 1000
    assert "sliding_window is fifo wherever all frames have one size" in " ".join(page.words)


def test_a_clear_difference_is_told_from_noise(document):
    verdicts = {each["metric"]: each["verdict"] for each in document["comparisons"]}
    assert verdicts["cycles without a fresh action"] == "clear in these starts"
    assert verdicts["one chunk, median"] == "equal"
    assert verdicts["late messages"] == "equal"


def test_a_run_that_was_interrupted_says_so_before_all_else(tmp_path):
    made = write_run(tmp_path / "cut", plan(), calm)
    document = json.loads((made / RUN_FILE).read_text())
    document["trials"][1]["status"] = INCOMPLETE
    document["complete"] = False
    document["trials"][0]["other_cores"] = 1.26
    (made / RUN_FILE).write_text(json.dumps(document))
    table = next(made.glob("trials/novelty-1/recording/*/cycles.csv"))
    table.write_bytes(table.read_bytes()[:30_000])  # in the middle of a row
    run = read_run(made)
    text = page_of(run, comparisons_of(run)).notice
    assert "Incomplete: of 2 trials 1 did not run to their end: novelty-1 (incomplete)" in text
    assert "Other programs took up to 1.3 of" in text
    write_report(run)
    assert 'role="alert">Incomplete' in (made / "report.html").read_text(encoding="utf-8")


def test_what_a_user_typed_cannot_become_markup(tmp_path):
    made = write_run(tmp_path / "evil", plan(source="/x/<script>alert(1)<b>.mp4"), calm)
    write_report(read_run(made))
    text = (made / "report.html").read_text(encoding="utf-8")
    assert "<script" not in text and "<b>" not in text
    assert "&lt;script&gt;alert(1)&lt;b&gt;.mp4" in text


def test_a_folder_that_is_no_run_is_named(tmp_path, folder):
    with pytest.raises(SourceError, match="must be a run folder of run_benchmarks"):
        read_run(tmp_path)
    (tmp_path / RUN_FILE).write_text('{"config": {}}')
    with pytest.raises(SourceError, match="got another run.json"):
        read_run(tmp_path)
    empty = write_run(tmp_path / "empty", plan(), lambda trial: [])
    with pytest.raises(SourceError, match="at least one measured cycle"):
        read_run(empty)


def test_the_warm_up_is_counted_from_the_first_picture():
    from made_run import PERIOD_MS, acted

    from vla_edge_ros.types import CycleRecord, Outcome

    waiting = [CycleRecord(cycle, Outcome.NO_FRAME_YET) for cycle in range(1, 11)]
    records = [*waiting, *(acted(cycle) for cycle in range(11, 200)), CycleRecord(-1, Outcome.STOPPED)]
    warmup, measured = split(records, PERIOD_MS, warmup_s=0.99, duration_s=3.3)
    assert [record.cycle for record in measured] == list(range(41, 141))
    assert [record.cycle for record in warmup] == list(range(1, 41))
