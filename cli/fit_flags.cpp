// SPDX-License-Identifier: Apache-2.0
#include "fit_flags.h"

#include <fmt/format.h>

#include <type_traits>

namespace kedge::cli {

std::string support_help() {
  return fmt::format("Number of rows anchors are made of [{}, or all if fewer]", FitOptions::kDefaultSupport);
}

void FitFlags::add_to(CLI::App& c, CLI::Option* support, const std::string& learning, const std::string& consensus) {
  c.add_option("--support-ids", support_ids, "Those rows themselves: an .npy of int64 row numbers of the files")
      ->excludes(support)
      ->type_name("FILE");
  c.add_option("--support-select", support_select,
               "How those rows are selected; fps, kmeans and leverage compare all rows, which they hold in memory")
      ->check(CLI::IsMember(support_select_names()))
      ->capture_default_str()
      ->type_name("NAME");
  c.add_option("--epsilon", fit.whitening.epsilon, "Added to the covariance's diagonal (wip)")
      ->capture_default_str()
      ->type_name("X");
  c.add_option("--ridge", ridge, "Strength of the ridge; auto chooses it by cross-validation for each space")
      ->capture_default_str()
      ->type_name("auto|X");
  add_device(c, device);
  add_precision(c, precision);
  add_learning(c, learning);
  add_consensus(c, consensus);
}

FitOptions FitFlags::parsed() const {
  FitOptions options = fit;
  options.support_select = parse_support_select(support_select);
  options.device = parse_device(device);
  options.precision = parse_precision(precision);
  options.param.coverage_rows = parse_coverage_rows(coverage_rows);
  if (!attach_by.empty()) options.attach_by = parse_attach_by(attach_by);
  options.ridge = parse_ridge(ridge);
  if (!support_ids.empty()) {
    options.support_ids = read_integers(support_ids);
    if (options.support_ids.empty())
      throw Error(Code::bad_file, fmt::format("{}: it holds no row numbers", support_ids));
  }
  return options;
}

void FitFlags::add_consensus(CLI::App& c, const std::string& group) {
  ConsensusOptions& k = fit.consensus;
  c.add_option("--power", k.power, "How much more anchors count that the spaces agree on (also for cca)")
      ->capture_default_str()
      ->type_name("X")
      ->group(group);
  c.add_option("--refine-epochs", k.refine_epochs,
               "Improve the closed form by gradient, for at most so many passes over the rows; stops when rows held "
               "out no longer gain")
      ->check(kCount)
      ->capture_default_str()
      ->type_name("N")
      ->group(group);
  c.add_option("--refine-rate", k.refine_rate, "Its learning rate, relative to the size of the targets")
      ->capture_default_str()
      ->type_name("X")
      ->group(group);
  c.add_option("--refine-tau", k.refine_tau, "Temperature of its contrastive loss")
      ->capture_default_str()
      ->type_name("X")
      ->group(group);
}

/// The hyperparameters of PARAM, by the names the paper's table suggests.
void FitFlags::add_learning(CLI::App& c, const std::string& group) {
  ParamOptions& p = fit.param;
  const auto add = [&](const char* name, auto& value, const char* help) {
    CLI::Option* option = c.add_option(name, value, help)->capture_default_str()->group(group);
    if constexpr (std::is_integral_v<std::decay_t<decltype(value)>>) {
      option->type_name("N")->check(kCount);
    } else {
      option->type_name("X");
    }
  };
  add("--epochs", p.epochs, "Passes over the rows");
  add("--batch", p.batch, "Parallel rows per step");
  add("--lr", p.learning_rate, "Learning rate of Adam");
  add("--weight-decay", p.weight_decay, "Decoupled weight decay, as in AdamW");
  add("--temperature", p.temperature, "Of the softmax that makes the mixture");
  add("--weight-symnce", p.weight_symnce, "Weight of the contrastive loss between spaces; 0 leaves it out");
  add("--tau-symnce", p.tau_symnce, "Its temperature");
  add("--weight-coverage", p.weight_coverage, "Weight of the coverage loss");
  add("--tau-coverage", p.tau_coverage, "Its temperature");
  add("--weight-orthogonality", p.weight_orthogonality, "Weight of the orthogonality loss");
  add("--weight-length", p.weight_length, "Weight of the length loss");
  c.add_option("--coverage-rows", coverage_rows, "Rows coverage is taken over in each step")
      ->check(CLI::IsMember(coverage_rows_names()))
      ->capture_default_str()
      ->type_name("NAME")
      ->group(group);
  add("--coverage-chunk", p.coverage_chunk, "Rows at a time for --coverage-rows all");
}

}  // namespace kedge::cli
