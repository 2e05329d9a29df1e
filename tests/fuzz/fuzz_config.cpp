// SPDX-License-Identifier: Apache-2.0
// The first byte chooses the command, from 'a' on; the rest is the config file it is given.
#include "command_line.h"
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>

namespace {

using namespace kedge;

struct Parsed {};

constexpr std::array kCommands{"fit",   "attach",  "transform", "translate", "compare", "stitch",
                               "sweep", "inspect", "export",    "devices",   "demo"};

/// The path of a file in memory that holds the text.
std::string file_of(std::string_view text) {
  static const int file = ::memfd_create("config", 0);
  if (file < 0 || ::ftruncate(file, 0) != 0) std::abort();
  if (::pwrite(file, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) std::abort();
  return "/proc/self/fd/" + std::to_string(file);
}

bool is_explained(const std::string& text) {
  const std::size_t hint = text.rfind("\n       'kedge ");
  return hint != std::string::npos && fuzz::is_sentence(text.substr(0, hint));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string path = file_of(fuzz::text_of(data + 1, size - 1));
  const std::array arguments{"kedge", kCommands[(data[0] + 256U - 'a') % kCommands.size()], "--config", path.c_str()};
  const int count = static_cast<int>(arguments.size());
  CLI::App app("fuzzed");
  cli::set_up(app, count, arguments.data());
  app.parse_complete_callback([] { throw Parsed(); });  // before the command would run
  fuzz::within_memory(size, [&] {
    try {
      app.parse(count, arguments.data());
      std::abort();
    } catch (const Parsed&) {
    } catch (const CLI::Success&) {
      std::abort();  // a file must not turn a command into its help
    } catch (const CLI::FileError& problem) {
      if (!fuzz::is_sentence(printable(problem.what()))) std::abort();
    } catch (const CLI::ParseError& problem) {
      if (!is_explained(cli::explain(app, problem, count, arguments.data()))) std::abort();
    } catch (const Error& problem) {
      if (problem.code() != Code::bad_argument || !fuzz::is_sentence(problem.what())) std::abort();
    }
  });
  return 0;
}
