# SPDX-License-Identifier: Apache-2.0
"""Tasks from files: the how-to's own, and files that are none."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from vla_edge_ros.errors import ConfigError
from vla_edge_ros.tabletop.config import TabletopConfig
from vla_edge_ros.tabletop.episode import Episode
from vla_edge_ros.tabletop.own_task import load_own_task, target_of
from vla_edge_ros.tabletop.tasks import draw

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "train-a-policy.md"


@pytest.fixture
def middle(tmp_path) -> str:
    """The file that the how-to prints."""
    code = re.search(r"```python\n(.*?)```", HOW_TO.read_text(), re.DOTALL)
    assert code
    file = tmp_path / "middle.py"
    file.write_text(code.group(1))
    return str(file)


def test_the_how_tos_task_asks_for_the_button_in_the_middle(middle):
    chosen = set()
    for seed in range(30):
        plan, base = draw(middle, seed), draw("point", seed)
        assert (plan.task, plan.instruction) == ("middle", "touch the middle button")
        np.testing.assert_array_equal(plan.path, base.path)
        others = [x for number, x in enumerate(plan.objects_at(0)[:, 0]) if number != plan.target]
        assert min(others) < plan.objects_at(0)[plan.target, 0] < max(others)
        chosen.add(plan.target)
    assert chosen == {0, 1, 2}


def test_its_expert_reaches_it(middle):
    for seed in range(5):
        episode = Episode(draw(middle, seed, 5), physics=False)
        while not episode.ended:
            episode.step(episode.expert())
        assert episode.succeeded


def test_an_expert_of_its_own_is_what_is_asked(tmp_path):
    file = tmp_path / "left.py"
    file.write_text(
        "import numpy as np\nBASE = 'point_moving'\nINSTRUCTION = 'go  left'\n"
        "def target(plan): return 1\n"
        "def expert(hand_xy, target_xy): return np.zeros_like(hand_xy) - [0.1, 0]\n"
    )
    plan = draw(str(file), 3)
    assert plan.instruction == "go left" and len(plan.path) > 1
    np.testing.assert_allclose(Episode(plan, physics=False).expert(), [-0.1, 0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INSTRUCTION = 'go'", "expected a function target"),
        ("def target(plan): return 0", "INSTRUCTION must be a text"),
        ("INSTRUCTION = '  '\ndef target(plan): return 0", "INSTRUCTION must be a text"),
        ("BASE = 'recall'\nINSTRUCTION = 'go'\ndef target(plan): return 0", "BASE must be one of point"),
        ("def", "expected a Python file of a task"),
        ("import no_such_module", "No module named 'no_such_module'"),
        (
            "INSTRUCTION = 'go'\ndef target(plan): return 0\ndef expert(hand, target): return [0, 0]",
            r"finite velocities \[3, 2\], got shape \(2,\)",
        ),
        (
            "INSTRUCTION = 'go'\ndef target(plan): return 0\ndef expert(hand, target): return hand / 0",
            "finite velocities",
        ),
        ("INSTRUCTION = 'go'\ndef target(plan): return 0\ndef expert(): return 0", "expert.* failed"),
        ("INSTRUCTION = 'go'\ndef target(plan): return 3", "a number from 0 to 2, got 3"),
        ("INSTRUCTION = 'go'\ndef target(plan): return 1.0", "a number from 0 to 2, got 1.0"),
        ("INSTRUCTION = 'go'\ndef target(plan): return plan.no_such", "target failed for seed 7"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_file_that_is_no_task_is_named(tmp_path, text, expected):
    file = tmp_path / "wrong.py"
    file.write_text(text)
    with pytest.raises(ConfigError, match=expected) as told:
        draw(str(file), 7)
    assert str(file) in str(told.value)


def test_a_file_that_is_not_there():
    with pytest.raises(ConfigError, match=r"nowhere\.py: expected a Python file"):
        load_own_task("nowhere.py")
    with pytest.raises(ConfigError, match=r"nowhere\.py"):
        target_of("nowhere.py", draw("point", 0))


def test_the_node_takes_a_file_where_it_takes_a_name():
    assert TabletopConfig(tasks=("point", "own.py"), delays=(0, 0)).episode(3)[0] == "own.py"
    with pytest.raises(ConfigError, match=r"tasks must be one of point, .* or a file \*\.py, got 'dance'"):
        TabletopConfig(tasks=("dance",), delays=(0,))
