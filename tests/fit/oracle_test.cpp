// SPDX-License-Identifier: Apache-2.0
// Every formula against float64 expectations that were made without kedge.
#include "anchors/consensus.h"
#include "support.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace kedge {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kSpaces = 3;

std::string path(const std::string& name) {
  return std::string(KEDGE_TEST_DATA) + "/oracle/" + name;
}

Matrix64 expected_matrix(const std::string& name) {
  const auto rows = open_rows(path(name));
  Matrix64 values(rows->rows(), rows->cols());
  rows->read(0, values.view());
  return values;
}

/// One-dimensional float arrays are not spaces, so tests read them here.
std::vector<double> expected_vector(const std::string& name) {
  const std::string bytes = test::read_file(path(name));
  const std::size_t header = 10 + static_cast<unsigned char>(bytes[8]) + 256 * static_cast<unsigned char>(bytes[9]);
  std::vector<double> values((bytes.size() - header) / sizeof(double));
  std::memcpy(values.data(), bytes.data() + header, bytes.size() - header);
  return values;
}

const Json& expected() {
  static const Json json = Json::parse(test::read_file(path("expected.json")));
  return json;
}

/// The largest difference, relative to the largest expected value.
template <class Found>
double relative_error(std::span<const Found> found, std::span<const double> wanted) {
  EXPECT_EQ(found.size(), wanted.size());
  double difference = 0;
  double scale = 0;
  for (std::size_t i = 0; i < std::min(found.size(), wanted.size()); ++i) {
    difference = test::worse(difference, std::abs(static_cast<double>(found[i]) - wanted[i]));
    scale = std::max(scale, std::abs(wanted[i]));
  }
  return difference / scale;
}

Space oracle_space(std::size_t i) {
  return {fmt::format("space{}", i), open_rows(path(fmt::format("space{}_x.npy", i)))};
}

WhiteningOptions oracle_options() {
  const Json& parameters = expected()["hyperparameters"];
  return {parameters["shrinkage"].get<double>(), parameters["epsilon"].get<double>()};
}

Matrix oracle_mixture() {
  const auto rows = open_rows(path("mixture.npy"));
  Matrix mixture(rows->rows(), rows->cols());
  rows->read(0, mixture.view());
  return mixture;
}

/// A bundle as a fit would leave it, but with the oracle's own mixture.
Bundle oracle_bundle(Similarity similarity) {
  Bundle bundle;
  bundle.similarity = similarity;
  bundle.whitening = oracle_options();
  bundle.mixture = oracle_mixture();
  bundle.support_ids = read_integers(path("support_ids.npy"));
  return bundle;
}

TEST(Oracle, DefaultsAreThePapers) {
  EXPECT_EQ(WhiteningOptions{}.shrinkage, oracle_options().shrinkage);
  EXPECT_EQ(WhiteningOptions{}.epsilon, oracle_options().epsilon);
}

TEST(Oracle, StatisticsAreExactInFloat64) {
  for (std::size_t i = 0; i < kSpaces; ++i) {
    const Space space = oracle_space(i);
    const Whitening whitening = make_whitening(compute_moments(space), oracle_options());
    const auto name = [&](const char* what) { return fmt::format("space{}_{}.npy", i, what); };
    EXPECT_LT(relative_error<double>(whitening.mean, expected_vector(name("mean"))), 1e-12);
    EXPECT_LT(relative_error<double>(whitening.covariance.cells(), expected_matrix(name("cov")).cells()), 1e-12);
    EXPECT_LT(relative_error<double>(whitening.whitener.cells(), expected_matrix(name("whitener")).cells()), 1e-10);
    Matrix64 rows(space.rows(), space.dim());
    space.read(0, rows.view());
    whiten(whitening, rows.view());
    EXPECT_LT(relative_error<double>(rows.cells(), expected_matrix(name("xw")).cells()), 1e-10);
  }
}

TEST(Oracle, AnchorsAreTheMixtureOfTheSupport) {
  for (std::size_t i = 0; i < kSpaces; ++i) {
    // The inner product's map is the anchors themselves.
    const RelativeMap map = *attach(oracle_bundle(Similarity::inner), oracle_space(i)).map;
    EXPECT_LT(relative_error(map.weight().cells(), expected_matrix(fmt::format("space{}_anchors.npy", i)).cells()),
              1e-6);
  }
}

