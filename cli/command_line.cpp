// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"

#include "commands.h"
#include "config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kedge/kedge.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

namespace kedge::cli {
namespace {

std::vector<std::string> known_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::string called_command(const CLI::App& app, int argc, const char* const* argv) {
  const std::vector<std::string> names = known_commands(app);
  const auto* found =
      std::find_if(argv + 1, argv + argc, [&](const char* word) { return std::ranges::count(names, word) > 0; });
  return found == argv + argc ? "" : *found;
}

void add_commands(CLI::App& app) {
  add_fit(app);
  add_attach(app);
  add_transform(app);
  add_translate(app);
  add_compare(app);
  add_stitch(app);
  add_sweep(app);
  add_inspect(app);
  add_export(app);
  add_devices(app);
  add_demo(app);
}

/// Words of a user or of a file, as every other message shows them.
std::string shown(std::string_view text) {
  return Error(Code::bad_argument, text).what();
}

/// The entry of the config file that CLI11 complains of.
std::string entry_of(const CLI::ConfigError& problem) {
  constexpr std::string_view kUnknown = "INI was not able to parse ";
  const std::string_view what = problem.what();
  return shown(what.starts_with(kUnknown) ? what.substr(kUnknown.size()) : what.substr(0, what.rfind(": ")));
}

}  // namespace

void set_up(CLI::App& app, int argc, const char* const* argv) {
  app.name("kedge");
  app.set_version_flag("--version", "kedge " + std::string(version()));
  app.require_subcommand(1);
  app.option_defaults()->take_last();  // as users of other tools expect of a repeated option
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.fallthrough();
  app.get_formatter()->column_width(34);
  app.footer(
      "'kedge COMMAND --help' explains a command. Exit: 0 done, 1 failed, 2 wrong usage, 3 bad file, 130 interrupted.");
  add_commands(app);
  for (CLI::App* command : app.get_subcommands({})) {
    command->fallthrough();
    command->footer("--config FILE.toml reads any of these options from a file.");
  }
  app.set_config("--config", "", "Read options of the command from a TOML file");
  app.config_formatter(std::make_shared<CommandConfig>(called_command(app, argc, argv), known_commands(app)));
}

std::string explain(const CLI::App& app, const CLI::ParseError& problem, int argc, const char* const* argv) {
  const std::string command = called_command(app, argc, argv);
  const std::string hint =
      fmt::format("\n       'kedge {}{}--help' shows what can be given", command, command.empty() ? "" : " ");
  if (command.empty()) {
    const std::string known = fmt::format("the commands are: {}", fmt::join(known_commands(app), ", "));
    return (argc > 1 ? fmt::format("'{}' is no command; {}", shown(argv[1]), known)
                     : "no command was given; " + known) +
           hint;
  }
  if (const auto* entry = dynamic_cast<const CLI::ConfigError*>(&problem)) {
    return fmt::format("the config file has '{}', which 'kedge {}' does not know{}", entry_of(*entry), command, hint);
  }
  const std::vector<std::string> extra = app.remaining(true);
  if (!extra.empty()) return fmt::format("'{}' was not expected{}", shown(extra.front()), hint);
  return shown(problem.what()) + hint;
}

}  // namespace kedge::cli
