# SPDX-License-Identifier: Apache-2.0
"""Results of episodes as lines of text and JSON."""

import pytest

from vla_edge_ros.errors import ConfigError, SourceError
from vla_edge_ros.tabletop import task_names, tasks
from vla_edge_ros.tabletop.config import TabletopConfig
from vla_edge_ros.tabletop.episode import Episode
from vla_edge_ros.tabletop.results import append_result, read_results, result_of


def played(seed: int, follow: bool):
    episode = Episode(tasks.draw("point", seed, 3), physics=False)
    while not episode.ended:
        episode.step(episode.expert() if follow else (0.0, 0.0))
    return result_of(episode, seed, actions=5, refused=1, skipped=2)


def test_results_come_back_as_they_were_written(tmp_path):
    path, written = tmp_path / "runs" / "r.jsonl", [played(1, True), played(2, False)]
    assert read_results(path) == []
    for result in written:
        append_result(path, result)
    assert read_results(path) == written
    with path.open("a") as file:
        file.write('{"episode": 3, "ta')  # a line that is being written
    assert read_results(path) == written
    path.write_text("{}\n")
    with pytest.raises(SourceError, match="expected a line of JSON"):
        read_results(path)


def test_the_text_says_what_was_touched_and_how_soon():
    right, none = played(1, True), played(2, False)
    assert right.succeeded and "touched the right button" in right.text
    assert right.cycles == right.cycles_to_touch + 3
    assert none.touched is None and "touched no button in time, 3.7 s after" in none.text


def test_the_tasks_take_turns_with_their_own_delays():
    config = TabletopConfig(tasks=("point", "recall", "recall"), delays=(0, 7, 90), first_seed=5)
    assert [config.episode(number) for number in range(4)] == [
        ("point", 5, 0),
        ("recall", 6, 7),
        ("recall", 7, 90),
        ("point", 8, 0),
    ]
    assert tasks.TASKS is task_names.TASKS
    with pytest.raises(ConfigError, match="at least one task"):
        TabletopConfig(tasks=(), delays=())
