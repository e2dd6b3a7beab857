# Every target sets up what it needs in .venv first: on a fresh machine one command is enough.
PY := .venv/bin/python
JOBS ?= 2

.PHONY: demo test test-live bench lint format schema clean

demo: .venv/.ready  ## run a job that stalls and say why
	.venv/bin/unhang demo

test: .venv/.ready  ## quick tests side by side, then the ones that start real jobs
	$(PY) -m pytest -n $(JOBS) --dist loadfile -m "not job" $(ARGS)
	$(PY) -m pytest -m "job and not live" --durations 12 $(ARGS)

test-live: .venv/.ready  ## every lab case as a real job, recorded and under `unhang run` (a quarter of an hour)
	$(PY) -m pytest -m live $(ARGS)

bench: .venv/.ready  ## measure beside torchfrtrace and plain pickle.load; ARGS=logs: logs beside rg and re
	$(PY) -m benchmarks $(ARGS)

lint: .venv/.ready  ## ruff and the strict type checker
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: .venv/.ready  ## write the code the way lint wants it
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

schema: .venv/.ready  ## write docs/verdict.schema.json from the types
	$(PY) -m unhang.report.verdict_document > docs/verdict.schema.json

.venv/.ready: pyproject.toml scripts/make_environment.sh
	scripts/make_environment.sh with-torch

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
