# SPDX-License-Identifier: Apache-2.0
# For a machine with Python 3, a C++ compiler and make, and nothing of ROS: every target sets up what it needs
# in .venv the first time. On a ROS machine use colcon as usual (README.md).
#
#   make demo [DURATION=60]                                            the trained policy on the simulated arm
#   make demo SOURCE=clip.mp4 | CONFIG=config/x.yaml [DURATION=20]     footage in, actions out, a summary
#   make report [DURATION=30] [POLICIES="fifo novelty"] [REPORT="--source clip.mp4 --repeats 3"]
#                                                                      policies measured here, and a report as a page
#   make test                                                          colcon build, test, test-result
#   make bench [BENCH="hops.slot hops.cycle_overhead"]                           vla_edge_ros.bench.<folder>.<name>, one by one
#   make lint | native | clean | distclean

PYTHON ?= python3
SOURCE ?=
CONFIG ?=
DURATION ?= $(if $(SOURCE)$(CONFIG),20,60)
POLICIES ?=
REPORT ?=
BENCH ?= hops.slot hops.cycle_overhead

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := demo
.PHONY: demo report test lint bench native clean distclean

VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.stamp-runtime
DEV := $(VENV)/.stamp-dev
NATIVE := $(VENV)/.stamp-native

# A sourced ROS distribution, or a parent Python started from ROS wheels, would mix its libraries with .venv's.
unexport PYTHONPATH AMENT_PREFIX_PATH COLCON_PREFIX_PATH CMAKE_PREFIX_PATH _ROS_WHEELS_BOOTSTRAP_COMPLETE
ifdef ROS_DISTRO
unexport LD_LIBRARY_PATH
endif

$(VENV)/.stamp-venv: .ci/make_venv
	bash .ci/make_venv $(PYTHON) $(VENV)
	touch $@

$(RUNTIME): $(VENV)/.stamp-venv requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

$(DEV): $(RUNTIME) requirements-dev.txt requirements-cuda.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	touch $@

# Only the extension goes into .venv; the Python package is run from here.
$(NATIVE): $(RUNTIME) setup.py package.xml $(wildcard csrc/native/*.hpp csrc/native/*.cpp)
	$(BIN)/python setup.py --quiet build_ext --build-temp build/native \
	  --build-lib "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')"
	touch $@

native: $(NATIVE)

DEMO_ARGUMENTS = --duration $(DURATION) $(if $(SOURCE),--source='$(SOURCE)') $(if $(CONFIG),--config='$(CONFIG)')

demo: $(NATIVE)
	@$(BIN)/python -m vla_edge_ros.ros.$(if $(SOURCE)$(CONFIG),demo,tabletop_demo) $(DEMO_ARGUMENTS)

# DURATION has a default of the demo's; only one that was given is handed on.
REPORT_ARGUMENTS = $(if $(filter command environment,$(firstword $(origin DURATION))),--duration $(DURATION)) \
  $(if $(POLICIES),--policies $(POLICIES)) $(REPORT)

report: $(NATIVE)
	@$(BIN)/python -m vla_edge_ros.bench.run.main $(REPORT_ARGUMENTS)

# colcon takes "no test ran" for success, and `colcon test` alone hides failures: both are checked here.
test: $(DEV)
	@$(BIN)/colcon build
	rc=0
	$(BIN)/colcon test --event-handlers console_direct+ --return-code-on-test-failure || rc=$$?
	$(BIN)/colcon test-result --all --verbose | tee build/test_result.txt || rc=$$?
	grep -q '^Summary: [1-9]' build/test_result.txt || { echo 'make test: no test ran'; rc=1; }
	exit $$rc

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy

bench: $(DEV) $(NATIVE)
	@for name in $(BENCH); do $(BIN)/python -m vla_edge_ros.bench.$$name; done

clean:
	rm -rf build install log .pytest_cache .ruff_cache .mypy_cache .hypothesis

distclean: clean
	rm -rf $(VENV)

.ONESHELL:
