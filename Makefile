# make demo    shows what kedge does, on data that comes with it
# make test    builds everything and runs all tests
# make bench   measures speed and memory against plain BLAS and PyTorch
# make gpu     builds with CUDA, checks every operation on the GPU and measures it (installs nothing; see docs/gpu.md)
# make lint    clang-format and clang-tidy over our own code
# make asan    the tests under address and undefined-behaviour sanitizers
# make asan-python   the tests of the Python package, with the library in it under the same sanitizers
# make docs    docs/cli.md from the command's help, and the site in build/docs/html
# Each does its own set-up; see scripts/setup for what it installs.
.PHONY: demo test bench gpu lint asan asan-python docs format clean

demo:
	@scripts/setup demo
	@scripts/build release kedge_cli
	@build/release/cli/kedge demo --out build/demo

test:
	@scripts/setup test
	@scripts/build dev
	@scripts/build fuzz
	ctest --preset dev
	ctest --preset fuzz

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

lint:
	@scripts/setup lint
	git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format --dry-run --Werror
	@scripts/build tidy

asan:
	@scripts/setup test
	@scripts/build asan
	ctest --preset asan

asan-python:
	@scripts/setup test
	@scripts/build asan kedge_cli kedge_python kedge_python_package
	ctest --preset asan -L '^python$$'

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
