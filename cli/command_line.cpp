// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"

#include "base/wording.h"
#include "commands.h"
#include "config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kedge/error.h>
#include <kedge/version.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

namespace kedge::cli {
namespace {

/// Escapes the words of a user or a file, as every other message does.
std::string shown(std::string_view text) {
  return Error(Code::bad_argument, text).what();
}

/// The entry of the config file that CLI11 complains about.
std::string entry_of(const CLI::ConfigError& problem) {
  constexpr std::string_view kUnknown = "INI was not able to parse ";
  const std::string_view what = problem.what();
  return shown(what.starts_with(kUnknown) ? what.substr(kUnknown.size()) : what.substr(0, what.rfind(": ")));
}

/// Every way to write the options of a command, and those of kedge itself.
std::vector<std::string> option_names(const CLI::App& app, const std::string& command) {
  std::vector<std::string> names;
  const auto add = [&](const CLI::App& of) {
    for (const CLI::Option* option : of.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  };
  add(app);
  if (!command.empty()) add(*app.get_subcommand(command));
  return names;
}

/// Empty if it is not an option.
std::string meant_option(const CLI::App& app, const std::string& command, const std::string& word) {
  if (!word.starts_with('-')) return "";
  const std::string name = word.substr(0, word.find('='));
  const std::vector<std::string> names = option_names(app, command);
  if (std::ranges::count(names, name) > 0) return "; give it after the command";
  return did_you_mean(name, names);
}

/// CLI11's message, with the wrong word added if it only says what is missing.
std::string explain(const CLI::App& app, const CLI::ParseError& problem, const std::string& command,
                    const std::vector<std::string>& known, int argc, const char* const* argv) {
  if (command.empty()) {
    const std::string commands = fmt::format("the commands are: {}", fmt::join(known, ", "));
    if (argc <= 1) return "no command was given; " + commands;
    const std::string word = argv[1];
    const bool option = word.starts_with('-');
    const std::string meant = option ? meant_option(app, command, word) : did_you_mean(word, known);
    return fmt::format("there is no {} '{}'{}{}{}", option ? "option" : "command", shown(word), meant,
                       meant.empty() ? "; " : " ", commands);
  }
  if (const auto* entry = dynamic_cast<const CLI::ConfigError*>(&problem)) {
    const std::string name = entry_of(*entry);
    return fmt::format("the config file has '{}', which 'kedge {}' does not know{}", name, command,
                       meant_option(app, command, "--" + name.substr(name.rfind('.') + 1)));
  }
  const std::vector<std::string> extra = app.remaining(true);
  if (!extra.empty()) {
    return fmt::format("'{}' was not expected{}", shown(extra.front()), meant_option(app, command, extra.front()));
  }
  return shown(problem.what());
}

}  // namespace

CommandLine::CommandLine()
    : app_(std::make_unique<CLI::App>(
          "kedge makes independently trained encoders speak one language: it learns shared anchors from embeddings of "
          "the same inputs, and gives every encoder one small map into a common space.",
          "kedge")) {
  app_->set_version_flag("--version", "kedge " + std::string(version()));
  app_->require_subcommand(1);
  app_->option_defaults()->take_last();  // the last of repeated options wins, as in other tools
  app_->allow_config_extras(CLI::config_extras_mode::error);
  app_->fallthrough();
  app_->get_formatter()->column_width(34);
  app_->footer(
      "Run 'kedge COMMAND --help' for help on a command. Exit status: 0 done, 1 failed, 2 wrong usage, 3 bad file, 4 "
      "not "
      "matched, 130 interrupted.");
  add_commands(*this);
  app_->set_config("--config", "", "Read the command's options from a TOML file")->type_name("FILE");
}

CommandLine::~CommandLine() = default;

Command& CommandLine::add(const std::string& name, const std::string& help) {
  CLI::App* command = app_->add_subcommand(name, help);
  command->fallthrough();
  command->footer("--config FILE.toml reads any of these options from a file.");
  return commands_.emplace_back(*command);
}

std::vector<std::string> CommandLine::names() const {
  std::vector<std::string> names;
  for (const Command& command : commands_) {
    if (!command.hidden()) names.push_back(command.name());
  }
  return names;
}

std::string CommandLine::called(int argc, const char* const* argv) const {
  const auto* found = std::find_if(argv + 1, argv + argc, [&](const std::string_view word) {
    return std::ranges::find(commands_, word, &Command::name) != commands_.end();
  });
  return found == argv + argc ? "" : *found;
}

std::function<void()> CommandLine::parse(int argc, const char* const* argv) {
  const std::string command = called(argc, argv);
  app_->config_formatter(std::make_shared<CommandConfig>(command, names()));
  const auto print = [](const std::string& text) { return [text] { std::fputs(text.c_str(), stdout); }; };
  try {
    app_->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return print(app_->help());
  } catch (const CLI::CallForAllHelp&) {
    return print(app_->help("", CLI::AppFormatMode::All));
  } catch (const CLI::CallForVersion& version) {
    return print(std::string(version.what()) + "\n");
  } catch (const CLI::FileError& problem) {
    throw Error(Code::bad_file, problem.what());
  } catch (const CLI::ParseError& problem) {
    throw WrongUsage(fmt::format("{}\n       run 'kedge {}{}--help' to see what it accepts",
                                 explain(*app_, problem, command, names(), argc, argv), command,
                                 command.empty() ? "" : " "));
  }
  const CLI::App* chosen = app_->get_subcommands().front();
  return std::ranges::find_if(commands_, [&](const Command& known) { return &known.app() == chosen; })->work();
}

}  // namespace kedge::cli
