// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

namespace kedge {
namespace {

using test::expect_error;
using test::random_matrix;
using test::TemporaryFolder;

double similarity(std::span<const float> a, std::span<const float> b, SearchBy by) {
  double dot = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    dot += static_cast<double>(a[i]) * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += static_cast<double>(b[i]) * b[i];
  }
  if (by == SearchBy::inner) return dot;
  return aa * bb > 0 ? dot / std::sqrt(aa * bb) : 0;
}

/// The definitions, with every document sorted for every query; those of `without` are not in the index.
RetrievalScores plain_scores(const Matrix& queries, const Matrix& documents, const std::vector<Judgement>& judgements,
                             const RetrieveOptions& options, const std::vector<std::size_t>& without = {}) {
  std::vector<std::size_t> order;
  for (std::size_t d = 0; d < documents.rows(); ++d) {
    if (std::ranges::count(without, d) == 0) order.push_back(d);
  }
  RetrievalScores sums;
  for (std::size_t q = 0; q < queries.rows(); ++q) {
    std::map<std::size_t, double> grades;
    for (const Judgement& one : judgements) {
      const auto document = static_cast<std::size_t>(one.document);
      if (static_cast<std::size_t>(one.query) == q && one.grade > 0 && std::ranges::count(without, document) == 0)
        grades[document] = static_cast<double>(one.grade);
    }
    if (grades.empty()) continue;
    ++sums.queries;
    std::vector<double> near(documents.rows());
    for (const std::size_t d : order) near[d] = similarity(queries.row(q), documents.row(d), options.similarity);
    std::ranges::sort(order);
    std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t d) { return near[d]; });
    std::vector<double> ideal;
    for (const auto& [document, grade] : grades) ideal.push_back(grade);
    std::ranges::sort(ideal, std::ranges::greater());
    double gained = 0, best = 0, found = 0, first = 0;
    for (std::size_t rank = 1; rank <= order.size(); ++rank) {
      const double discount = std::log2(static_cast<double>(rank) + 1);
      if (rank <= std::min(options.k, ideal.size())) best += ideal[rank - 1] / discount;
      if (!grades.contains(order[rank - 1])) continue;
      if (rank <= options.k) gained += grades[order[rank - 1]] / discount;
      if (rank <= options.k && first == 0) first = 1 / static_cast<double>(rank);
      if (rank <= options.recall_k) ++found;
    }
    sums.ndcg += gained / best;
    sums.recall += found / static_cast<double>(grades.size());
    sums.mrr += first;
  }
  for (double* sum : {&sums.ndcg, &sums.recall, &sums.mrr}) *sum /= static_cast<double>(sums.queries);
  return sums;
}

void expect_same(const RetrievalScores& found, const RetrievalScores& wanted) {
  EXPECT_EQ(found.queries, wanted.queries);
  EXPECT_NEAR(found.ndcg, wanted.ndcg, 1e-9);
  EXPECT_NEAR(found.recall, wanted.recall, 1e-9);
  EXPECT_NEAR(found.mrr, wanted.mrr, 1e-9);
  // The means are of the queries, in the order of the file.
  ASSERT_EQ(found.each.size(), wanted.queries);
  EXPECT_TRUE(std::ranges::is_sorted(found.each, std::ranges::less(), &QueryScores::query));
  double sum = 0;
  for (const QueryScores& one : found.each) sum += one.ndcg;
  EXPECT_NEAR(sum, wanted.ndcg * static_cast<double>(wanted.queries), 1e-9);
}

/// Some documents of every third query, near it in space; grades 0 to 3.
struct Collection {
  Matrix queries = random_matrix(30, 6, 1);
  Matrix documents = random_matrix(5000, 6, 2);  // more than two blocks
  std::vector<Judgement> judgements;

  Collection() {
    for (std::size_t q = 0; q < queries.rows(); q += 3) {
      for (std::size_t i = 0; i < 2 + q; ++i) {
        const std::size_t d = (q * 997 + i * 613) % documents.rows();
        judgements.push_back(
            {static_cast<std::int64_t>(q), static_cast<std::int64_t>(d), static_cast<std::int64_t>(i % 4)});
        for (std::size_t c = 0; c < 6; ++c)
          documents.row(d)[c] = queries.row(q)[c] + 0.2F * static_cast<float>(i) * documents.row(d)[c];
      }
    }
    std::ranges::reverse(judgements);  // in no particular order
  }
};

