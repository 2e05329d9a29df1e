// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"
#include "console.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <kedge/device.h>
#include <kedge/error.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <system_error>

namespace {

constexpr const char* kNoMemory =
    "out of memory; use fewer rows, support rows or anchors, fewer threads, or a machine with more memory";

enum Exit { done = 0, failed = 1, wrong_usage = 2, bad_file = 3, not_good_enough = 4, interrupted = 130 };

int exit_code(kedge::Code code) {
  switch (code) {
    case kedge::Code::bad_argument: return wrong_usage;
    case kedge::Code::bad_file: return bad_file;
    case kedge::Code::failed: break;
  }
  return failed;
}

int complain(int code, const std::string& message) {
  std::fputs(fmt::format("kedge: {}\n", message).c_str(), stderr);  // does not throw if stderr is full
  return code;
}

/// Flushes stdout, and fails if what was printed cannot be written.
int after_printing(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  return complain(failed, fmt::format("cannot write to stdout: {}", std::strerror(errno)));
}

int run(int argc, char** argv) {
  try {
    kedge::cli::CommandLine line;
    kedge::cli::watch_for_interrupt();
    line.parse(argc, argv)();
    return after_printing(done);
  } catch (const kedge::cli::WrongUsage& problem) {
    return complain(wrong_usage, problem.what());
  } catch (const kedge::cli::Interrupted& problem) {
    return complain(interrupted, problem.what());
  } catch (const kedge::cli::NotGoodEnough& problem) {
    return after_printing(complain(not_good_enough, problem.message(kedge::Vocabulary::command)));
  } catch (const kedge::Error& problem) {
    return complain(exit_code(problem.code()), problem.message(kedge::Vocabulary::command));
  } catch (const std::bad_alloc&) {
    return complain(failed, kNoMemory);
  } catch (const std::system_error& problem) {
    const std::string who = std::ferror(stdout) != 0 ? "cannot write to stdout: " : "";
    return complain(failed, who + problem.code().message());
  } catch (const std::exception& problem) {
    return complain(failed, kedge::printable(problem.what()));
  }
}

/// A result would be opened in the place of a stream that is closed, and messages written into it.
void open_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // open() takes the lowest number that is free, which is this one.
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF) [[maybe_unused]]
      const int opened = ::open("/dev/null", O_RDWR);
  }
}

/// No exception can leave a parallel loop of FAISS, so lack of memory in one ends here.
[[noreturn]] void on_terminate() {
  try {
    if (const auto problem = std::current_exception()) std::rethrow_exception(problem);
  } catch (const std::bad_alloc&) {
    ::_exit(complain(failed, kNoMemory));
  } catch (const std::exception& problem) {
    complain(failed, problem.what());
  }
  std::abort();
}

/// OpenBLAS chooses its kernels while it is loaded, so the command starts again if there are better ones.
void start_with_fast_blas(char** argv) {
  constexpr const char* kVariable = "OPENBLAS_CORETYPE";
  const std::string better = kedge::better_blas_kernels();
  if (better.empty() || std::getenv(kVariable) != nullptr) return;
  ::setenv(kVariable, better.c_str(), 1);
  ::execv("/proc/self/exe", argv);  // returns only if it fails, and then the slow kernels do
}

}  // namespace

int main(int argc, char** argv) {
  start_with_fast_blas(argv);
  open_streams();
  kedge::cli::require_room();
  std::set_terminate(on_terminate);
  return run(argc, argv);
}
