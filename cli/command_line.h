// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace kedge::cli {

/// Gives the app all that kedge takes: its commands, and --config for the one that the arguments name.
void set_up(CLI::App& app, int argc, const char* const* argv);

/// What CLI11 says, but with the word that was wrong where it only says what is missing.
[[nodiscard]] std::string explain(const CLI::App& app, const CLI::ParseError& problem, int argc,
                                  const char* const* argv);

}  // namespace kedge::cli
