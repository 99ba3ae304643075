# What people run and what CI runs.  Every target makes the environment that it needs first, from
# nothing but Python 3.11 or later; a second run finds the stamp and starts at once.

PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
PYTEST := $(PY) -m pytest
# How many processes run tests; `make test JOBS=1` for one.
JOBS ?= auto
# Of how many parts of the thorough tests `make test-all` runs one, another one every day.
PARTS ?= 1
FUZZ_SECONDS ?= 300

.PHONY: help demo test test-all check format fuzz fuzz-models grid bench peers bursts stack growth \
	zoo zoo-export node-tests emulators clean
.NOTPARALLEL:
.SECONDARY:

help:
	@echo 'make demo        compile a trained digit reader to C and run it'
	@echo 'make test        the tests that find most (about ten minutes on two cores)'
	@echo 'make test-all    every shape on every machine, too (half an hour to an hour)'
	@echo 'make check       format, lint, types, layers, generated documents'
	@echo 'make format      write the format that `make check` asks for'
	@echo 'make node-tests  the official ONNX node and model tests through compiled C'
	@echo 'make emulators   QEMU and the cross compiler for tests on emulated chips (Debian; root)'
	@echo 'make fuzz        damaged and hostile ONNX files, FUZZ_SECONDS=$(FUZZ_SECONDS)'
	@echo 'make fuzz-models random models beside onnxruntime, FUZZ_SECONDS=$(FUZZ_SECONDS)'
	@echo 'make grid        what `make test-all` leaves out: more shapes, zig beside gcc (long)'
	@echo 'make zoo-export  export well-known networks with PyTorch (large; see bench/zoo.py)'
	@echo 'make zoo         compile and check the exported networks (long)'
	@echo 'make bench       time the C beside onnxruntime and emx-onnx-cgen'
	@echo 'make peers       time whole networks beside other runtimes (long; see docs/benchmarks.md)'
	@echo 'make stack       what toolkits take of the stack, painted, beside what they say (long)'
	@echo 'make bursts      time calls with pauses and beside other threads, NAMES=(networks)'
	@echo 'make growth      how time and memory grow with the sizes of a network'

# $(VENV)/.weft-EXTRA: the environment has this extra of pyproject.toml.
$(VENV)/.weft-%: pyproject.toml scripts/bootstrap.py $(wildcard plugins/*/pyproject.toml)
	@$(PYTHON) scripts/bootstrap.py --venv $(VENV) --stamp $@ $*

demo: $(VENV)/.weft-demo
	@$(PY) examples/digits/demo.py

# Many tests start Python; without bytecode each of them would compile every module of Weft.
test test-all: export PYTHONDONTWRITEBYTECODE =

# `make test ARGS=-x` stops at the first failure.
test: $(VENV)/.weft-test
	$(PYTEST) -n $(JOBS) --durations=15 -m 'not thorough and not slow and not zoo' $(ARGS)

test-all: $(VENV)/.weft-test
	$(PYTEST) -n $(JOBS) --durations=30 --thorough-parts $(PARTS) -m 'not slow and not zoo' $(ARGS)

check: $(VENV)/.weft-dev
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/pyright
	$(VENV)/bin/lint-imports
	$(PY) scripts/docs.py --check

format: $(VENV)/.weft-dev
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

node-tests: $(VENV)/.weft-test
	$(PY) -m tests.conformance --out docs/onnx-coverage.md

# `zig cc` for other processors than Cortex-M comes with the test environment.
emulators:
	apt-get update -qq
	apt-get install -qq -y --no-install-recommends \
	    gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm qemu-user

fuzz: $(VENV)/.weft-test
	$(PY) scripts/fuzz_onnx.py --seconds $(FUZZ_SECONDS)

# A seed is a model: `.venv/bin/python scripts/fuzz_models.py --seed N` makes it again.
fuzz-models: $(VENV)/.weft-test
	$(PY) scripts/fuzz_models.py --seconds $(FUZZ_SECONDS)

grid: $(VENV)/.weft-test
	$(PYTEST) -n $(JOBS) -m 'slow and not zoo' tests

# `make zoo-export NAMES=architectures` for those of transformers and timm.
zoo-export: $(VENV)/.weft-zoo
	$(PY) -m bench.zoo $(NAMES)

# `make zoo NAMES='resnet18 lstm'` for these only.
zoo: $(VENV)/.weft-test
	$(PY) -m bench.check_zoo $(if $(NAMES),--names $(NAMES))
	$(PYTEST) -m zoo tests --ignore=tests/models/test_zoo.py

bench: $(VENV)/.weft-bench
	$(PY) -m bench.compare $(if $(NAMES),--names $(NAMES))

# `make peers NAMES='resnet18 bert'` for these only.
peers: $(VENV)/.weft-peers
	$(PY) -m bench.peers $(if $(NAMES),--names $(NAMES))

# `make stack NAMES='digits kws_int8'` for these only.
stack: $(VENV)/.weft-test
	$(PY) -m bench.stack $(if $(NAMES),--names $(NAMES))

bursts: $(VENV)/.weft-peers
	$(PY) -m bench.bursts $(if $(NAMES),--names $(NAMES))

growth: $(VENV)/.weft-test
	$(PY) -m bench.growth

clean:
	rm -rf build dist out .pytest_cache .ruff_cache .hypothesis .import_linter_cache
