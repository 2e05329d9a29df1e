// SPDX-License-Identifier: Apache-2.0
#include "commands.h"
#include "config.h"
#include "console.h"

#include <fmt/format.h>
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

int complain(int code, const std::string& message) {
  fmt::print(stderr, "kedge: {}\n", message);
  return code;
}

std::string called_command(const CLI::App& app, int argc, char** argv) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  for (int i = 1; i < argc; ++i) {
    for (const CLI::App* command : commands) {
      if (command->get_name() == argv[i]) return argv[i];
    }
  }
  return "";
}

void add_commands(CLI::App& app) {
  kedge::cli::add_fit(app);
  kedge::cli::add_attach(app);
  kedge::cli::add_transform(app);
  kedge::cli::add_compare(app);
  kedge::cli::add_inspect(app);
  kedge::cli::add_export(app);
  kedge::cli::add_devices(app);
  kedge::cli::add_demo(app);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("kedge makes independently trained encoders speak one language: it learns shared anchors from embeddings of "
               "the same inputs, and gives every encoder one small map into a common space.");
  app.name("kedge");
  app.set_version_flag("--version", "kedge " + std::string(kedge::version()));
  app.require_subcommand(1);
  app.option_defaults()->take_last();  // as users of other tools expect of a repeated option
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.fallthrough();
  app.get_formatter()->column_width(34);
  app.footer("'kedge COMMAND --help' explains a command. Exit: 0 done, 1 failed, 2 wrong usage, 3 bad file.");
  add_commands(app);
  for (CLI::App* command : app.get_subcommands({})) {
    command->fallthrough();
    command->footer("--config FILE.toml reads any of these options from a file.");
  }
  app.set_config("--config", "", "Read options of the command from a TOML file");
  app.config_formatter(std::make_shared<kedge::cli::CommandConfig>(called_command(app, argc, argv)));
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
    const std::string command = called_command(app, argc, argv);
    return complain(wrong_usage, fmt::format("{}\n       'kedge {}{}--help' shows what can be given", problem.what(), command,
                                             command.empty() ? "" : " "));
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
