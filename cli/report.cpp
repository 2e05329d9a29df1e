// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace kedge::cli {
namespace {

/// The exit status, or -1 if it could not be started.
int run(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (::posix_spawnp(&child, arguments.front(), nullptr, nullptr, arguments.data(), environ) != 0) return -1;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

std::string find_program(const std::string& name, const char* variable) {
  if (const char* named = std::getenv(variable); named != nullptr && *named != 0) return named;
  std::error_code unknown;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path() / name;
  return std::filesystem::exists(beside, unknown) ? beside.string() : name;
}

std::string make_report(const std::string& folder) {
  const std::string program = find_program("kedge-report", "KEDGE_REPORT");
  std::string page = (std::filesystem::path(folder) / "report.html").string();
  const int status = run({program, folder, "--quiet"});
  if (status == 0) return page;
  constexpr int kNotFound = 127;
  const std::string why = status == -1 || status == kNotFound
                              ? fmt::format(
                                    "the program '{}' was not found; install kedge's Python package with pip, or set "
                                    "$KEDGE_REPORT to its path",
                                    program)
                              : fmt::format("'{}' failed with status {}", program, status);
  if (::isatty(STDERR_FILENO) == 1) fmt::print(stderr, "\r\x1b[K");
  fmt::print(stderr, "kedge: no report was written: {}. The results themselves are in {}\n", why, folder);
  return "";
}

}  // namespace kedge::cli