TEST(Oracle, MapFoldsWeightAndBias) {
  for (std::size_t i = 0; i < kSpaces; ++i) {
    const RelativeMap map = *attach(oracle_bundle(Similarity::wip), oracle_space(i)).map;
    EXPECT_LT(relative_error(map.weight().cells(), expected_matrix(fmt::format("space{}_map_weight.npy", i)).cells()),
              1e-6);
    EXPECT_LT(relative_error<float>(map.bias(), expected_vector(fmt::format("space{}_map_bias.npy", i))), 1e-6);
  }
}

Bundle oracle_consensus() {
  const Json& wanted = expected()["consensus"];
  FitOptions options;
  options.method = Consensus{};
  options.anchors = wanted["anchors"].get<std::size_t>();
  std::get<Consensus>(options.method).power = wanted["power"].get<double>();
  options.whitening = oracle_options();
  options.support_ids = read_integers(path("support_ids.npy"));
  std::vector<Space> sources;
  for (const Json& source : wanted["sources"]) sources.push_back(oracle_space(source.get<std::size_t>()));
  return fit(sources, options);
}

/// x x^T in float64: what is left of x where the signs of its columns are free.
Matrix64 gram(const Matrix& x) {
  Matrix64 result(x.rows(), x.rows());
  for (std::size_t r = 0; r < x.rows(); ++r) {
    for (std::size_t c = 0; c < x.rows(); ++c) {
      for (std::size_t k = 0; k < x.cols(); ++k) result.row(r)[c] += static_cast<double>(x.row(r)[k]) * x.row(c)[k];
    }
  }
  return result;
}

TEST(Oracle, ConsensusTargetsAgree) {
  const Bundle bundle = oracle_consensus();
  const Matrix64 targets = gram(bundle.targets);
  EXPECT_LT(
      relative_error(std::span<const double>(targets.cells()), expected_matrix("consensus_targets_gram.npy").cells()),
      1e-6);
  EXPECT_EQ(Consensus{}.power, expected()["consensus"]["power"].get<double>());
}

TEST(Oracle, ConsensusEigenvaluesAreExactInFloat64) {
  const std::vector<Space> sources{oracle_space(0), oracle_space(1)};
  const std::vector<std::int64_t> support = read_integers(path("support_ids.npy"));
  const Moments joint = compute_joint_moments(sources);
  std::vector<WhiteningBasis> by_eigenvectors, by_cholesky;
  std::vector<std::unique_ptr<const CentredRows>> rows;
  std::vector<const CentredRows*> centred;
  for (const Space& source : sources) {
    const Moments own = joint.of(source.name());
    by_eigenvectors.emplace_back(make_whitening(own, oracle_options()));
    by_cholesky.emplace_back(own, oracle_options());
    centred.push_back(rows.emplace_back(centre_rows(source.gather(support), own.mean(), Device::cpu)).get());
  }
  const auto anchors = expected()["consensus"]["anchors"].get<std::size_t>();
  const ConsensusResult found = find_consensus({by_eigenvectors, centred, anchors}, joint, {});
  std::vector<double> wanted = expected_vector("consensus_eigenvalues.npy");
  std::erase_if(wanted, [](double value) { return value < 1; });  // on which the spaces do not agree
  EXPECT_LT(relative_error(std::span<const double>(found.eigenvalues), wanted), 1e-10);

  const ConsensusResult faster = find_consensus({by_cholesky, centred, anchors}, joint, {});
  EXPECT_LT(relative_error<double>(faster.eigenvalues, found.eigenvalues), 1e-12);
  const std::vector<double> targets(found.targets.cells().begin(), found.targets.cells().end());
  EXPECT_LT(relative_error<float>(faster.targets.cells(), targets), 1e-6);
}

