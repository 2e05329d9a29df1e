// SPDX-License-Identifier: Apache-2.0
// The objective and its gradient: against the oracle, and against finite differences of a plain float64 objective.
#include "anchors/param/objective.h"
#include "anchors/param/trainer.h"
#include "compute/devices.h"
#include "compute/reference_backend.h"
#include "support.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

namespace kedge {
namespace {

using test::random_matrix;

Matrix read(Backend& backend, Tensor& tensor) {
  Matrix host(tensor.panel().rows, tensor.panel().cols);
  backend.download(tensor.panel(), host.view());
  return host;
}

std::unique_ptr<Tensor> upload(Backend& backend, const Matrix& matrix) {
  auto tensor = backend.make(matrix.rows(), matrix.cols());
  backend.upload(matrix.view(), tensor->panel());
  return tensor;
}

/// Losses and the gradient of the logits, through the mixture's softmax.
struct Evaluated {
  Losses losses;
  std::vector<double> dlogits;
};

Evaluated evaluate(Backend& backend, const WhitenedSpaces& spaces, std::span<const std::uint32_t> support,
                   std::span<const std::uint32_t> batch, const Matrix& logits, const Param& options) {
  Objective objective(backend, spaces, support, logits.rows(), options);
  const auto q = upload(backend, logits);
  const auto p = backend.make(logits.rows(), logits.cols());
  const auto dp = backend.make(logits.rows(), logits.cols());
  backend.softmax_rows(q->panel(), static_cast<float>(options.temperature), p->panel());
  Evaluated result{objective.evaluate(p->panel(), batch, dp->panel()), {}};
  const Matrix mixture = read(backend, *p);
  const Matrix dmixture = read(backend, *dp);
  for (std::size_t r = 0; r < logits.rows(); ++r) {
    double inner = 0;
    for (std::size_t k = 0; k < logits.cols(); ++k)
      inner += static_cast<double>(mixture.row(r)[k]) * dmixture.row(r)[k];
    for (std::size_t k = 0; k < logits.cols(); ++k) {
      result.dlogits.push_back(mixture.row(r)[k] * (dmixture.row(r)[k] - inner) / options.temperature);
    }
  }
  return result;
}

double relative_error(std::span<const double> found, std::span<const double> wanted) {
  EXPECT_EQ(found.size(), wanted.size());
  double difference = 0;
  double scale = 1e-30;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    difference = test::worse(difference, std::abs(found[i] - wanted[i]));
    scale = std::max(scale, std::abs(wanted[i]));
  }
  return difference / scale;
}

// The oracle.

std::string path(const std::string& name) {
  return std::string(KEDGE_TEST_DATA) + "/oracle/" + name;
}

Matrix oracle_matrix(const std::string& name) {
  return Space("oracle", open_rows(path(name))).read_all();
}

std::vector<double> oracle_values(const std::string& name) {
  const auto rows = open_rows(path(name));
  Matrix64 values(rows->rows(), rows->cols());
  rows->read(0, values.view());
  return {values.cells().begin(), values.cells().end()};
}

std::vector<std::uint32_t> oracle_ids(const std::string& name) {
  const auto ids = read_integers(path(name));
  return {ids.begin(), ids.end()};
}

WhitenedSpaces oracle_spaces(Backend& backend, std::size_t count) {
  WhitenedSpaces spaces;
  std::vector<Matrix> parts;
  std::size_t width = 0;
  for (std::size_t i = 0; i < count; ++i) {
    parts.push_back(oracle_matrix(fmt::format("space{}_xw.npy", i)));
    spaces.dims.push_back(parts.back().cols());
    width += parts.back().cols();
  }
  spaces.rows = backend.make(parts[0].rows(), width);
  std::size_t first = 0;
  for (const Matrix& part : parts) {
    backend.upload(part.view(), spaces.rows->panel().columns(first, part.cols()));
    first += part.cols();
  }
  return spaces;
}

class OracleObjective : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  void SetUp() override {
    const std::string_view name = std::get<1>(GetParam());
    if (name == "reference") {
      backend_ = test::make_reference_backend();
    } else {
      if (const auto why = test::missing(parse_device(name))) GTEST_SKIP() << *why;
      backend_ = make_backend(parse_device(name), Precision::fp32);
    }
    spaces_ = oracle_spaces(*backend_, mode_ == "single" ? 1 : 3);
  }
  std::string mode_ = std::get<0>(GetParam());
  std::unique_ptr<Backend> backend_;
  WhitenedSpaces spaces_;
  std::vector<std::uint32_t> support_ = oracle_ids("support_ids.npy"), batch_ = oracle_ids("batch_ids.npy");
  nlohmann::json expected_ = nlohmann::json::parse(test::read_file(path("expected.json")));
};

