// SPDX-License-Identifier: Apache-2.0
#include <kedge/options/lists.h>

#include "base/wording.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kedge/error.h>

#include <algorithm>
#include <array>

namespace kedge {
namespace {

const std::array kWays{to_string(AttachBy::mixture), to_string(AttachBy::ridge), to_string(AttachBy::kernel),
                       to_string(AttachBy::automatic)};

/// Not set means that what the help says decides; `direct` is nothing to ask for.
Option attach_option(std::string help, std::optional<AttachBy>& by) {
  const TextValue value{[&by] { return by ? std::string(to_string(*by)) : std::string(); },
                        [&by](const std::string& text) {
                          if (text.empty()) {
                            by.reset();
                          } else if (std::ranges::find(kWays, text) != kWays.end()) {
                            by = parse_attach_by(text);
                          } else {
                            throw Error(Code::bad_argument,
                                        fmt::format("attach is '{}', expected {}", text, fmt::join(kWays, ", ")));
                          }
                        }};
  return without_default({"attach", std::move(help), "NAME", value, 0, {kWays.begin(), kWays.end()}});
}

/// A number, or what cross-validation chooses.
Option chosen_option(std::string_view name, std::string help, std::optional<double>& number,
                     std::string_view range = "of 0 or more") {
  const TextValue value{[&number] { return number ? fmt::format("{}", *number) : "auto"; },
                        [&number, name, range](const std::string& text) {
                          const std::optional<double> given = parse_number(text);
                          if (!given && text != "auto") {
                            throw Error(Code::bad_argument,
                                        fmt::format("{} is '{}', expected auto or a number {}", name, text, range));
                          }
                          number = given;
                        }};
  return {name, std::move(help), "auto|X", value};
}

void append_kernel_options(std::vector<Option>& list, KernelOptions& kernel) {
  list.push_back(chosen_option("kernel-width",
                               "Width g of the kernel exp(g (cosine - 1)) of a map by kernel: the larger, the more "
                               "local. auto chooses it by leave-one-out error, for each space",
                               kernel.width, "from 0.001 to 64"));
  list.push_back(chosen_option("kernel-strength", "Strength of its penalty, relative to the number of support rows",
                               kernel.strength, "from 1e-9 to 1e6"));
  list.push_back(chosen_option("kernel-whitening",
                               "How far rows are whitened before it compares them: 0 centred, 0.5 half, 1 whitened",
                               kernel.whitening, "from 0 to 1"));
}

Option effort_option(std::string help, Effort& effort) {
  return name_option("effort", std::move(help), effort, parse_effort, effort_names());
}

Option shrinkage_option(FitOptions& options) {
  const TextValue value{[&options] {
                          return options.shrinkage_rule == ShrinkageRule::fixed
                                     ? fmt::format("{}", options.whitening.shrinkage)
                                     : std::string(to_string(options.shrinkage_rule));
                        },
                        [&options](const std::string& text) { set_shrinkage(options, text); }};
  return {
      "shrinkage",
      "How far to shrink the covariance towards a sphere, 0 to 1 (wip); auto (the same as ledoit-wolf) or oas chooses "
      "it for each space",
      "X|NAME", value};
}

Option device_option(std::string help, Device& device) {
  return name_option("device", std::move(help), device, parse_device, device_names());
}

std::vector<Option> checkpoint_options(CheckpointOptions& checkpoint) {
  return {
      without_default(
          {"checkpoint", "File that keeps the state of training, so that it can be resumed", "FILE", &checkpoint.path}),
      count_option("checkpoint-every", "Epochs between checkpoints; one is also written when training is interrupted",
                   checkpoint.every),
      flag_option("resume", "Continue from the checkpoint; the result is exactly the same", checkpoint.resume)};
}

std::vector<Option> consensus_options(Consensus& consensus) {
  return {number_option("power", "How strongly to favour anchors the spaces agree on (also for cca)", consensus.power),
          count_option("refine-epochs",
                       "Refine the closed form by gradient for at most N passes over the rows; stops when held-out "
                       "rows no longer improve",
                       consensus.refinement.epochs),
          number_option("refine-rate", "Learning rate of the refinement, relative to the size of the targets",
                        consensus.refinement.rate),
          number_option("refine-tau", "Temperature of the refinement's contrastive loss", consensus.refinement.tau)};
}

/// What no method takes is refused as such, whichever the method is.
void require_not_negative(const Option& option) {
  const auto* number = std::get_if<double*>(&option.value);
  if (option.group != "consensus" || number == nullptr || **number >= 0) return;
  throw Error(Code::bad_argument,
              fmt::format("{} is {}, expected a number of 0 or more", option_words(option.name), **number));
}

bool belongs_to(const Option& option, const Method& method) {
  return option.group.empty() || option.group == to_string(method) ||
         (option.name == "power" && is_adapter(method, Pairwise::cca));
}

}  // namespace

std::vector<Option> options_of(FitArguments& options) {
  std::vector<Option> list{
      name_option("method",
                  "How to make anchors: consensus (in closed form; start here), param (the paper's method, learned by "
                  "gradient), random, kmeans or fps (picked from the support); procrustes, ridge and cca align one "
                  "pair directly, as baselines; kernel aligns one pair by non-linear maps, best for translation",
                  options.method, parse_method, method_names()),
      effort_option("fast: linear maps, in closed form, in seconds. best: maps by kernel, and refined targets for a "
                    "consensus with rows beside the support; better, in minutes (not for adapters)",
                    options.effort),
      name_option("similarity", "How to compare an embedding with an anchor", options.similarity, parse_similarity,
                  similarity_names()),
      without_default(count_option(
          "anchors",
          fmt::format(
              "Number of anchors, which is the dimension of the shared space (not for procrustes, ridge and kernel, "
              "whose shared space is the second encoder's own); consensus and cca make no more than there are "
              "directions that the encoders share [{}, or as many as there are support rows if fewer]",
              FitOptions::kDefaultAnchors),
          options.anchors, 1)),
      without_default(count_option(
          "support",
          fmt::format("Number of rows to make anchors from [{}, or {} for maps by kernel, or all if fewer]",
                      FitOptions::kDefaultSupport, FitOptions::kKernelSupport),
          options.support, 1)),
      name_option("support-select",
                  "How to select those rows; fps, kmeans and leverage compare all rows and hold them in memory",
                  options.support_select, parse_support_select, support_select_names()),
      count_option("keep",
                   "Keep only the N largest weights of each anchor and the support rows they need, so that attaching "
                   "needs fewer rows; 0 keeps all (not for consensus, procrustes, ridge, cca and kernel)",
                   options.keep),
      count_option("seed", "Same seed, same bundle", options.seed),
      shrinkage_option(options),
      number_option("epsilon", "Added to the covariance's diagonal (wip)", options.whitening.epsilon),
      attach_option(
          "How to make maps, here and in attach: mixture, ridge (regression on the support, wip only), kernel "
          "(the same, not linear: slower and mostly better), or auto (ridge or kernel, by leave-one-out "
          "error) [ridge for consensus, kernel for the method kernel, else mixture]",
          options.attach_by),
      chosen_option("ridge", "Strength of the ridge; auto chooses it by cross-validation for each space",
                    options.ridge),
      device_option("Where to compute", options.device),
      name_option(
          "precision",
          "Precision of matrix products in learning: fp32; tf32, on a GPU faster but coarser, on the processor "
          "the same as fp32; bf16, on a GPU only, tf32 with the two large products with the support in bfloat16",
          options.precision, parse_precision, precision_names())};
  append_kernel_options(list, options.kernel);
  list.push_back(
      flag_option("robust",
                  "Leave out support rows that do not belong together, as the other rows tell (for consensus "
                  "attached by ridge or kernel, procrustes, ridge, cca and kernel)",
                  options.robust));
  list.push_back(flag_option("keep-rows",
                             "Keep the support rows of every space in the bundle, so that a translation is the pair's "
                             "own regression, by kernel where the map is (not for procrustes, ridge, cca and kernel)",
                             options.keep_rows));
  append_group(list, "param", options_of(options.param));
  append_group(list, "param", checkpoint_options(options.param.checkpoint));
  append_group(list, "consensus", consensus_options(options.consensus));
  return list;
}

/// By the names the paper's table suggests.
std::vector<Option> options_of(Param& param) {
  return {count_option("epochs", "Passes over the rows", param.epochs),
          count_option("batch", "Rows per step", param.batch),
          number_option("lr", "Learning rate of Adam", param.learning_rate),
          number_option("weight-decay", "Decoupled weight decay, as in AdamW", param.weight_decay),
          number_option("temperature", "Temperature of the softmax that makes the mixture", param.temperature),
          number_option("weight-symnce", "Weight of the contrastive loss between spaces; 0 leaves it out",
                        param.weight_symnce),
          number_option("tau-symnce", "Temperature of the contrastive loss", param.tau_symnce),
          number_option("weight-coverage", "Weight of the coverage loss", param.weight_coverage),
          number_option("tau-coverage", "Temperature of the coverage loss", param.tau_coverage),
          number_option("weight-orthogonality", "Weight of the orthogonality loss", param.weight_orthogonality),
          number_option("weight-length", "Weight of the length loss", param.weight_length),
          name_option("coverage-rows", "Rows to compute coverage over in each step", param.coverage_rows,
                      parse_coverage_rows, coverage_rows_names()),
          count_option("coverage-chunk", "Rows at a time if coverage is computed over all rows", param.coverage_chunk)};
}

std::vector<Option> options_of(AttachOptions& options) {
  std::vector<Option> list{
      flag_option("support-rows", "The space holds only the support rows, in the order of the bundle's support ids",
                  options.support_rows),
      attach_option("How to make its map: mixture (anchors are mixtures of its support rows), ridge (regression "
                    "of the bundle's targets, wip only), kernel (the same, not linear: slower and mostly better), "
                    "or auto (ridge or kernel, by leave-one-out error) [as for the bundle's other spaces]",
                    options.by),
      chosen_option("ridge", "Strength of the ridge; auto chooses it by cross-validation", options.ridge),
      device_option("Where to compute", options.device),
      effort_option("fast: as for the bundle's other spaces. best: by kernel, if the bundle has targets",
                    options.effort)};
  append_kernel_options(list, options.kernel);
  list.push_back(flag_option(
      "robust",
      "Leave out support rows that are other inputs than the bundle's, as the other rows tell (for a map by "
      "ridge or kernel)",
      options.robust));
  return list;
}

std::vector<Option> options_of(MatchOptions& options) {
  return {
      flag_option("disjoint", "The spaces hold different inputs: look for the rotation between them, and for no pairs",
                  options.disjoint),
      flag_option("force", "Give what was found even if the verdict is against it", options.force),
      count_option("runs", "How often to try at most; two runs that agree end the search", options.runs, 1),
      count_option("seed", "Same seed, same pairs", options.seed)};
}

std::vector<Option> options_of(CompareOptions& options) {
  return {{"recall-at", "Ranks to report recall at", "LIST", &options.recall_at, 1},
          count_option("neighbors", "Neighbours to count for the k-NN overlap", options.neighbors, 1),
          device_option("Where to compute ranks", options.device)};
}

std::vector<Option> options_of(RetrieveOptions& options) {
  return {count_option("k", "Documents of each query that nDCG and MRR look at", options.k, 1),
          count_option("recall-k", "Documents of each query that recall looks at", options.recall_k, 1),
          name_option("similarity", "How to compare a query with a document", options.similarity, parse_search_by,
                      search_by_names())};
}

void set_shrinkage(FitOptions& options, const std::string& text) {
  if (const std::optional<double> given = parse_number(text)) {
    options.whitening.shrinkage = *given;
    options.shrinkage_rule = ShrinkageRule::fixed;
  } else if (text == "auto") {
    options.shrinkage_rule = ShrinkageRule::ledoit_wolf;
  } else if (text == to_string(ShrinkageRule::ledoit_wolf) || text == to_string(ShrinkageRule::oas)) {
    options.shrinkage_rule = parse_shrinkage_rule(text);
  } else {
    throw Error(Code::bad_argument,
                fmt::format("shrinkage is '{}', expected a number from 0 to 1, auto, ledoit-wolf or oas", text));
  }
}

void require_own_options(const FitArguments& options) {
  FitArguments asked = options, defaults;
  const std::vector<Option> given = options_of(asked), otherwise = options_of(defaults);
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (belongs_to(given[i], options.method) || value_of(given[i]) == value_of(otherwise[i])) continue;
    require_not_negative(given[i]);
    throw Error(Code::bad_argument,
                fmt::format("{} belongs to the method {}, but the method is {}; choose the method {}, or leave out {}",
                            option_words(given[i].name), given[i].group, to_string(options.method), given[i].group,
                            option_words(given[i].name)));
  }
  if (!options.keep || is_convex(options.method)) return;
  throw Error(Code::bad_argument,
              fmt::format("asked to keep the {} largest weights of each anchor, but {} makes signed weights that "
                          "cannot be dropped one by one; keep all, or use param, kmeans, fps or random",
                          *options.keep, to_string(options.method)));
}

FitOptions fit_options(const FitArguments& options) {
  FitOptions result = options;  // NOLINT(cppcoreguidelines-slicing): the rest follows
  if (auto* param = std::get_if<Param>(&result.method)) {
    *param = options.param;
    param->keep = options.keep;
  } else if (auto* consensus = std::get_if<Consensus>(&result.method)) {
    *consensus = options.consensus;
  } else if (auto* chosen = std::get_if<ChosenRows>(&result.method)) {
    chosen->keep = options.keep;
  } else {
    std::get<Adapter>(result.method).power = options.consensus.power;
  }
  return result;
}

}  // namespace kedge
