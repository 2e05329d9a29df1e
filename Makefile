# make demo    shows what kedge does, on data that comes with it
# make install puts the kedge command, its report, library and headers into PREFIX, ~/.local unless given
# make test    builds everything and runs the tests
# make test-all      the same, with the tests that take long
# make test-faults   full disks, kills, too little memory, 20 million rows, hard numbers: all of it, and tables (9 GB of disk)
# make bench   measures speed and memory against plain BLAS and PyTorch
# make gpu     builds with CUDA, checks every operation on the GPU and measures it (installs nothing; see docs/gpu.md)
# make check   lint, asan and tsan, and a table of what they found
# make lint    clang-format, clang-tidy and cppcheck over our own code
# make asan    the tests under address and undefined-behaviour sanitizers; TESTS='-L python' chooses, as ctest does
# make asan-python   those of the Python package only
# make tsan    the tests under the thread sanitizer
# make fuzz    every reader of files against made-up input, 10 minutes each (MINUTES=1 for less), and a table
# make docs    docs/cli.md from the command's help, and the site in build/docs/html
# Each does its own set-up; see scripts/setup for what it installs.
.PHONY: demo install test test-all test-faults bench gpu check lint asan asan-python tsan fuzz docs format clean

demo:
	@scripts/setup demo
	@scripts/build release kedge_cli
	@build/release/cli/kedge demo --out build/demo

install:
	@scripts/setup demo
	@scripts/build release
	@scripts/install $(PREFIX)

test:
	@scripts/test

test-all:
	@scripts/test --all

test-faults:
	@scripts/setup test
	@scripts/build dev kedge_cli kedge_python_package kedge_named_files_only
	NAMED_FILES_ONLY=$(CURDIR)/build/dev/tests/faults/libkedge_named_files_only.so $(built) tests/faults --all-moments
	$(built) tests/load --all
	$(built) tests/torture --all
built = KEDGE=$(CURDIR)/build/dev/cli/kedge PYTHONPATH=$(CURDIR)/build/dev/python PYTHONDONTWRITEBYTECODE=1 \
  .venv/bin/python -m pytest -q -p no:cacheprovider

bench:
	@scripts/setup bench
	@scripts/build bench
	bench/run
	bench/vs_pytorch.py
	bench/consensus.py
	@scripts/setup test
	@scripts/build dev kedge_cli kedge_python_package
	.venv/bin/python bench/python.py

gpu:
	scripts/gpu

check:
	@scripts/check

lint:
	@scripts/setup lint
	@scripts/lint

asan:
	@scripts/setup test
	@scripts/build asan
	@scripts/sanitize asan $(TESTS)

asan-python:
	@$(MAKE) --no-print-directory asan TESTS='-L ^python$$$$'

tsan:
	@scripts/setup test
	@setarch -R scripts/build tsan
	@scripts/sanitize tsan $(TESTS)

fuzz:
	@scripts/setup test
	@scripts/fuzz $(or $(MINUTES),10)

docs:
	@scripts/setup test
	@scripts/build dev kedge_cli kedge_python_stub kedge_python_package
	scripts/make-cli-docs build/dev/cli/kedge > docs/cli.md
	PYTHONPATH=build/dev/python .venv/bin/python scripts/make-python-types > python/kedge/_types.py
	PYTHONPATH=build/dev/python .venv/bin/python -m sphinx -W -q -b html docs build/docs/html

format:
	@scripts/setup lint
	git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format -i

clean:
	rm -rf build .venv