class EverySearch : public ::testing::TestWithParam<SearchBy> {};

TEST_P(EverySearch, EqualsThePlainLoop) {
  const Collection made;
  for (const auto& [k, recall_k] : {std::pair(10, 100), std::pair(3, 5), std::pair(60, 20), std::pair(9000, 9000)}) {
    const RetrieveOptions options{static_cast<std::size_t>(k), static_cast<std::size_t>(recall_k), GetParam()};
    const RetrievalScores found = retrieve(made.queries.view(), made.documents.view(), made.judgements, options);
    expect_same(found, plain_scores(made.queries, made.documents, made.judgements, options));
    EXPECT_EQ(found.without, 20U);
    EXPECT_EQ(found.documents, 5000U);
    EXPECT_EQ(found.left_out, 0U);
    EXPECT_GT(found.mrr, 0.1);  // there is something to get wrong
    EXPECT_LT(found.mrr, 0.9);
  }
}

TEST_P(EverySearch, LeavesDocumentsOutWithTheirJudgements) {
  const Collection made;
  const RetrieveOptions options{10, 100, GetParam()};
  const Space queries("queries", view_rows(made.queries.view(), "q"));
  const Space documents("documents", view_rows(made.documents.view(), "d"));
  std::vector<std::size_t> without;
  RowIds rows;
  for (std::size_t d = 4999; d > 100; d -= 2) {  // in no order that matters
    without.push_back(d);
    rows.ids.push_back(static_cast<std::int64_t>(d));
  }
  const RetrievalScores found =
      retrieve(queries, without_rows(documents, documents.with_rows(rows)), made.judgements, options);
  expect_same(found, plain_scores(made.queries, made.documents, made.judgements, options, without));
  EXPECT_EQ(found.documents, 5000 - without.size());
  EXPECT_GT(found.left_out, 0U);
  const RetrievalScores chosen = retrieve(queries, documents.with_rows(RowRange{0, 3000}), made.judgements, options);
  std::vector<std::size_t> end(2000);
  std::iota(end.begin(), end.end(), 3000U);
  expect_same(chosen, plain_scores(made.queries, made.documents, made.judgements, options, end));
}

TEST_P(EverySearch, OfEqualDocumentsTheFirstInTheFileIsFirst) {
  Matrix documents = random_matrix(3000, 301, 3);
  for (std::size_t d = 1; d < documents.rows(); ++d) std::ranges::copy(documents.row(0), documents.row(d).begin());
  const Matrix queries = random_matrix(3, 301, 4);
  RetrieveOptions options{3000, 3000, GetParam()};
  const std::vector<Judgement> judgements{{0, 0, 1}, {1, 9, 1}, {2, 2499, 1}};
  EXPECT_NEAR(retrieve(queries.view(), documents.view(), judgements, options).mrr, (1 + 0.1 + 1 / 2500.0) / 3, 1e-12);
  // Whatever order they are given in.
  const Space space("documents", view_rows(documents.view(), "d"));
  const RowIds backwards{{2500, 2499, 9, 8}, {}};
  EXPECT_NEAR(
      retrieve(Space("queries", view_rows(queries.view(), "q")), space.with_rows(backwards), judgements, options).mrr,
      (1 / 2.0 + 1 / 3.0) / 2, 1e-12);
}

INSTANTIATE_TEST_SUITE_P(All, EverySearch, ::testing::Values(SearchBy::cosine, SearchBy::inner),
                         [](const auto& by) { return std::string(to_string(by.param)); });

TEST(Retrieve, GradesAreGains) {
  Matrix queries(1, 2), documents(3, 2);
  queries.row(0)[0] = 1;
  for (std::size_t d = 0; d < 3; ++d) {
    documents.row(d)[0] = 1;
    documents.row(d)[1] = static_cast<float>(d);
  }
  const std::vector<Judgement> judgements{{0, 0, 1}, {0, 1, 0}, {0, 2, 3}};
  const RetrievalScores found = retrieve(queries.view(), documents.view(), judgements);
  EXPECT_NEAR(found.ndcg, (1 + 3 / std::log2(4)) / (3 + 1 / std::log2(3)), 1e-12);
  EXPECT_EQ(found.mrr, 1);
  EXPECT_EQ(found.recall, 1);
  EXPECT_EQ(found.relevant, 2U);
}

