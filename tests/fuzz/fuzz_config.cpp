// SPDX-License-Identifier: Apache-2.0
// The first byte chooses the command, from 'a' on; the rest is the config file it is given.
#include "command_line.h"
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>

namespace {

using namespace kedge;

/// A line of three letters becomes an entry with a name, a list of sections and a list of values, in a list of them.
constexpr std::size_t kOfCli11 = 300;
constexpr std::size_t kOfCommand = 512;  // bytes of it, for what the options of a command hold

constexpr std::array kCommands{"fit",   "attach",  "transform", "translate", "compare", "stitch",
                               "sweep", "inspect", "export",    "devices",   "demo"};

/// The path of a file in memory that holds the text.
std::string file_of(std::string_view text) {
  static const int file = ::memfd_create("config", 0);
  if (file < 0 || ::ftruncate(file, 0) != 0) std::abort();
  if (::pwrite(file, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) std::abort();
  return "/proc/self/fd/" + std::to_string(file);
}

/// All of the real command. Making it takes far longer than reading a file, so it is used again; but not for ever, as
/// it keeps a list of every option it has met.
cli::CommandLine& line_for(const char* command) {
  constexpr std::size_t kUses = 100;
  struct Made {
    cli::CommandLine line;
    std::size_t uses = 0;
  };
  static std::map<std::string_view, std::unique_ptr<Made>> commands;
  std::unique_ptr<Made>& made = commands[command];
  if (!made || ++made->uses == kUses) made = std::make_unique<Made>();
  return made->line;
}

const std::function<void()>& work_of(const cli::CommandLine& line, std::string_view command) {
  return std::ranges::find(line.commands(), command, &cli::Command::name)->work();
}

bool is_explained(const std::string& text) {
  const std::size_t hint = text.rfind("\n       run 'kedge ");
  return hint != std::string::npos && fuzz::is_sentence(text.substr(0, hint));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string path = file_of(fuzz::text_of(data + 1, size - 1));
  const char* command = kCommands[(data[0] + 256U - 'a') % kCommands.size()];
  const std::array arguments{"kedge", command, "--config", path.c_str()};
  const int count = static_cast<int>(arguments.size());
  cli::CommandLine& line = line_for(command);
  const auto parse = [&] {
    try {
      const std::function<void()> work = line.parse(count, arguments.data());
      if (work.target_type() != work_of(line, command).target_type()) std::abort();  // a file must not ask for help
    } catch (const cli::WrongUsage& problem) {
      if (!is_explained(problem.what())) std::abort();
    } catch (const Error& problem) {
      if (problem.code() == Code::failed || !fuzz::is_sentence(problem.what())) std::abort();
    }
  };
  fuzz::within_memory(kOfCommand + size, parse, kOfCli11);
  return 0;
}
