// SPDX-License-Identifier: Apache-2.0
#include <kedge/kedge.h>

#include <cmath>
#include <iostream>
#include <memory>
#include <utility>

int main() {
  kedge::Matrix x(50, 4);
  for (std::size_t i = 0; i < x.cells().size(); ++i) x.cells()[i] = std::sin(static_cast<float>(i * i));
  const auto rows = kedge::view_rows(std::as_const(x).view(), "toy");
  const std::vector<kedge::Space> spaces{{"toy", rows}};
  const kedge::Bundle bundle = kedge::fit(spaces, {.method = kedge::ChosenRows{kedge::Choice::fps}, .anchors = 5});
  const std::shared_ptr<const kedge::RelativeMap> again = kedge::attach(bundle, {"again", rows}).map;
  const kedge::Matrix rr = again->apply(x.view());
  std::cout << "kedge " << kedge::version() << ": " << rr.rows() << " x " << rr.cols() << "\n";
  return rr.cols() == 5 ? 0 : 1;
}
