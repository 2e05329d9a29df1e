// SPDX-License-Identifier: Apache-2.0
#include "base/option.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/fit.h>

namespace kedge {
namespace {

/// Not set means that what the help says decides; `direct` is nothing to ask for.
Option attach_option(std::string help, std::optional<AttachBy>& by) {
  const TextValue value{[&by] { return by ? std::string(to_string(*by)) : std::string(); },
                        [&by](const std::string& text) {
                          if (text.empty()) {
                            by.reset();
                          } else if (text == to_string(AttachBy::mixture) || text == to_string(AttachBy::ridge)) {
                            by = parse_attach_by(text);
                          } else {
                            throw Error(Code::bad_argument,
                                        fmt::format("attach is '{}', expected mixture or ridge", text));
                          }
                        }};
  return without_default(text_option("attach", std::move(help), "NAME", value,
                                     {to_string(AttachBy::mixture), to_string(AttachBy::ridge)}));
}

Option ridge_option(std::string help, std::optional<double>& ridge) {
  const TextValue value{[&ridge] { return ridge ? fmt::format("{}", *ridge) : "auto"; },
                        [&ridge](const std::string& text) {
                          const std::optional<double> given = parse_number(text);
                          if (!given && text != "auto") {
                            throw Error(Code::bad_argument,
                                        fmt::format("ridge is '{}', expected auto or a number of 0 or more", text));
                          }
                          ridge = given;
                        }};
  return text_option("ridge", std::move(help), "auto|X", value);
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

Option shrinkage_option(FitOptions& options) {
  const TextValue value{[&options] {
                          return options.shrinkage_rule == ShrinkageRule::fixed
                                     ? fmt::format("{}", options.whitening.shrinkage)
                                     : std::string(to_string(options.shrinkage_rule));
                        },
                        [&options](const std::string& text) { set_shrinkage(options, text); }};
  return text_option("shrinkage",
                     "Pull of the covariance towards a sphere, 0 to 1 (wip); auto or ledoit-wolf, or oas, chooses it "
                     "for each space",
                     "X|NAME", value);
}

Option device_option(std::string help, Device& device) {
  return name_option("device", std::move(help), device, parse_device, device_names());
}

/// PARAM's, by the names the paper's table suggests.
std::vector<Option> param_options(ParamOptions& param, CheckpointOptions& checkpoint) {
  Option file;
  file.name = "checkpoint";
  file.help = "Where the state of training is kept, so that it can be continued";
  file.type = "FILE";
  file.shows_default = false;
  file.value = &checkpoint.path;
  return {count_option("epochs", "Passes over the rows", param.epochs),
          count_option("batch", "Parallel rows per step", param.batch),
          number_option("lr", "Learning rate of Adam", param.learning_rate),
          number_option("weight-decay", "Decoupled weight decay, as in AdamW", param.weight_decay),
          number_option("temperature", "Of the softmax that makes the mixture", param.temperature),
          number_option("weight-symnce", "Weight of the contrastive loss between spaces; 0 leaves it out",
                        param.weight_symnce),
          number_option("tau-symnce", "Its temperature", param.tau_symnce),
          number_option("weight-coverage", "Weight of the coverage loss", param.weight_coverage),
          number_option("tau-coverage", "Its temperature", param.tau_coverage),
          number_option("weight-orthogonality", "Weight of the orthogonality loss", param.weight_orthogonality),
          number_option("weight-length", "Weight of the length loss", param.weight_length),
          name_option("coverage-rows", "Rows coverage is taken over in each step", param.coverage_rows,
                      parse_coverage_rows, coverage_rows_names()),
          count_option("coverage-chunk", "Rows at a time where coverage is taken over all", param.coverage_chunk),
          std::move(file),
          count_option("checkpoint-every", "Epochs between checkpoints; one is also written where training is stopped",
                       checkpoint.every),
          flag_option("resume", "Continue from the checkpoint, to the very same result", checkpoint.resume)};
}

std::vector<Option> consensus_options(ConsensusOptions& consensus) {
  return {
      number_option("power", "How much more anchors count that the spaces agree on (also for cca)", consensus.power),
      count_option("refine-epochs",
                   "Improve the closed form by gradient, for at most so many passes over the rows; stops when rows "
                   "held out no longer gain",
                   consensus.refine_epochs),
      number_option("refine-rate", "Its learning rate, relative to the size of the targets", consensus.refine_rate),
      number_option("refine-tau", "Temperature of its contrastive loss", consensus.refine_tau)};
}

}  // namespace

std::vector<Option> options_of(FitOptions& options) {
  std::vector<Option> list{
      name_option("method",
                  "How anchors are made: consensus (in closed form; start here), param (the paper's method, learned by "
                  "gradient), random, kmeans or fps (picked from the support); procrustes, ridge or cca join one pair "
                  "directly, as baselines",
                  options.method, parse_method, method_names()),
      name_option("similarity", "How an embedding is compared with an anchor", options.similarity, parse_similarity,
                  similarity_names()),
      count_option("anchors",
                   "Number of anchors, which is the dimension of the shared space (not for procrustes and ridge, whose "
                   "shared space is the second encoder's own)",
                   options.anchors),
      without_default(count_option(
          "support",
          fmt::format("Number of rows anchors are made of [{}, or all if fewer]", FitOptions::kDefaultSupport),
          options.support, 1)),
      name_option("support-select",
                  "How those rows are selected; fps, kmeans and leverage compare all rows, which they hold in memory",
                  options.support_select, parse_support_select, support_select_names()),
      count_option("keep",
                   "Keep the N largest weights of each anchor and only the support rows they need, so that attaching "
                   "needs fewer; 0 keeps all (not for consensus and adapters)",
                   options.keep),
      count_option("seed", "Same seed, same bundle", options.seed),
      shrinkage_option(options),
      number_option("epsilon", "Added to the covariance's diagonal (wip)", options.whitening.epsilon),
      attach_option("How maps are made, here and by attach: mixture, or ridge (regression on the support, wip only) "
                    "[ridge for consensus, else mixture]",
                    options.attach_by),
      ridge_option("Strength of the ridge; auto chooses it by cross-validation for each space", options.ridge),
      device_option("Where to compute", options.device),
      name_option("precision",
                  "Of matrix products on a GPU: fp32 as on the processor; tf32 is faster and coarser; bf16 is tf32, "
                  "with the two large products with the support in bfloat16",
                  options.precision, parse_precision, precision_names())};
  append_group(list, "param", param_options(options.param, options.checkpoint));
  append_group(list, "consensus", consensus_options(options.consensus));
  return list;
}

std::vector<Option> options_of(AttachOptions& options) {
  return {flag_option("support-rows", "The space holds just the support rows, in the order of the bundle's support ids",
                      options.support_rows),
          attach_option("How its map is made: mixture (anchors are mixtures of its support rows), or ridge (regression "
                        "of the bundle's targets, wip only) [as the bundle's other spaces]",
                        options.by),
          ridge_option("Strength of the ridge; auto chooses it by cross-validation", options.ridge),
          device_option("Where statistics are taken", options.device)};
}

}  // namespace kedge