TEST_P(OracleObjective, DefaultsAreThePapers) {
  const auto& wanted = expected_["hyperparameters"];
  const Param options;
  EXPECT_EQ(options.temperature, wanted["temperature"]);
  EXPECT_EQ(options.learning_rate, wanted["learning_rate"]);
  EXPECT_EQ(options.weight_symnce, wanted["w_symnce"]);
  EXPECT_EQ(options.tau_symnce, wanted["tau_nce"]);
  EXPECT_EQ(options.weight_coverage, wanted["w_cov"]);
  EXPECT_EQ(options.tau_coverage, wanted["tau_cov"]);
  EXPECT_EQ(options.weight_orthogonality, wanted["w_orth"]);
  EXPECT_EQ(options.weight_length, wanted["w_len"]);
  EXPECT_EQ(options.epochs, 95U);
  EXPECT_EQ(options.batch, 1024U);
  EXPECT_EQ(options.coverage_chunk, 16384U);
}

TEST_P(OracleObjective, LossesAndGradientAgree) {
  const Evaluated found = evaluate(*backend_, spaces_, support_, batch_, oracle_matrix("logits.npy"), {});
  const auto& wanted = expected_[mode_];
  const auto near = [&](double value, const char* name) {
    EXPECT_NEAR(value, wanted[name].get<double>(), 1e-6 + 2e-6 * std::abs(wanted[name].get<double>())) << name;
  };
  near(found.losses.total, "total");
  near(found.losses.coverage, "coverage");
  near(found.losses.orthogonality, "orthogonality");
  near(found.losses.length, "length");
  near(found.losses.symnce, "symnce");
  EXPECT_LT(relative_error(found.dlogits, oracle_values(mode_ + "_grad_logits.npy")), 2e-5);
}

