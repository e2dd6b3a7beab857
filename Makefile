# Every target sets up what it needs in .venv first: on a fresh machine one command is enough.
PY := .venv/bin/python
JOBS ?= 3
# Three jobs at a time: beside the other live tests they would be too many.
BATCHES := tests/watch/test_live_batches.py

.PHONY: demo story stories test test-live fuzz bench lint format schema pages docs lock clean

demo: .venv/.ready  ## run a job that stalls and say why
	.venv/bin/unhang demo

story: .venv/.stories  ## NAME=llama-recipes: a job of real libraries stalls; before, during, after, repaired
	.venv/bin/unhang demo $(NAME)

stories: .venv/.stories  ## run all five and put what was found into docs/stories.md and its Chinese
	.venv/bin/unhang demo --table --into docs/stories.md --into docs/stories.zh-CN.md
	$(PY) -m unhang_lab.stories.page

test: .venv/.stories  ## quick tests and, between them, jobs that wait more than they compute
	$(PY) -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder -m "not live" --durations 12 $(ARGS)

test-live: .venv/.stories  ## every lab case as a real job, recorded and under `unhang run`, and half of what blind writers gave, by turns (an hour)
	$(PY) -m pip install --quiet --group live
	status=0; \
	$(PY) -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder -m live --ignore $(BATCHES) $(ARGS) || status=1; \
	$(PY) -m pytest -m live $(BATCHES) $(ARGS) || status=1; \
	exit $$status

fuzz: .venv/.stories  ## damaged and hostile input for everything that reads any; ARGS="--time 3600", ARGS=--prove, ARGS=--coverage
	$(PY) -m pip install --quiet --group fuzz
	$(PY) -m tests.fuzz $(ARGS)

bench: .venv/.ready  ## measure beside torchfrtrace and plain pickle.load; ARGS=logs: logs beside rg and re
	$(PY) -m benchmarks $(ARGS)

lint: .venv/.stories  ## ruff, the strict type checker, and what may import what
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	.venv/bin/lint-imports --no-cache --no-logo

format: .venv/.ready  ## write the code the way lint wants it
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

schema: .venv/.ready  ## write docs/verdict.schema.json from the types
	$(PY) -m unhang.report.verdict_document > docs/verdict.schema.json

pages: .venv/.ready  ## write the pages of docs/ that are made from the sources: causes, variables, messages, verdicts shown
	$(PY) -m scripts.pages
	$(PY) -m scripts.shown_verdicts

docs: .venv/.ready  ## docs/ as a site that works without a network, in both languages: open site/index.html
	$(PY) -m pip install --quiet --group docs
	NO_MKDOCS_2_WARNING=1 $(PY) -W ignore -m mkdocs build --strict --quiet

lock:  ## write scripts/constraints.txt anew; PyTorch and what only it brings stay out (needs uv)
	printf "torch ; python_version < '3'\ntorchvision ; python_version < '3'\ntriton ; python_version < '3'\n" > .venv/no-torch.txt
	(printf '# Exact versions for the tests, for Python 3.10 to 3.14 (markers say which is for which); PyTorch is installed by itself.\n# Made with: make lock\n'; \
	uv pip compile --quiet pyproject.toml --group dev --group stories --universal --python-version 3.10 \
	--override .venv/no-torch.txt --no-annotate --no-header) > scripts/constraints.new && mv scripts/constraints.new scripts/constraints.txt

.venv/.ready: pyproject.toml packages/unhang-lab/pyproject.toml scripts/make_environment.sh scripts/constraints.txt
	scripts/make_environment.sh with-torch

.venv/.stories: pyproject.toml packages/unhang-lab/pyproject.toml scripts/make_environment.sh scripts/constraints.txt
	scripts/make_environment.sh with-stories

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis site
