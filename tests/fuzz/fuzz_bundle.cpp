// SPDX-License-Identifier: Apache-2.0
#include "fuzz.h"

#include <kedge/bundle.h>

namespace {

using namespace kedge;

void require_sound(const Bundle& bundle) {
  const std::size_t anchors = bundle.anchors().mixture.rows();
  const std::size_t support = bundle.anchors().mixture.cols();
  if (anchors == 0 || support == 0 || bundle.anchors().support_ids.size() != support) std::abort();
  for (const std::int64_t id : bundle.anchors().support_ids) {
    const auto row = static_cast<std::size_t>(id);
    if (id < 0 || row < bundle.made().rows.begin || row >= bundle.made().rows.end) std::abort();
  }
  for (const Attachment& space : bundle.spaces()) {
    if (space.map->output_dim() != anchors || !bundle.has(space.space())) std::abort();
    if (printable(space.space()) != space.space()) std::abort();
    if (space.kept && space.kept->rows.cols() != space.map->input_dim()) std::abort();
    if (space.decoder && space.decoder->weight.rows() != space.map->input_dim()) std::abort();
  }
  if (printable(bundle.made().kedge_version) != bundle.made().kedge_version) std::abort();
}

void load(std::string_view text) {
  fuzz::read_or_refuse(text, [](std::string_view bytes) { require_sound(bundle_from_bytes(bytes, "input")); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::load_both_ways(data, size, load);
}