TEST_P(OracleObjective, FiveAdamStepsEndWhereTheOracleDoes) {
  const Param options;
  Objective objective(*backend_, spaces_, support_, 9, options);
  const Matrix start = oracle_matrix("logits.npy");
  const auto q = upload(*backend_, start);
  const auto p = backend_->make(9, 60);
  const auto dp = backend_->make(9, 60);
  const auto m = backend_->make(9, 60);
  const auto v = backend_->make(9, 60);
  backend_->softmax_rows(q->panel(), 2.9F, p->panel());
  const auto number = backend_->make_integers(1);
  for (std::uint32_t step = 1; step <= 5; ++step) {
    backend_->upload(std::vector{step}, *number);
    objective.evaluate(p->panel(), batch_, dp->panel());
    backend_->step_logits(dp->panel(), objective.inner(), 2.9F, {0.03F, 0.9F, 0.999F, 1e-8F, 0, number->data()},
                          q->panel(), m->panel(), v->panel(), p->panel());
  }
  const Matrix logits = read(*backend_, *q);
  EXPECT_LT(relative_error(std::vector<double>(logits.cells().begin(), logits.cells().end()),
                           oracle_values(mode_ + "_logits_after_5_adam_steps.npy")),
            2e-4);
  EXPECT_NEAR(objective.evaluate(p->panel(), batch_, dp->panel()).total,
              expected_[mode_]["total_after_5_adam_steps"].get<double>(), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(All, OracleObjective,
                         ::testing::Combine(::testing::Values("single", "multi"),
                                            ::testing::Values("cpu", "reference", "cuda")),
                         [](const auto& each) {
                           return std::string(std::get<0>(each.param)) + "_" + std::get<1>(each.param);
                         });

// Finite differences of the definition, in float64.

struct Problem {
  std::size_t rows = 0, support = 0, anchors = 0, batch = 0;
  std::vector<std::size_t> dims;
  CoverageRows coverage = CoverageRows::batch;
};

/// The four losses as the design writes them, with no shortcut.
double plain_objective(const std::vector<Matrix>& spaces, std::span<const std::uint32_t> support,
                       std::span<const std::uint32_t> batch, const std::vector<double>& logits, std::size_t anchors,
                       const Param& o) {
  const std::size_t k = support.size();
  const auto b = static_cast<double>(spaces.size());
  std::vector<double> p(logits.size());
  for (std::size_t r = 0; r < anchors; ++r) {
    double sum = 0;
    for (std::size_t c = 0; c < k; ++c) sum += p[r * k + c] = std::exp(logits[r * k + c] / o.temperature);
    for (std::size_t c = 0; c < k; ++c) p[r * k + c] /= sum;
  }
  double total = 0;
  std::vector<std::vector<std::vector<double>>> rr;
  for (const Matrix& x : spaces) {
    const std::size_t d = x.cols();
    std::vector<std::vector<double>> a(anchors, std::vector<double>(d));
    for (std::size_t r = 0; r < anchors; ++r) {
      for (std::size_t c = 0; c < k; ++c) {
        for (std::size_t j = 0; j < d; ++j) a[r][j] += p[r * k + c] * x.row(support[c])[j];
      }
    }
    const auto dot = [&](const auto& u, const auto& v) {
      double sum = 0;
      for (std::size_t j = 0; j < d; ++j) sum += static_cast<double>(u[j]) * static_cast<double>(v[j]);
      return sum;
    };
    std::vector<std::uint32_t> covered(batch.begin(), batch.end());
    if (o.coverage_rows == CoverageRows::all) {
      covered.resize(x.rows());
      std::iota(covered.begin(), covered.end(), 0U);
    }
    double coverage = 0;
    for (const std::uint32_t row : covered) {
      double weights = 0, weighted = 0, least = 1e300;
      std::vector<double> distance(anchors);
      for (std::size_t r = 0; r < anchors; ++r) {
        for (std::size_t j = 0; j < d; ++j) distance[r] += std::pow(x.row(row)[j] - a[r][j], 2);
        least = std::min(least, distance[r]);
      }
      for (const double value : distance) {
        const double q = std::exp(-(value - least) / o.tau_coverage);
        weights += q;
        weighted += q * value;
      }
      coverage += weighted / weights / static_cast<double>(covered.size()) / static_cast<double>(d);
    }
    double orthogonality = 0, length = 0;
    for (std::size_t r = 0; r < anchors; ++r) {
      length += std::pow(std::sqrt(dot(a[r], a[r])) - 1, 2) / static_cast<double>(anchors);
      for (std::size_t s = 0; s < anchors; ++s) {
        if (r == s) continue;
        orthogonality += dot(a[r], a[s]) * dot(a[r], a[s]) / dot(a[r], a[r]) / dot(a[s], a[s]) /
                         static_cast<double>(anchors * (anchors - 1));
      }
    }
    total += (o.weight_coverage * coverage + o.weight_orthogonality * orthogonality + o.weight_length * length) / b;
    std::vector<std::vector<double>> unit;
    for (const std::uint32_t row : batch) {
      std::vector<double> value(anchors);
      double squared = 0;
      for (std::size_t r = 0; r < anchors; ++r) {
        value[r] = dot(x.row(row), a[r]);
        squared += value[r] * value[r];
      }
      for (double& v : value) v /= std::sqrt(squared);
      unit.push_back(value);
    }
    rr.push_back(unit);
  }
  for (std::size_t i = 0; i < rr.size(); ++i) {
    for (std::size_t j = i + 1; j < rr.size(); ++j) {
      const std::size_t n = batch.size();
      std::vector<double> rows(n), columns(n), right(n);
      for (std::size_t s = 0; s < n; ++s) {
        for (std::size_t t = 0; t < n; ++t) {
          double logit = 0;
          for (std::size_t r = 0; r < anchors; ++r) logit += rr[i][s][r] * rr[j][t][r] / o.tau_symnce;
          rows[s] += std::exp(logit);
          columns[t] += std::exp(logit);
          if (s == t) right[s] = logit;
        }
      }
      double nce = 0;
      for (std::size_t s = 0; s < n; ++s)
        nce += (std::log(rows[s]) + std::log(columns[s]) - 2 * right[s]) / 2 / static_cast<double>(n);
      total += o.weight_symnce * nce * 2 / b / (b - 1);
    }
  }
  return total;
}

class FiniteDifferences : public ::testing::TestWithParam<std::tuple<Device, Problem>> {
 protected:
  void SetUp() override {
    if (const auto why = test::missing(std::get<0>(GetParam()))) GTEST_SKIP() << *why;
  }
};

TEST_P(FiniteDifferences, AgreeWithTheGradient) {
  const Problem& problem = std::get<1>(GetParam());
  const auto backend = make_backend(std::get<0>(GetParam()), Precision::fp32);
  WhitenedSpaces spaces;
  std::vector<Matrix> matrices;
  std::size_t width = 0;
  for (const std::size_t dim : problem.dims) {
    matrices.push_back(random_matrix(problem.rows, dim, static_cast<unsigned>(10 + matrices.size())));
    spaces.dims.push_back(dim);
    width += dim;
  }
  spaces.rows = backend->make(problem.rows, width);
  std::size_t first = 0;
  for (const Matrix& matrix : matrices) {
    backend->upload(matrix.view(), spaces.rows->panel().columns(first, matrix.cols()));
    first += matrix.cols();
  }
  std::vector<std::uint32_t> support(problem.support), batch(problem.batch);
  for (std::size_t i = 0; i < support.size(); ++i) support[i] = static_cast<std::uint32_t>(problem.rows - 1 - i);
  std::iota(batch.begin(), batch.end(), 2U);
  Param options;
  options.batch = problem.batch;
  options.coverage_rows = problem.coverage;
  options.coverage_chunk = 7;
  options.weight_orthogonality = 5;  // large enough to see
  const Matrix start = random_matrix(problem.anchors, problem.support, 3);
  std::vector<double> logits(start.cells().begin(), start.cells().end());
  const auto value = [&] { return plain_objective(matrices, support, batch, logits, problem.anchors, options); };

  const Evaluated found = evaluate(*backend, spaces, support, batch, start, options);
  EXPECT_NEAR(found.losses.total, value(), 1e-5 * value());
  std::vector<double> wanted;
  for (double& logit : logits) {
    const double kept = logit;
    const double step = 1e-5;
    logit = kept + step;
    const double above = value();
    logit = kept - step;
    wanted.push_back((above - value()) / (2 * step));
    logit = kept;
  }
  EXPECT_LT(relative_error(found.dlogits, wanted), 2e-4);
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, FiniteDifferences,
    ::testing::Combine(::testing::Values(Device::cpu, Device::cuda),
                       ::testing::Values(Problem{20, 8, 5, 6, {7}}, Problem{20, 8, 12, 6, {4, 9}},  // m > d, m > K
                                         Problem{20, 5, 4, 6, {11, 3, 6, 8}},    // K < d, four spaces
                                         Problem{20, 8, 5, 6, {7, 4, 3, 6, 5}},  // ten pairs, more than at once
                                         Problem{20, 8, 5, 1, {7, 4}}, Problem{20, 8, 1, 6, {7, 4}},  // n = 1, m = 1
                                         Problem{20, 8, 5, 6, {7, 4}, CoverageRows::all},             // in chunks of 7
                                         Problem{20, 8, 5, 6, {7}, CoverageRows::all}, Problem{12, 12, 3, 4, {5, 5}})),
    [](const auto& each) {
      const Problem& p = std::get<1>(each.param);
      return fmt::format("{}_B{}_n{}_m{}_K{}_{}", to_string(std::get<0>(each.param)), p.dims.size(), p.batch, p.anchors,
                         p.support, to_string(p.coverage));
    });

}  // namespace
}  // namespace kedge