TEST(Retrieve, ZeroRowsAndHugeRowsAreNumbersOrASentence) {
  Matrix queries = random_matrix(4, 3, 1);
  Matrix documents = random_matrix(20, 3, 2);
  std::ranges::fill(queries.row(1), 0.0F);
  std::ranges::fill(documents.row(5), 0.0F);
  const std::vector<Judgement> judgements{{0, 5, 1}, {1, 0, 1}, {2, 3, 1}};
  const RetrievalScores found = retrieve(queries.view(), documents.view(), judgements);
  expect_same(found, plain_scores(queries, documents, judgements, {}));
  for (float& value : documents.cells()) value *= 1e30F;
  for (float& value : queries.cells()) value *= 1e30F;
  expect_same(retrieve(queries.view(), documents.view(), judgements), found);
  expect_error(
      Code::bad_argument,
      [&] {
        (void)retrieve(queries.view(), documents.view(), judgements, {10, 100, SearchBy::inner});
      },
      "float32 cannot hold", "similarity = cosine");
}

TEST(Retrieve, RefusesJudgementsThatCannotBe) {
  const Matrix queries = random_matrix(4, 3, 1), documents = random_matrix(20, 3, 2), wide = random_matrix(20, 4, 2);
  const auto refused = [&](const std::vector<Judgement>& judgements, const auto&... words) {
    expect_error(
        Code::bad_argument, [&] { (void)retrieve(queries.view(), documents.view(), judgements); }, words...);
  };
  refused({}, "no judgements");
  refused({{0, 1, 1}, {4, 1, 1}}, "judgement 1 is of row 4 of the queries", "rows 0:4");
  refused({{0, 20, 1}}, "judgement 0 is of row 20 of the documents", "rows 0:20");
  refused({{-1, 2, 1}}, "row -1 of the queries");
  refused({{0, 2, -1}}, "grade -1", "0 for a document that is not relevant");
  refused({{0, 2, 1}, {1, 2, 1}, {0, 2, 0}}, "document 2 is judged more than once for query 0");
  refused({{0, 2, 0}}, "no query has a relevant document among the 20");
  const std::vector<Judgement> fine{{0, 2, 1}};
  expect_error(
      Code::bad_argument, [&] { (void)retrieve(queries.view(), wide.view(), fine); }, "3 values", "4");
  expect_error(
      Code::bad_argument,
      [&] {
        (void)retrieve(queries.view(), documents.view(), fine, {0, 100});
      },
      "1 or more");
  const Space space("documents", view_rows(documents.view(), "d"));
  expect_error(
      Code::bad_argument, [&] { (void)without_rows(space, space); }, "all 20 rows of the documents are left out");
}

TEST(Judgements, AreReadInEitherOrder) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& type, const std::string& order,
                         const std::string& shape, std::span<const std::int32_t> values) {
    std::string header = "{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
    header.resize(117, ' ');
    header += '\n';
    std::string bytes("\x93NUMPY\x01\x00\x76\x00", 10);
    bytes += header;
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
    test::write_file(folder.file(name), bytes);
    return folder.file(name);
  };
  const std::int32_t rows[] = {1, 2, 3, 4, 5, 6}, columns[] = {1, 4, 2, 5, 3, 6};
  for (const std::string& path :
       {write("c.npy", "<i4", "False", "(2, 3)", rows), write("f.npy", "<i4", "True", "(2, 3)", columns)}) {
    const std::vector<Judgement> found = read_judgements(path);
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[1].query, 4);
    EXPECT_EQ(found[1].document, 5);
    EXPECT_EQ(found[1].grade, 6);
  }
  expect_error(
      Code::bad_file, [&] { (void)read_judgements(write("two.npy", "<i4", "False", "(3, 2)", rows)); },
      "rows of 3 (query, document, grade)", "[3 x 2] of int32");
  expect_error(
      Code::bad_file, [&] { (void)read_judgements(write("float.npy", "<f4", "False", "(2, 3)", rows)); },
      "[2 x 3] of float32");
  expect_error(
      Code::bad_file, [&] { (void)read_judgements(write("none.npy", "<i4", "False", "(0, 3)", {})); },
      "holds no judgements");
}

}  // namespace
}  // namespace kedge
