# Two commands for a fresh machine: `make demo` and `make test`. Linux, Python 3.10 to 3.13, make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RUN ?= reports/demo-$(shell date +%Y%m%d-%H%M%S)

.PHONY: demo test lint check bench bench-accuracy bench-fleet bench-overhead bench-push bench-report bench-triage \
        bench-truth soak clean

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "mnn-farm needs Python 3.10 or later; name one: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

## The main job on two virtual phones: real adb, the real engine, a small language model.
demo: $(STAMP)
	$(BIN)/pytest --devices virtual:2 --plan smoke --run-dir=$(RUN)
	@echo "Open $(RUN)/report.html in a browser."

## The whole self-test; needs no phone. Much of it waits for phones, so three files are run at a time, in their order: the
## long ones, on virtual phones, lie first. What fails beside others is run again alone, and named: real adb servers and phones
## on two busy cores can miss a bound of time. Twice is red.
test: $(STAMP)
	@$(BIN)/pytest -q -n 3 --dist loadfile --no-loadscope-reorder || { [ $$? -eq 1 ] && \
	echo "AGAIN, alone: the tests that failed beside others" && $(BIN)/pytest -q --last-failed --last-failed-no-failures none; }

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

## What the harness costs beside adb, adbutils and mobly: a table, JSON, exit 1 when a gate is missed; see docs/benchmarks.md.
## Never part of the tests, since machines are noisy. About three minutes, on an idle computer. OUT is where the JSON goes.
OUT ?= reports/bench.json
BENCH_STAMP := $(VENV)/.bench
$(BENCH_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@touch $@
bench: $(BENCH_STAMP)
	@$(BIN)/python -m benchmarks --json $(OUT) --against benchmarks/baseline.json

## How true virtual phones, the probe and the synthetic runner are to their models, as JSON.
bench-truth: $(STAMP)
	@$(BIN)/python -m benchmarks.truth

## What records say against known truth, through the whole chain; exit 1 when a bound is missed. On an idle computer.
bench-accuracy: $(STAMP)
	@$(BIN)/python -m benchmarks.accuracy

## 64 virtual phones beside one, ten cells of 20 s each: wall time, memory of controller and workers, every record held
## against what was ordered; exit 1 when a gate is missed. Nine minutes, on an idle computer.
bench-fleet: $(STAMP)
	@$(BIN)/python -m benchmarks.fleet

## What watching costs: the probe's own CPU time (gate: half a percent of one core at 10 Hz) and decode speed with and
## without it. Takes about five minutes on a quiet machine.
bench-overhead: $(STAMP)
	$(BIN)/python -m benchmarks.overhead

## A gibibyte to a virtual phone beside adb push and adbutils, the re-run, the resumed push and a shell round trip; exit 1
## when a gate is missed. About a minute, 4 GB of disk, on an idle computer.
bench-push: $(STAMP)
	@$(BIN)/python -m benchmarks.push

## The report of runs of 1 000 and 100 000 cells: seconds, bytes, first paint in Chromium; exit 1 when a gate is missed.
bench-report: $(STAMP)
	@$(BIN)/python -m benchmarks.report

## A phone's log of 200 MB through `mnn-farm triage`: seconds and peak memory; exit 1 when a bound is missed.
bench-triage: $(STAMP)
	@$(BIN)/python -m benchmarks.triage

## A night of faults at random moments on four virtual phones, in fast motion. N faults, SEED of the dice.
N ?= 200
SEED ?= 1
soak: $(STAMP)
	SOAK_INJECTIONS=$(N) SOAK_SEED=$(SEED) $(BIN)/pytest -q -p no:cacheprovider tests/integration/faults/test_soak.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
