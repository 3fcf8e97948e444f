# Everything runs in .venv, which is made on first use and again when a lock or pyproject.toml changes.

BIN := .venv/bin

.PHONY: demo test long heavy bench guest guest-all format clean

# The main job on an embedded default: what one proof check costs, phase by phase. A landrun that .ci/landrun brought is
# found too.
demo: .venv/.base
	@PATH="$$PATH:$(CURDIR)/.ci/cache/landrun" $(BIN)/proofcost demo

# What CI checks.
test: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/pytest

# Ten thousand calls one after the other, a thousand hostile ones, ten gigabytes of output: no hang, nothing left behind.
# And the statistics' simulations in full.
long: .venv/.dev
	PROOFCOST_LONG=1 $(BIN)/pytest -m long
	PROOFCOST_LONG=1 $(BIN)/pytest -m slow tests/statistics

# What needs more than a quick check may take: a Spark cluster, ClickHouse in process, a Slurm cluster of two nodes.
# docs/heavy.md says what each needs.
heavy: .venv/.heavy
	PROOFCOST_HEAVY=1 $(BIN)/pytest -m heavy

# What the meter itself costs, how fast exports are written and looked through, what reports take, beside other tools.
bench: .venv/.dev
	$(BIN)/pytest bench_suites tests/bench_*.py --benchmark-only -o python_files='bench_*.py'

# The tests marked `guest`, inside a machine that has cgroup v2 alone.
guest: .venv/.dev
	.ci/guest

# And those marked `guest_all`: the attacks, and what hardly differs there.
guest-all: .venv/.dev
	.ci/guest --all

format: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .ci/cache build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks

.venv/.base .venv/.dev .venv/.heavy: .venv/.%: requirements/%.txt pyproject.toml .ci/venv
	@.ci/venv $*
