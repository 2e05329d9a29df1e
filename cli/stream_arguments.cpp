// SPDX-License-Identifier: Apache-2.0
#include "stream_arguments.h"

#include "console.h"

namespace kedge::cli {

void StreamArguments::add_to(Command& command, const std::string& where) {
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

StreamOptions StreamArguments::options() const {
  const StreamOptions options{parse_device(device), parse_precision(precision), normalize, in_place};
  require_device(options.device);
  return options;
}

std::vector<std::string> StreamArguments::words() const {
  std::vector<std::string> words{"--device", device, "--precision", precision};
  if (normalize) words.emplace_back("--normalize");
  if (in_place) words.emplace_back("--in-place");
  return words;
}

}  // namespace kedge::cli
