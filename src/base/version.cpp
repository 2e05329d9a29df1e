// SPDX-License-Identifier: Apache-2.0
#include <kedge/version.h>

namespace kedge {

std::string_view version() {
  return KEDGE_VERSION;
}

}  // namespace kedge
