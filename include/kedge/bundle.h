// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/attachment.h>
#include <kedge/matrix.h>
#include <kedge/method.h>
#include <kedge/param.h>
#include <kedge/relative_map.h>
#include <kedge/rows.h>
#include <kedge/similarity.h>
#include <kedge/support.h>
#include <kedge/whitening.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kedge {

/// How a bundle was made.
struct Recipe {
  Method method = ChosenRows{};  ///< with its own options, but for checkpoints
  Similarity similarity = Similarity::wip;
  WhiteningOptions whitening;
  ShrinkageRule shrinkage_rule = ShrinkageRule::fixed;
  AttachBy attach_by = AttachBy::mixture;  ///< what attach() does unless told otherwise
  std::uint64_t seed = 0;
  SupportSelect support_select = SupportSelect::random;
  RowRange rows;                     ///< of the spaces that took part in the fit
  std::string kedge_version;         ///< that made it
  std::vector<std::string> sources;  ///< the spaces that took part in the fit
};

/// What every space of a bundle is compared with, and how learning it went.
struct LearnedAnchors {
  Matrix mixture;                         ///< anchors x support
  Matrix targets;                         ///< support x anchors: what ridge regresses; empty if that is not possible
  Matrix sketch;                          ///< of the sources' support rows, if there are no targets: enough to tell
                                          ///< whether rows to be attached are the same
  std::vector<std::int64_t> support_ids;  ///< row numbers in the spaces' files, or the numbers of ids
  bool by_id = false;                     ///< whether they are ids, which draw.h says how to number
  std::vector<Losses> history;            ///< losses of PARAM by epoch
  std::vector<double> refine_losses;      ///< on rows held out: before refinement, then after each of its epochs

  [[nodiscard]] bool has_targets() const { return targets.rows() != 0; }
};

/// What `fit` learns and `attach` extends: anchors, and every space's map. Never changes; copies share what is large.
class Bundle {
 public:
  /// `spaces`: the sources, then attached spaces. Throws Error(Code::bad_argument) for parts that do not fit together.
  Bundle(Recipe made, LearnedAnchors anchors, std::vector<Attachment> spaces);

  [[nodiscard]] const Recipe& made() const { return *made_; }
  [[nodiscard]] const LearnedAnchors& anchors() const { return *anchors_; }
  [[nodiscard]] const std::vector<Attachment>& spaces() const& { return spaces_; }
  [[nodiscard]] std::vector<Attachment> spaces() && { return std::move(spaces_); }  ///< so that a loop may go over them

  [[nodiscard]] bool has(std::string_view space) const;
  /// Throws UnknownSpace, which lists the known ones.
  [[nodiscard]] Attachment space(std::string_view name) const;
  [[nodiscard]] std::shared_ptr<const RelativeMap> map(std::string_view name) const { return space(name).map; }
  /// The same with another space, instead of the one of that name if there is one.
  /// Throws Error(Code::bad_argument) for one that does not fit the bundle.
  [[nodiscard]] Bundle with(Attachment space) const;

 private:
  std::shared_ptr<const Recipe> made_;
  std::shared_ptr<const LearnedAnchors> anchors_;
  std::vector<Attachment> spaces_;
};

/// What is worth a warning about the rows of a bundle's sources, and about those of one space that was attached.
[[nodiscard]] std::vector<std::string> warnings_of_sources(const Bundle& bundle);
[[nodiscard]] std::vector<std::string> warnings_of_attached(const Bundle& bundle, const Attachment& attached);

/// Never leaves half a file, never destroys the old one. The format is in docs/format.md. Replaces bundles only, unless
/// `in_place`; throws Error(Code::bad_argument) if something else is there.
void save_bundle(const Bundle& bundle, const std::string& path, bool in_place = false);
/// Throws Error(Code::bad_file) for anything that is not a whole, consistent bundle.
[[nodiscard]] Bundle load_bundle(const std::string& path);
/// One map of a bundle; the rest of the file is not read. Throws UnknownSpace, and what load_bundle throws.
[[nodiscard]] std::shared_ptr<const RelativeMap> load_map(const std::string& path, std::string_view space);
/// The bytes that save_bundle writes.
[[nodiscard]] std::string bundle_to_bytes(const Bundle& bundle);
/// As distrustful as load_bundle; messages call the bytes `label`.
[[nodiscard]] Bundle bundle_from_bytes(std::string_view bytes, const std::string& label);

}  // namespace kedge
