// SPDX-License-Identifier: Apache-2.0
#include "commands.h"
#include "config.h"
#include "console.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kedge/kedge.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <new>

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

/// Names in messages come from files and may hold anything; a terminal should not obey them.
int complain(int code, std::string message) {
  std::ranges::replace_if(
      message, [](unsigned char c) { return (c < ' ' && c != '\n') || c == 0x7f; }, '?');
  fmt::print(stderr, "kedge: {}\n", message);
  return code;
}

std::vector<std::string> known_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::string called_command(const CLI::App& app, int argc, char** argv) {
  const std::vector<std::string> names = known_commands(app);
  const auto* found =
      std::find_if(argv + 1, argv + argc, [&](const char* word) { return std::ranges::count(names, word) > 0; });
  return found == argv + argc ? "" : *found;
}

/// What CLI11 says, but with the word that was wrong where it only says what is missing.
std::string explain(const CLI::App& app, const CLI::ParseError& problem, int argc, char** argv) {
  const std::string command = called_command(app, argc, argv);
  const std::string hint =
      fmt::format("\n       'kedge {}{}--help' shows what can be given", command, command.empty() ? "" : " ");
  if (command.empty()) {
    const std::string known = fmt::format("the commands are: {}", fmt::join(known_commands(app), ", "));
    return (argc > 1 ? fmt::format("'{}' is no command; {}", argv[1], known) : "no command was given; " + known) + hint;
  }
  if (dynamic_cast<const CLI::ConfigError*>(&problem) != nullptr) {
    const std::string_view what = problem.what();
    return fmt::format("the config file has '{}', which 'kedge {}' does not know{}", what.substr(what.rfind(' ') + 1),
                       command, hint);
  }
  const std::vector<std::string> extra = app.remaining(true);
  if (!extra.empty()) return fmt::format("'{}' was not expected{}", extra.front(), hint);
  return problem.what() + hint;
}

void add_commands(CLI::App& app) {
  kedge::cli::add_fit(app);
  kedge::cli::add_attach(app);
  kedge::cli::add_transform(app);
  kedge::cli::add_translate(app);
  kedge::cli::add_compare(app);
  kedge::cli::add_stitch(app);
  kedge::cli::add_sweep(app);
  kedge::cli::add_inspect(app);
  kedge::cli::add_export(app);
  kedge::cli::add_devices(app);
  kedge::cli::add_demo(app);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "kedge makes independently trained encoders speak one language: it learns shared anchors from embeddings of "
      "the same inputs, and gives every encoder one small map into a common space.");
  app.name("kedge");
  app.set_version_flag("--version", "kedge " + std::string(kedge::version()));
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
  app.config_formatter(
      std::make_shared<kedge::cli::CommandConfig>(called_command(app, argc, argv), known_commands(app)));
  kedge::cli::watch_for_interrupt();

  try {
    app.parse(argc, argv);
    if (std::fflush(stdout) != 0) return complain(failed, "cannot write to stdout");
    return done;
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForAllHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::FileError& problem) {
    return complain(bad_file, problem.what());
  } catch (const CLI::ParseError& problem) {
    return complain(wrong_usage, explain(app, problem, argc, argv));
  } catch (const kedge::cli::Interrupted& problem) {
    return complain(interrupted, problem.what());
  } catch (const kedge::Error& problem) {
    return complain(exit_code(problem.code()), problem.what());
  } catch (const std::bad_alloc&) {
    return complain(failed, "out of memory; use fewer rows, support rows or anchors, or a machine with more memory");
  } catch (const std::exception& problem) {
    return complain(failed, problem.what());
  }
}
