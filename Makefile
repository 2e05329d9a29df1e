# make demo    shows what kedge does, on data that come with it
# make install puts the kedge command, its report, library and headers into PREFIX, by default ~/.local
# make test    every unit test, and one run of each command, store and the Python package, in ten minutes on two cores
# make test-all      everything else, in an hour (CONTRIBUTING.md says what); CI runs both
# make test-faults   full disks, kills, too little memory, 20 million rows, hard numbers, and tables (9 GB of disk)
# make bench   measures speed and memory against plain BLAS and PyTorch
# make rivals  holds kedge against what else does its job, and writes bench/results/rivals.md (docs/compare.md)
# make claims  checks numbers of the README against what prints them (docs/claims.toml)
# make gpu     builds with CUDA, checks every operation on the GPU and measures it; installs nothing (docs/gpu.md)
# make check   runs lint, asan and tsan, and prints a table of what they found
# make lint    clang-format, clang-tidy and cppcheck over our C++, ruff and mypy over our Python
# make asan    the tests under address and undefined-behaviour sanitizers; TESTS='-L python' selects, as for ctest
# make asan-python   only those of the Python package
# make tsan    the tests under the thread sanitizer
# make fuzz    runs every file reader on generated input, 10 minutes each (MINUTES=1 for less), and prints a table
# make wheel   makes dist/kedge-*.whl, which carry everything they need, for other machines
# make docs    makes docs/cli.md, python/kedge/_types.py and _core.pyi from the code, and the site, build/docs/html/index.html
# Each does its own set-up; scripts/setup says what it installs.
.PHONY: demo install test test-all test-faults bench rivals claims gpu check lint asan asan-python tsan fuzz wheel docs format clean

demo:
	@scripts/setup demo
	@scripts/build release kedge_cli kedge_python_package
	@build/release/cli/kedge demo --out build/demo

install:
	@scripts/setup demo
	@scripts/build release kedge kedge_lab kedge_cli
	@scripts/install "$(PREFIX)"

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

bench: export KEDGE_BENCH_RATIOS = $(CURDIR)/build/bench/ratios.jsonl
bench:
	@scripts/setup bench
	@scripts/build bench
	@rm -f $(KEDGE_BENCH_RATIOS)
	bench/run
	bench/vs_pytorch.py
	bench/consensus.py
	bench/kernel.py
	@scripts/setup test
	@scripts/build dev kedge_cli kedge_python_package
	PYTHONPATH=build/dev/python build/torch-venv/bin/python bench/packages.py
	bench/record.py $(KEDGE_BENCH_RATIOS) -o build/bench/ratios.md
	build/torch-venv/bin/python bench/growth.py --most 1000000 -o build/bench/growth.md
	.venv/bin/python bench/python.py
	PYTHONPATH=build/dev/python .venv/bin/python bench/migrate_postgresql.py --rows 200000
	PYTHONPATH=build/dev/python .venv/bin/python bench/migrate_faiss.py --rows 200000
	@scripts/setup cluster
	PYTHONPATH=build/dev/python .venv/bin/python bench/cluster.py --rows 500000

# DATA='FOLDER...' takes other embeddings than those that come with kedge, and only prints.
rivals:
	@scripts/setup rivals
	@scripts/build release kedge_cli kedge_python_package
	PYTHONPATH=build/release/python build/rivals-venv/bin/python bench/rivals/run.py \
	  $(if $(DATA),$(DATA:%=--data %),-o bench/results/rivals.md)

claims:
	@scripts/setup build
	@scripts/build release kedge_cli
	scripts/claims build/release/cli/kedge

gpu:
	scripts/gpu

check:
	@scripts/check

lint:
	@scripts/setup lint
	@scripts/lint

asan:
	@scripts/setup test-all
	@scripts/build asan
	@scripts/sanitize asan $(TESTS)

asan-python:
	@$(MAKE) --no-print-directory asan TESTS='-L ^python$$$$'

tsan:
	@scripts/setup test-all
	@setarch -R scripts/build tsan
	@scripts/sanitize tsan $(TESTS)

fuzz:
	@scripts/setup test-all
	@scripts/fuzz $(or $(MINUTES),10)

wheel:
	@scripts/setup wheel
	@scripts/wheel

docs:
	@scripts/setup test-all
	@scripts/build dev kedge_cli kedge_python_package
	scripts/make-cli-docs build/dev/cli/kedge > docs/cli.md
	PYTHONPATH=build/dev/python .venv/bin/python scripts/make-python-types options > python/kedge/_types.py
	PYTHONPATH=build/dev/python .venv/bin/python scripts/make-python-types module > python/kedge/_core.pyi
	PYTHONPATH=build/dev/python NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict

format:
	@scripts/setup lint
	git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format -i

clean:
	rm -rf build .venv
