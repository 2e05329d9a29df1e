// SPDX-License-Identifier: Apache-2.0
#include "stream_arguments.h"

#include "parquet.h"
#include "io/outputs.h"

#include <fmt/format.h>

#include <utility>

namespace kedge::cli {

void StreamArguments::add_to(Command& command, const std::string& done, const std::string& where) {
  command.add("-i,--in", input, "Embeddings: .npy, .safetensors#tensor, .fvecs or .parquet#column, of any length")
      .required()
      .takes("FILE");
  command
      .add("-o,--out", output,
           "Result, one row per input row: a float32 .npy, or a .parquet that keeps the input's other columns")
      .required()
      .takes("FILE");
  rows.add_to(command, fmt::format("Rows to {}, as FIRST:END [all]", done));
  command.add_flag("--normalize", normalize,
                   "Divide every result by its length, as indexes of cosines want them; a row of zeros stays one");
  command.add_flag("--in-place", in_place,
                   "Let --out replace the file of --in, once the result is whole; without it, no input is replaced");
  add_device(command, device, where);
  command
      .add("--precision", precision,
           "Precision of matrix products on a GPU: fp32 as on the processor; tf32 is faster but coarser; reading and "
           "writing the file takes longer than either")
      .one_of({to_string(Precision::fp32), to_string(Precision::tf32)})
      .shows_default()
      .takes("NAME");
}

void StreamArguments::hand_over_parquet(std::vector<std::string> words, const CommonOptions& common) const {
  if (!is_parquet(input) && !is_parquet(output)) return;
  rows.require_range("of a Parquet file");
  const std::vector<std::string> own{"--in",     input,      "--out", output,        "--rows",
                                     rows.range, "--device", device,  "--precision", precision};
  words.insert(words.end(), own.begin(), own.end());
  if (normalize) words.emplace_back("--normalize");
  if (in_place) words.emplace_back("--in-place");
  const std::vector<std::string> shared = common.words();
  words.insert(words.end(), shared.begin(), shared.end());
  become_parquet(std::move(words));
}

StreamOptions StreamArguments::options(const std::string& bundle) const {
  const StreamOptions options{parse_device(device), parse_precision(precision), normalize, in_place};
  require_device(options.device);
  require_other_file(output, bundle);
  require_other_file(output, rows.file);
  return options;
}

Space StreamArguments::open(const std::string& space) const {
  return rows.open(space, open_rows(input));
}

}  // namespace kedge::cli
