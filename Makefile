# make demo    shows what kedge does, on data that comes with it
# make test    builds everything and runs all tests
# make bench   measures speed and memory against plain BLAS and PyTorch
# make gpu     builds with CUDA, checks every operation on the GPU and measures it (installs nothing; see docs/gpu.md)
# make lint    clang-format and clang-tidy over our own code
# make asan    the tests under address and undefined-behaviour sanitizers
# Each does its own set-up; see scripts/setup for what it installs.
.PHONY: demo test bench gpu lint asan docs format clean

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

docs:
	@scripts/setup build
	@scripts/build release kedge_cli
	scripts/make-cli-docs build/release/cli/kedge > docs/cli.md

format:
	@scripts/setup lint
	git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format -i

clean:
	rm -rf build .venv
