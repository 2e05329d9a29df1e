// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"
#include "console.h"
#include "room.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <system_error>

namespace {

enum Exit { done = 0, failed = 1, wrong_usage = 2, bad_file = 3, interrupted = 130 };

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
  } catch (const kedge::Error& problem) {
    return complain(exit_code(problem.code()), problem.message(kedge::Vocabulary::command));
  } catch (const std::bad_alloc&) {
    return complain(failed, "out of memory; use fewer rows, support rows or anchors, or a machine with more memory");
  } catch (const std::system_error& problem) {
    const std::string who = std::ferror(stdout) != 0 ? "cannot write to stdout: " : "";
    return complain(failed, who + problem.code().message());
  } catch (const std::exception& problem) {
    return complain(failed, kedge::printable(problem.what()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  kedge::cli::prepare_libraries();
  const int code = run(argc, argv);
  kedge::cli::leave_in_order();
  return code;
}
