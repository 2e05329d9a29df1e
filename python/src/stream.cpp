// SPDX-License-Identifier: Apache-2.0
#include "stream.h"

#include "inputs.h"
#include "text.h"
#include "work.h"
#include "io/outputs.h"

#include <kedge/device.h>
#include <kedge/rows.h>

namespace kedge::python {

void stream_file(nb::handle self, const std::string& space, const StreamCall& call, const StreamWork& work) {
  const RowChoice chosen = to_rows(call.rows);
  const std::string from = path_of(call.input);
  const std::string to = path_of(call.output);
  if (nb::isinstance<nb::str>(call.rows) || nb::hasattr(call.rows, "__fspath__")) {
    require_other_file(to, path_of(call.rows), false);
  }
  const StreamOptions options{parse_device(call.device), parse_precision(call.precision), call.normalize,
                              call.in_place};
  if (is_parquet(from) || is_parquet(to)) {
    nb::module_::import_("kedge.parquet")
        .attr("transform_file")(self, call.input, call.output, call.rows, call.device, call.normalize, call.in_place,
                                reporter(call.progress));
    return;
  }
  run(call.progress, false, [&](const Progress& report) {
    require_device(options.device);
    work(chosen.of(space, open_rows(from)), to, report, options);
  });
}

}  // namespace kedge::python
