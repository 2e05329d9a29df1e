// SPDX-License-Identifier: Apache-2.0
#include "commands.h"

namespace kedge::cli {

void add_commands(CommandLine& line) {
  add_fit(line);
  add_attach(line);
  add_match(line);
  add_moments(line);
  add_transform(line);
  add_translate(line);
  add_compare(line);
  add_retrieve(line);
  add_stitch(line);
  add_sweep(line);
  add_inspect(line);
  add_export(line);
  add_devices(line);
  add_demo(line);
  add_completion(line);
}

}  // namespace kedge::cli
