// SPDX-License-Identifier: Apache-2.0
#include "fuzz.h"
#include "results/results_file.h"
#include "results/tables_file.h"
#include "stitch/stitch_settings.h"

#include <kedge/lab/results.h>

namespace {

using namespace kedge;

constexpr const char* kSettings =
    R"({"spaces":[{"name":"a","dim":3,"fingerprint":"00"}],"train":[0,6],"labels":{"classes":2},"fit":{"epochs":95}})";

/// What `stitch` does with the results it finds in a folder before it goes on with them.
void go_on(const StitchResults& results) {
  (void)records_json(results);
  (void)markdown_tables(results);
  (void)latex_tables(results);
  (void)tables_json(results);
  try {
    require_same_settings(results.settings, kSettings);
  } catch (const Error& error) {
    if (error.code() == Code::failed || !fuzz::is_sentence(error.what())) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  fuzz::refuse_or_read([&] {
    StitchResults results;
    fuzz::within_memory(size, [&] { results = parse_results(text); });
    go_on(results);
  });
  return 0;
}
