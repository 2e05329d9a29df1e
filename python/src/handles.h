// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/attachment.h>
#include <kedge/bundle.h>
#include <kedge/moments.h>
#include <kedge/translate.h>

#include <memory>

namespace kedge::python {

/// What Python calls a RelativeMap. Shared and never changed, so that threads may use it while bundles grow.
struct MapHandle {
  std::shared_ptr<const Attachment> space;
  [[nodiscard]] const RelativeMap& map() const { return *space->map; }
};

/// What Python calls a Bundle: attaching replaces the bundle it points to, and leaves the old one to whoever reads it.
struct BundleHandle {
  std::shared_ptr<const Bundle> bundle;
  [[nodiscard]] MapHandle map(const std::string& name) const {
    return {std::make_shared<const Attachment>(bundle->space(name))};
  }
};

/// What Python calls Moments: a value, changed only while the GIL is held.
struct MomentsHandle {
  Moments moments;
};

struct TranslatorHandle {
  std::shared_ptr<const Translator> translator;
};

/// A warning where the rows of a space are not those of the others. `level` is how many calls up the user is.
void warn_of_rows(const Attachment& space, int level);

}  // namespace kedge::python
