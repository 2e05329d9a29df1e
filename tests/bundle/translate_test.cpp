// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <algorithm>
#include <cmath>

namespace kedge {
namespace {

using test::expect_error;
using test::largest;
using test::random_matrix;
using test::space_of;
using test::TemporaryFolder;

/// Two encoders that see the same causes with little noise, so that each can be told from the other.
struct Pair {
  Pair() : a(500, 9), b(500, 7) {
    const Matrix hidden = random_matrix(500, 5, 1);
    fill(a, hidden, 2);
    fill(b, hidden, 3);
  }
  static void fill(Matrix& x, const Matrix& hidden, unsigned seed) {
    const Matrix mix = random_matrix(hidden.cols(), x.cols(), seed);
    const Matrix noise = random_matrix(x.rows(), x.cols(), seed + 10);
    for (std::size_t r = 0; r < x.rows(); ++r) {
      for (std::size_t c = 0; c < x.cols(); ++c) {
        x.row(r)[c] = 3 + 0.02F * noise.row(r)[c];
        for (std::size_t k = 0; k < hidden.cols(); ++k) x.row(r)[c] += hidden.row(r)[k] * mix.row(k)[c];
      }
    }
  }
  [[nodiscard]] Bundle bundle(const Method& method = Consensus{}, Similarity similarity = Similarity::wip) const {
    FitOptions options;
    options.method = method;
    options.similarity = similarity;
    options.anchors = 5;
    options.support = 200;
    options.whitening.shrinkage = 0.01;
    return fit(std::vector{space_of("a", a), space_of("b", b)}, options);
  }
  Matrix a, b;
};

/// Share of the variance of `truth` that `found` explains.
double explained(const Matrix& truth, const Matrix& found) {
  double error = 0;
  double variance = 0;
  for (std::size_t i = 0; i < truth.cells().size(); ++i) {
    error += std::pow(truth.cells()[i] - found.cells()[i], 2);
    variance += std::pow(truth.cells()[i] - 3.0, 2);
  }
  return 1 - error / variance;
}

TEST(Translate, BringsRowsToWhereTheOtherEncoderPutsThem) {
  const Pair pair;
  const Bundle bundle = pair.bundle();
  EXPECT_GT(explained(pair.b, Translator(bundle, "a", "b").apply(pair.a.view())), 0.98);
  EXPECT_GT(explained(pair.a, Translator(bundle, "b", "a").apply(pair.b.view())), 0.98);
  EXPECT_GT(explained(pair.a, Translator(bundle, "a", "a").apply(pair.a.view())), 0.98);
}

TEST(Translate, IsTheMapThenTheDecoder) {
  const Pair pair;
  const Bundle bundle = pair.bundle();
  const Matrix rr = bundle.map("a")->apply(pair.a.view());
  const Decoder& back = *bundle.space("b").decoder;
  const Matrix y = Translator(bundle, "a", "b").apply(pair.a.view());
  for (const std::size_t r : {0U, 99U, 499U}) {
    for (std::size_t c = 0; c < 7; ++c) {
      double value = back.bias[c];
      for (std::size_t k = 0; k < rr.cols(); ++k) value += static_cast<double>(back.weight.row(c)[k]) * rr.row(r)[k];
      EXPECT_NEAR(y.row(r)[c], value, 1e-5 * largest(y.cells()));
    }
  }
}

TEST(Translate, WritesNothingOverRowsItStillReads) {
  Pair pair;
  const Translator translator(pair.bundle(), "a", "b");
  const MatrixView<float> rows = pair.a.view();
  expect_error(
      Code::bad_argument, [&] { translator.apply(rows, rows.middle_cols(2, 7)); }, "shares memory");
}

TEST(Translate, StreamsTheSameIntoAFile) {
  const TemporaryFolder folder;
  const Pair pair;
  const Translator translator(pair.bundle(), "a", "b");
  translate(translator, space_of("a", pair.a), folder.file("b.npy"));
  const Matrix streamed = Space("b", open_rows(folder.file("b.npy"))).read_all();
  const Matrix direct = translator.apply(pair.a.view());
  for (std::size_t i = 0; i < direct.cells().size(); ++i) {
    EXPECT_NEAR(streamed.cells()[i], direct.cells()[i], 1e-6 * largest(direct.cells()));
  }
  expect_error(
      Code::bad_file, [&] { translate(translator, space_of("a", pair.b), folder.file("c.npy")); }, "9 values", "7");
}

TEST(Translate, WithoutAWayBackSaysSo) {
  const Pair pair;
  const Bundle cosine = pair.bundle(ChosenRows{Choice::random}, Similarity::cosine);
  expect_error(
      Code::bad_argument, [&] { Translator(cosine, "a", "b"); }, "similarity cosine", "wip");
  const Bundle bundle = pair.bundle();
  expect_error(
      Code::bad_argument, [&] { Translator(bundle, "a", "c"); }, "no space 'c'");
  Attachment one_way = bundle.space("b");
  one_way.decoder.reset();
  expect_error(
      Code::bad_argument, [&] { Translator(bundle.with(one_way), "a", "b"); }, "'b' has no decoder");
}

/// Two encoders share what a third does not know, and one anchor holds next to nothing of it.
struct Three : Pair {
  Three() : c(random_matrix(500, 8, 40)) {}
  [[nodiscard]] FitOptions options() const {
    FitOptions options;
    options.anchors = 1;
    for (std::int64_t row = 0; row < 300; ++row) options.support_ids.push_back(row);
    options.keep_rows = true;
    return options;
  }
  [[nodiscard]] std::vector<Space> spaces() const { return {space_of("a", a), space_of("b", b), space_of("c", c)}; }
  /// What a translator explains of rows 300 to 499.
  [[nodiscard]] static double explains(const Translator& translator, const Matrix& from, const Matrix& to) {
    const auto last = [](const Matrix& rows) {
      Matrix picked(200, rows.cols());
      for (std::size_t r = 0; r < 200; ++r) std::ranges::copy(rows.row(300 + r), picked.row(r).begin());
      return picked;
    };
    return explained(last(to), translator.apply(last(from).view()));
  }
  Matrix c;
};

TEST(KeptRows, TranslateAsARegressionOfThePairWould) {
  const Three three;
  FitOptions options = three.options();
  const Bundle kept = fit(three.spaces(), options);
  const Translator translator(kept, "a", "b");
  EXPECT_GT(Three::explains(translator, three.a, three.b), 0.98);
  EXPECT_NEAR(translator.r2().value(), Three::explains(translator, three.a, three.b), 0.01);
  EXPECT_EQ(kept.space("a").translations.at(0).to, "b");
  EXPECT_EQ(kept.space("a").translations.at(0).r2, translator.r2().value());
  EXPECT_LT(Translator(kept, "a", "c").r2().value(), 0.1);
  options.keep_rows = false;
  const Bundle lost = fit(three.spaces(), options);
  const Translator through(lost, "a", "b");
  EXPECT_FALSE(through.r2().has_value());
  EXPECT_LT(Three::explains(through, three.a, three.b), 0.7);
  EXPECT_NEAR(lost.space("a").translations.at(0).r2, Three::explains(through, three.a, three.b), 0.1);
}

TEST(Translate, WhatWasExpectedOfASpaceGoesWhenAnotherReplacesIt) {
  const Three three;
  const auto expected = [](const Bundle& bundle) {
    std::vector<std::string> to;
    for (const ExpectedTranslation& one : bundle.space("a").translations) to.push_back(one.to);
    return to;
  };
  for (const bool keep : {false, true}) {
    FitOptions options = three.options();
    options.keep_rows = keep;
    const Bundle bundle = fit(three.spaces(), options);
    EXPECT_EQ(expected(bundle), (std::vector<std::string>{"b", "c"}));
    EXPECT_EQ(expected(bundle.with(bundle.space("b"))), (std::vector<std::string>{"b", "c"}));
    EXPECT_EQ(expected(bundle.with(attach(bundle, space_of("b", three.c)))), std::vector<std::string>{"c"});
  }
}

TEST(KeptRows, TranslateByKernelWhereTheMapIs) {
  const Three three;
  FitOptions options = three.options();
  options.attach_by = AttachBy::kernel;
  const Translator translator(fit(three.spaces(), options), "a", "b");
  EXPECT_TRUE(translator.kernel().has_value());
  EXPECT_GT(Three::explains(translator, three.a, three.b), 0.9);
  EXPECT_NEAR(translator.r2().value(), Three::explains(translator, three.a, three.b), 0.05);
}

TEST(KeptRows, AreInTheFileAndThoseOfAttachedSpacesToo) {
  const Three three;
  const Bundle sources = fit(std::vector{space_of("a", three.a), space_of("c", three.c)}, three.options());
  const Bundle bundle = sources.with(attach(sources, space_of("b", three.b)));
  const Bundle read = bundle_from_bytes(bundle_to_bytes(bundle), "kept");
  for (const char* space : {"a", "b", "c"}) {
    EXPECT_TRUE(std::ranges::equal(read.space(space).kept->rows.cells(), bundle.space(space).kept->rows.cells()));
  }
  EXPECT_GT(Three::explains({read, "b", "a"}, three.b, three.a), 0.98);
  EXPECT_GT(Three::explains({read, "a", "b"}, three.a, three.b), 0.98);
}

TEST(KeptRows, OfSpacesThatLackSomeMeetInTheRest) {
  const Three three;
  const Bundle bundle = fit(three.spaces(), three.options());
  const auto without = [&](const std::string& name, std::int64_t every) {
    Attachment space = bundle.space(name);
    KeptRows some{Matrix(0, 0)};
    std::vector<float> cells;
    for (std::int64_t place = 0; place < 300; ++place) {
      if (place % every == 0) continue;
      some.places.push_back(place);
      const auto row = space.kept->rows.row(static_cast<std::size_t>(place));
      cells.insert(cells.end(), row.begin(), row.end());
    }
    some.rows = Matrix(some.places.size(), space.map->input_dim());
    std::ranges::copy(cells, some.rows.cells().begin());
    space.kept = std::make_shared<KeptRows>(std::move(some));
    return space;
  };
  const Bundle some = bundle.with(without("a", 3)).with(without("b", 5));
  const Bundle read = bundle_from_bytes(bundle_to_bytes(some), "some");
  EXPECT_EQ(read.space("b").kept->places, some.space("b").kept->places);
  EXPECT_GT(Three::explains({read, "a", "b"}, three.a, three.b), 0.98);
}

TEST(KeptRows, OfWrongPairsAreLeftOut) {
  const Pair right;
  Three three;
  for (std::size_t r = 0; r < 60; ++r) {  // 60 of the 300 support rows have gone round, in b alone
    std::ranges::copy(right.b.row((r + 1) % 60), three.b.row(r).begin());
  }
  FitOptions options = three.options();
  options.robust = true;
  const Bundle bundle = fit(std::vector{space_of("a", three.a), space_of("b", three.b)}, options);
  EXPECT_GT(explained(right.b, Translator(bundle, "a", "b").apply(right.a.view())), 0.97);
}

TEST(KeptRows, AreForBundlesThatAreNoAdapters) {
  const Three three;
  FitOptions options = three.options();
  options.method = Adapter{Pairwise::ridge};
  options.anchors.reset();
  expect_error(
      Code::bad_argument,
      [&] {
        (void)fit(std::vector{space_of("a", three.a), space_of("b", three.b)}, options);
      },
      "ridge", "keep_rows", "leave it out");
}

TEST(Adapter, EveryKindJoinsThePair) {
  const Pair pair;
  for (const Method& method :
       std::vector<Method>{Adapter{Pairwise::procrustes}, Adapter{Pairwise::ridge}, Adapter{Pairwise::cca}}) {
    const Bundle bundle = pair.bundle(method);
    EXPECT_EQ(bundle.spaces().size(), 2U);
    EXPECT_EQ(bundle.made().sources.front(), "a");
    const Matrix a = bundle.map("a")->apply(pair.a.view());
    const Matrix b = bundle.map("b")->apply(pair.b.view());
    EXPECT_GT(compare(a.view(), b.view()).mrr, 0.9) << to_string(method);
    EXPECT_GT(explained(pair.b, Translator(bundle, "a", "b").apply(pair.a.view())), 0.9) << to_string(method);
  }
}

TEST(Adapter, ProcrustesKeepsLengthsAndFindsARotation) {
  const Matrix x = random_matrix(300, 4, 5);
  Matrix y(300, 4);  // x with its columns turned round and one flipped
  for (std::size_t r = 0; r < 300; ++r) {
    for (std::size_t c = 0; c < 4; ++c) y.row(r)[c] = (c == 2 ? -1.F : 1.F) * x.row(r)[(c + 1) % 4];
  }
  FitOptions options;
  options.method = Adapter{Pairwise::procrustes};
  options.similarity = Similarity::inner;
  const Bundle bundle = fit(std::vector{space_of("x", x), space_of("y", y)}, options);
  const Matrix rx = bundle.map("x")->apply(x.view());
  const Matrix ry = bundle.map("y")->apply(y.view());
  ASSERT_EQ(rx.cols(), 4U);
  for (std::size_t i = 0; i < rx.cells().size(); ++i) {
    EXPECT_NEAR(rx.cells()[i], ry.cells()[i], 1e-5 * largest(ry.cells()));
  }
  const auto apart = [](const Matrix& rows, std::size_t r) {
    double square = 0;
    for (std::size_t c = 0; c < 4; ++c) square += std::pow(rows.row(r)[c] - rows.row(0)[c], 2);
    return std::sqrt(square);
  };
  const double scale = std::sqrt(compute_moments(space_of("x", x)).total_variance());  // one for all of a space
  for (std::size_t r = 1; r < 300; ++r) EXPECT_NEAR(scale * apart(rx, r), apart(x, r), 1e-5 * largest(x.cells()));
}

/// With fewer rows than values a map can repeat any rows; that says nothing of others.
TEST(Adapter, RowsThatHaveNothingInCommonDoNotLookExplained) {
  FitOptions options;
  options.method = Adapter{Pairwise::ridge};
  options.similarity = Similarity::inner;
  const Matrix x = random_matrix(40, 60, 1);
  const Matrix y = random_matrix(40, 20, 2);
  const Bundle bundle = fit(std::vector{space_of("x", x), space_of("y", y)}, options);
  EXPECT_LT(bundle.space("x").ridge()->mean_r2, 0.2);
}

TEST(Adapter, NorDoesTheWayBack) {
  FitOptions options;
  options.method = Adapter{Pairwise::ridge};
  options.similarity = Similarity::inner;
  const Matrix x = random_matrix(40, 20, 1);
  const Matrix y = random_matrix(40, 60, 2);
  const Bundle bundle = fit(std::vector{space_of("x", x), space_of("y", y)}, options);
  EXPECT_LT(bundle.space("x").decoder->fit.mean_r2, 0.2);
}

/// Nor does a map that has seen the same rows a second time.
TEST(Adapter, RowsThatAreThereTwiceDoNotLookExplained) {
  const Matrix x = random_matrix(50, 60, 1), y = random_matrix(50, 70, 2);
  Matrix xx(100, 60), yy(100, 70);
  for (std::size_t r = 0; r < 100; ++r) {
    std::ranges::copy(x.row(r % 50), xx.row(r).begin());
    std::ranges::copy(y.row(r % 50), yy.row(r).begin());
  }
  for (const Similarity similarity : {Similarity::inner, Similarity::wip}) {
    FitOptions options;
    options.method = Adapter{Pairwise::ridge};
    options.similarity = similarity;
    const Bundle bundle = fit(std::vector{space_of("x", xx), space_of("y", yy)}, options);
    EXPECT_LT(bundle.space("x").ridge()->mean_r2, 0.2) << to_string(similarity);
    EXPECT_LT(bundle.space("x").decoder->fit.mean_r2, 0.2) << to_string(similarity);
  }
}

TEST(Adapter, WantsTwoSpacesAndASimilarityItCanWorkIn) {
  const Pair pair;
  FitOptions options;
  options.method = Adapter{Pairwise::ridge};
  expect_error(
      Code::bad_argument, [&] { (void)fit(std::vector{space_of("a", pair.a)}, options); }, "one pair", "1 were given");
  options.similarity = Similarity::cosine;
  expect_error(
      Code::bad_argument,
      [&] {
        (void)fit(std::vector{space_of("a", pair.a), space_of("b", pair.b)}, options);
      },
      "not with cosine");
}

}  // namespace
}  // namespace kedge
