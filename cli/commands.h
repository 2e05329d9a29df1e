// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace kedge::cli {

class CommandLine;

// Each adds one command to those that kedge knows.
void add_fit(CommandLine& line);
void add_attach(CommandLine& line);
void add_match(CommandLine& line);
void add_moments(CommandLine& line);
void add_transform(CommandLine& line);
void add_translate(CommandLine& line);
void add_compare(CommandLine& line);
void add_retrieve(CommandLine& line);
void add_stitch(CommandLine& line);
void add_sweep(CommandLine& line);
void add_inspect(CommandLine& line);
void add_export(CommandLine& line);
void add_devices(CommandLine& line);
void add_demo(CommandLine& line);
void add_completion(CommandLine& line);

/// All of them, in the order of the help.
void add_commands(CommandLine& line);

}  // namespace kedge::cli
