# SPDX-License-Identifier: Apache-2.0
"""Plans: order, seeds, parameters, and one clear line for what cannot work."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml
from made_run import TINY, plan

from vla_edge_ros.bench.run.command_line import parse, plan_of
from vla_edge_ros.bench.run.plan import NODE, Plan, reasoner_parameters, write_parameters
from vla_edge_ros.config import VlaConfig
from vla_edge_ros.errors import ConfigError, SourceError, VlaEdgeError
from vla_edge_ros.ros.parameter_file import parameters_for
from vla_edge_ros.ros.parameter_tree import build


def no_gpu() -> tuple[str, str]:
    return "numpy", "none here"


def made(*typed: str, check=no_gpu) -> Plan:
    return plan_of(parse(list(typed)), check).plan


def test_policies_take_turns_and_repeats_have_seeds_of_their_own():
    trials = plan(repeats=2, seed=5).trials()
    assert [(trial.policy, trial.seed) for trial in trials] == [
        ("fifo", 5), ("novelty", 5), ("fifo", 6), ("novelty", 6),
    ]  # fmt: skip
    assert len({trial.folder for trial in trials}) == 4


def test_each_policy_plays_the_same_episodes_and_each_repeat_others():
    trials = plan(repeats=2).trials()
    first = [plan().first_episode(trial) for trial in trials]
    assert first[0] == first[1] != first[2] == first[3]


def test_the_written_parameters_are_the_planned_configuration(tmp_path):
    made_plan = plan(parameters={**TINY, "action.names": ["a", "b"], "action.low": [-1.0, -1.0],
                                 "action.high": [1.0, 1.0], "action.kinds": ["rate", "rate"]})  # fmt: skip
    trial = made_plan.trials()[1]
    write_parameters(tmp_path / "p.yaml", made_plan.values(trial, "somewhere"))
    read = build(VlaConfig, parameters_for(tmp_path / "p.yaml", NODE))
    recorded = replace(made_plan.config(trial).recording, path="somewhere")
    assert read == replace(made_plan.config(trial), recording=recorded)
    assert read.cache.eviction == "novelty"


def test_defaults_need_nothing_downloaded_and_end_within_ten_minutes():
    defaults = made()
    assert defaults.source == "synthetic" and defaults.engine == "numpy" and defaults.uses_ros
    assert len(defaults.trials()) * (defaults.trial_s + 30) < 300
    assert defaults.parameters["model.preset"] == "tiny"


def test_a_gpu_that_works_is_used_with_the_large_model():
    chosen = made(check=lambda: ("cuda", ""))
    assert chosen.engine == "cuda"
    assert chosen.config(chosen.trials()[0]).model.preset == "qwen2.5-coder-1.5b"


def test_an_engine_that_a_parameter_file_names_is_not_overruled(tmp_path):
    file = tmp_path / "own.yaml"
    own = {"engine": {"name": "numpy"}, "model": {"preset": "tiny"}, "cache": {"capacity_slots": 1024}}
    file.write_text(yaml.safe_dump({"/**": {"ros__parameters": own}}))
    gpu = ("cuda", "")
    assert made("--config", str(file), check=lambda: gpu).engine == "numpy"
    assert made("--config", str(file), "--engine", "cuda", check=lambda: gpu).engine == "cuda"
    assert made("-p", "engine.name:=numpy", check=lambda: gpu).engine == "numpy"
    with pytest.raises(ConfigError, match="engine.name must be one of auto, numpy, cuda, got 'tpu'"):
        made("-p", "engine.name:=tpu")


def test_the_simulated_table_brings_its_weights_and_its_rate():
    chosen = made("--source", "tabletop")
    assert chosen.rate_hz == 30 and chosen.parameters["model.path"].endswith("tabletop-1024")
    assert chosen.config(chosen.trials()[0]).action.decoding == "parallel"


def test_options_reach_the_configuration():
    chosen = made("--period-ms", "50", "--weights", "int8", "--kv", "int8", "-p", "cache.protect_latest:=4")
    config = chosen.config(chosen.trials()[0])
    assert (config.timing.period_ms, config.timing.deadline_ms) == (50.0, 50.0)
    assert (config.engine.weights, config.engine.kv, config.cache.protect_latest) == ("int8", "int8", 4)


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (
            ["--policies", "fifo", "novelti"],
            "--policies must be among .* got 'novelti'; did you mean novelty",
        ),
        (["--policies", "fifo", "fifo"], "--policies must name each policy once, got fifo fifo"),
        (["--duration", "nan"], "--duration must be from 1 to 86400, got nan"),
        (["--duration", "0"], "--duration must be from 1 to 86400, got 0"),
        (["--repeats", "0"], "--repeats must be from 1 to 1000, got 0"),
        (["--warmup", "-1"], "--warmup must be from 0 to 3600, got -1"),
        (["--seed", "-1"], "--seed must be from 0"),
        (["--rate-hz", "inf"], "--rate-hz must be from 0.1 to 1000, got inf"),
        (["--source", "tabletop", "--no-ros"], "--source tabletop must run with ROS"),
        (["--source", "tabletop", "--rate-hz", "50"], "--rate-hz must be 30 or 60"),
        (["--period-ms", "1"], "timing.margin_ms"),
        (["--config", "nowhere.yaml"], "--config must name a parameter file, got nowhere.yaml"),
        (
            ["-p", "cache.protect:=4"],
            "-p must name a parameter of the reasoner, got 'cache.protect'; did you",
        ),
        (["-p", "cache.protect_latest"], "-p must be name:=value, got 'cache.protect_latest'"),
        (["-p", "cache.protect_latest:=[1"], "-p cache.protect_latest must have a value as YAML writes it"),
        (["-p", "cache.protect_latest:=high"], "cache.protect_latest must be of type integer, got 'high'"),
    ],
)
def test_what_cannot_work_is_named(typed, says):
    with pytest.raises(ConfigError, match=says):
        made(*typed)


def test_a_source_that_is_not_there_is_named():
    with pytest.raises(SourceError, match="nowhere.mp4 does not exist"):
        made("--source", "nowhere.mp4")


def test_a_run_to_compare_that_is_none_is_named(tmp_path):
    with pytest.raises(VlaEdgeError, match="expected a run folder .* got .*nowhere"):
        parse(["--compare", str(tmp_path), str(tmp_path / "nowhere")])


def test_an_unknown_parameter_in_a_file_is_named(tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump({"/**": {"ros__parameters": {"cache": {"evicton": "fifo"}}}}))
    with pytest.raises(ConfigError, match=r"own.yaml: cache.evicton must be a parameter .*cache.eviction"):
        reasoner_parameters(file, [])
