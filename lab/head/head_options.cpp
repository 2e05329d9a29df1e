// SPDX-License-Identifier: Apache-2.0
#include "base/wording.h"

#include <fmt/format.h>
#include <kedge/lab/head.h>

namespace kedge {
namespace {

constexpr Names<HeadKind, 3> kHeadKindNames{"head", {"mlp", "linear", "ridge"}};

}  // namespace

std::string_view to_string(HeadKind kind) {
  return kHeadKindNames.of(kind);
}

HeadKind parse_head_kind(std::string_view name) {
  return kHeadKindNames.parse(name);
}

std::vector<std::string_view> head_kind_names() {
  return kHeadKindNames.all();
}

std::vector<Option> options_of(HeadOptions& options) {
  std::vector<Option> list;
  append_group(
      list, "head",
      {name_option("head", "Kind of head: mlp, linear (logistic regression for labels, ridge for targets) or ridge",
                   options.kind, parse_head_kind, head_kind_names()),
       count_option("head-epochs",
                    "Passes of an mlp over the rows; 0 means until a held-out tenth of them stops improving",
                    options.epochs),
       count_option(
           "head-hidden",
           fmt::format("Hidden values of an mlp; 0 means as many as there are features for labels and {} for targets",
                       HeadOptions::kDecoderHidden),
           options.hidden),
       count_option("head-batch", "Rows per step of an mlp", options.batch),
       number_option("head-lr", "Learning rate of an mlp", options.learning_rate),
       number_option("head-weight-decay", "Weight decay of an mlp", options.weight_decay),
       number_option("head-dropout", "Dropout of a classifier's mlp", options.dropout),
       number_option("head-l2", "Penalty of logistic regression; 1/C in scikit-learn", options.l2)});
  return list;
}

}  // namespace kedge
