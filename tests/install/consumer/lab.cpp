// SPDX-License-Identifier: Apache-2.0
#include <kedge/lab.h>

#include <cstdint>
#include <iostream>
#include <vector>

int main() {
  kedge::Matrix x(60, 2);
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < x.rows(); ++i) {
    labels.push_back(i % 2 == 0 ? 3 : 7);
    x.view().row(i)[i % 2] = 1;
  }
  const kedge::Classifier head = kedge::train_classifier(x.view(), labels, {.kind = kedge::HeadKind::linear});
  const double f1 = kedge::score_labels(labels, head.predict(x.view())).weighted_f1;
  std::cout << "F1 " << f1 << "\n";
  return f1 == 1 ? 0 : 1;
}