TEST(Oracle, ConsensusMapsAndTheirRidgesAgree) {
  const Bundle bundle = oracle_consensus();
  const std::vector<std::int64_t> rows = read_integers(path("batch_ids.npy"));
  std::vector<Matrix> rr;
  for (std::size_t i = 0; i < kSpaces; ++i) {
    const Attachment attached = attach(bundle, oracle_space(i));
    const Json& chosen = expected()["consensus"]["chosen"][i];
    ASSERT_TRUE(attached.ridge);
    EXPECT_EQ(attached.ridge->strength, chosen["ridge"].get<double>());
    rr.push_back(attached.map->apply(oracle_space(i).read_all().view()));
    Matrix batch(rows.size(), rr[i].cols());
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::ranges::copy(rr[i].row(static_cast<std::size_t>(rows[r])), batch.row(r).begin());
    }
    const Matrix64 products = gram(batch);
    EXPECT_LT(relative_error(std::span<const double>(products.cells()),
                             expected_matrix(fmt::format("space{}_consensus_rr_gram.npy", i)).cells()),
              1e-5);
  }
  // The oracle's anchors that the spaces do not agree on are 0, and its spread is over them too.
  const double zeros = expected()["consensus"]["anchors"].get<double>() / static_cast<double>(bundle.mixture.rows());
  for (const auto& [pair, wanted] : expected()["consensus"]["compare"].items()) {
    const Comparison found = compare(rr[static_cast<std::size_t>(pair.front() - '0')].view(),
                                     rr[static_cast<std::size_t>(pair.back() - '0')].view());
    EXPECT_NEAR(found.mrr, wanted["mrr"].get<double>(), 1e-6) << pair;
    EXPECT_NEAR(found.recall[1], wanted["recall@5"].get<double>(), 1e-9) << pair;
    EXPECT_NEAR(found.nmse, wanted["nmse"].get<double>(), 1e-5) << pair;
    EXPECT_NEAR(found.rr_std_a, std::sqrt(zeros) * wanted["rr_std_a"].get<double>(), 1e-5) << pair;
    EXPECT_NEAR(found.paired_cosine, wanted["paired_cosine"].get<double>(), 1e-5) << pair;
    EXPECT_NEAR(found.effective_rank_a, wanted["effective_rank_a"].get<double>(), 1e-4) << pair;
    EXPECT_NEAR(found.linear_cka, wanted["linear_cka"].get<double>(), 1e-5) << pair;
  }
}

class OracleSimilarity : public ::testing::TestWithParam<const char*> {};

TEST_P(OracleSimilarity, RelativeRepresentationsAgree) {
  for (std::size_t i = 0; i < kSpaces; ++i) {
    const Space space = oracle_space(i);
    const RelativeMap map = *attach(oracle_bundle(parse_similarity(GetParam())), space).map;
    const Matrix rr = map.apply(space.read_all().view());
    EXPECT_LT(relative_error(std::as_const(rr).cells(),
                             expected_matrix(fmt::format("space{}_rr_{}.npy", i, GetParam())).cells()),
              1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(All, OracleSimilarity, ::testing::Values("wip", "cosine", "euclidean"),
                         [](const auto& each) { return std::string(each.param); });

TEST(Oracle, MetricsAgreeForEveryOrderedPair) {
  const CompareOptions options;
  for (std::size_t i = 0; i < kSpaces; ++i) {
    for (std::size_t j = 0; j < kSpaces; ++j) {
      if (i == j) continue;
      const Matrix a = Space("a", open_rows(path(fmt::format("space{}_rr_wip.npy", i)))).read_all();
      const Matrix b = Space("b", open_rows(path(fmt::format("space{}_rr_wip.npy", j)))).read_all();
      const Comparison found = compare(a.view(), b.view(), options);
      const Json& wanted = expected()["compare"][fmt::format("{}->{}", i, j)];
      const auto near = [&](double value, const char* name) {
        EXPECT_NEAR(value, wanted[name].get<double>(), 1e-6 * wanted[name].get<double>())
            << i << "->" << j << " " << name;
      };
      near(found.mrr, "mrr");
      near(found.recall[0], "recall@1");
      near(found.recall[1], "recall@5");
      near(found.recall[2], "recall@10");
      near(found.nmse, "nmse");
      near(found.rr_std_a, "rr_std_a");
      near(found.rr_std_b, "rr_std_b");
      near(found.paired_cosine, "paired_cosine");
      near(found.linear_cka, "linear_cka");
      near(found.effective_rank_a, "effective_rank_a");
    }
  }
}

TEST(Oracle, ClassificationAgreesWithScikitLearn) {
  const Classification found =
      score_labels(read_integers(path("labels_true.npy")), read_integers(path("labels_pred.npy")));
  const Json& wanted = expected()["classification"];
  EXPECT_NEAR(found.accuracy, wanted["accuracy"].get<double>(), 1e-12);
  EXPECT_NEAR(found.weighted_f1, wanted["weighted_f1"].get<double>(), 1e-12);
  EXPECT_NEAR(found.macro_f1, wanted["macro_f1"].get<double>(), 1e-12);
}

}  // namespace
}  // namespace kedge
