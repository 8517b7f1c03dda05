# make help lists the targets. Everything is installed below this folder; nothing needs root.

UV_VERSION := 0.13.7

# The first of these that is Python 3.11 to 3.13; another one: make setup PYTHON=/path/to/python
PYTHONS := python3 python3.13 python3.12 python3.11
WHICH := import sys; (3, 11) <= sys.version_info < (3, 14) and print(sys._base_executable or sys.executable)
PYTHON = $(or $(shell for python in $(PYTHONS); do \
	found=$$(env -u PYTHONPATH -u PYTHONHOME $$python -c '$(WHICH)' 2>/dev/null); \
	test -n "$$found" && echo "$$found" && break; done),$(error \
	semel needs Python 3.11, 3.12 or 3.13, and none of $(PYTHONS) is one; \
	install one, or name it: make setup PYTHON=/path/to/python))

# What a shell may have set for another project.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME CONDA_PREFIX
export UV_PROJECT_ENVIRONMENT := .venv
export UV_PYTHON_DOWNLOADS := never

UV := .uv/bin/uv
UV_READY := .uv/ready-$(UV_VERSION)
READY := .venv/.ready
RUN := .venv/bin/python

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test lint bench soak docs clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-14s %s\n", $$1, $$2 }'

setup: $(READY) ## install everything into .venv; after it .venv/bin/semel runs

demo: $(READY) ## see it work: generate, run, crash, run again, audit
	.venv/bin/semel demo

test: $(READY) ## every test but the soak
	$(RUN) -m pytest -m "not soak"

lint: $(READY) ## style, formatting and types
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy src tests docs

bench: ## speed
	@echo "there are no benchmarks yet"

soak: $(READY) ## the long runs
	$(RUN) -m pytest -m soak || { test $$? -eq 5 && echo "there are no soak tests yet"; }

docs: $(READY) ## check every link between the documents
	$(RUN) docs/check_links.py

clean: ## remove what make made: environments, caches, builds, the demo's folder
	rm -rf .venv .uv build dist semel-demo spark-warehouse metastore_db derby.log
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests docs -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml uv.lock $(UV_READY)
	$(UV) sync --locked --python "$(PYTHON)"
	@touch $@

$(UV_READY):
	"$(PYTHON)" -m venv --clear .uv
	.uv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@
