// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace kedge::cli {

// Each adds one subcommand that runs when it was named on the command line.
void add_fit(CLI::App& app);
void add_attach(CLI::App& app);
void add_transform(CLI::App& app);
void add_translate(CLI::App& app);
void add_compare(CLI::App& app);
void add_stitch(CLI::App& app);
void add_sweep(CLI::App& app);
void add_inspect(CLI::App& app);
void add_export(CLI::App& app);
void add_devices(CLI::App& app);
void add_demo(CLI::App& app);

}  // namespace kedge::cli
