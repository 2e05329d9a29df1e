// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/bundle.h>
#include <kedge/device.h>
#include <kedge/moments.h>
#include <kedge/progress.h>
#include <kedge/space.h>
#include <kedge/support.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kedge {

/// How much time to spend on quality, in one word.
enum class Effort {
  fast,  ///< linear maps from the closed form
  best,  ///< maps by kernel and, for a consensus of rows that can be read, refined targets; takes minutes, not seconds
};

[[nodiscard]] std::string_view to_string(Effort effort);
/// Throws Error(Code::bad_argument) that lists the names.
[[nodiscard]] Effort parse_effort(std::string_view name);
[[nodiscard]] std::vector<std::string_view> effort_names();

/// Everything `fit` can be told; these defaults are the only ones.
struct FitOptions {
  Method method = Consensus{};   ///< with its own options
  Effort effort = Effort::fast;  ///< what is not set below follows from it
  Similarity similarity = Similarity::wip;
  /// Default: kDefaultAnchors, or as many as there are support rows if fewer. A consensus and cca make no more than
  /// there are directions that the spaces share.
  std::optional<std::size_t> anchors = {};
  /// Default: kDefaultSupport rows (kKernelSupport for maps by kernel), or all if there are fewer.
  std::optional<std::size_t> support = {};
  std::vector<std::int64_t> support_ids;  ///< row numbers of the files; where given, they are the support
  SupportSelect support_select = SupportSelect::random;  ///< how it is found otherwise
  std::uint64_t seed = 0;
  WhiteningOptions whitening;
  ShrinkageRule shrinkage_rule = ShrinkageRule::fixed;  ///< otherwise it replaces the shrinkage above, space by space
  std::optional<AttachBy> attach_by;                    ///< default: default_attach_by()
  std::optional<double> ridge;                          ///< its strength; default: by cross-validation, space by space
  KernelOptions kernel;                                 ///< for maps by kernel
  bool robust = false;  ///< without pairs that the others speak against: for adapters, and a consensus with targets
  /// Keeps the support rows of every space, those of attached ones too, so that each translation is the pair's own
  /// regression: by kernel where the map is. For all but adapters, which are that already.
  bool keep_rows = false;
  Device device = Device::cpu;            ///< where statistics are taken and anchors are learned
  Precision precision = Precision::tf32;  ///< of learning; on a processor tf32 is fp32

  static constexpr std::size_t kDefaultAnchors = 300;
  static constexpr std::size_t kDefaultSupport = 5000;
  static constexpr std::size_t kKernelSupport = 10000;  ///< a kernel gains from rows that a line no longer needs
};

/// Where a fit finds its rows. Spaces alone are enough, and so are moments that carry the support rows.
struct FitRows {
  std::vector<Space> spaces;  ///< parallel
  /// Of all rows, if they are known already: the spaces, by name, may then hold a sample of the rows, which the support
  /// is chosen from and PARAM learns from.
  std::optional<Moments> moments = {};
  /// One for each row of the spaces' files. The support is drawn by id, as Moments do, or is the rows whose ids are the
  /// options' support_ids; the bundle keeps ids instead of row numbers.
  std::optional<std::vector<std::int64_t>> ids = {};
  bool support_rows = false;  ///< the spaces hold the support alone: the options' support_ids, in that order
};

/// All that a fit needs to know of the rows: read from files, merged from parts, or put together by hand.
struct FitInput {
  /// Of all spaces side by side; or of each space alone, which is enough for all methods but consensus.
  std::vector<Moments> moments;
  SupportRows support;             ///< of every space of the moments, in their order
  bool by_id = false;              ///< whether its ids are those of draw.h, and not row numbers
  std::vector<Space> spaces = {};  ///< rows to learn from, for PARAM and refinement; the support is among them
  std::vector<std::int64_t> file_rows = {};  ///< which rows of the spaces' files the support is
};

/// Throws Error(Code::bad_argument) for a support that is too large, ids out of range, missing, repeated or beside a
/// selection, too many anchors; Error(Code::bad_file) for spaces whose rows differ in number or hold NaN.
[[nodiscard]] FitInput read_input(const FitRows& rows, const FitOptions& options, const Progress& progress = {});

/// Learns anchors and makes the relative map of every space. Throws Error(Code::bad_argument) for parts that do not fit
/// together, and for options that need rows to learn from where there are none (the method param, refinement).
[[nodiscard]] Bundle fit(FitInput input, const FitOptions& options, const Progress& progress = {});
/// Reads parallel spaces, and fits them.
[[nodiscard]] Bundle fit(std::span<const Space> spaces, const FitOptions& options, const Progress& progress = {});

/// A sentence for whoever gets fewer anchors than were asked for, or than there are by default; empty otherwise.
[[nodiscard]] std::string tell_of_fewer_anchors(const Bundle& bundle, const FitOptions& options);

/// Removes what a fit with these options kept to resume from; to be called once its bundle is safe.
void remove_checkpoint(const FitOptions& options);

/// What work will take, about: an estimate from how fast this machine multiplies now.
struct Cost {
  double seconds = 0;
  std::size_t bytes = 0;  ///< of memory: that of a GPU where it works
};

/// Of what takes longest in a fit of spaces with so many rows: refinement, maps by kernel, the consensus of wide spaces
/// and the regressions of pairs whose rows are kept; 0 if there is none of them.
[[nodiscard]] Cost fit_cost(const FitOptions& options, std::span<const std::size_t> dims, std::size_t rows);

/// How fit and attach make maps by default: by kernel for the adapter by kernel, by ridge for other adapters and for a
/// consensus with wip, else by mixture.
[[nodiscard]] AttachBy default_attach_by(const Method& method, Similarity similarity);

struct AttachOptions {
  bool support_rows = false;    ///< the space holds just the support rows, in support order; otherwise all inputs
  std::optional<AttachBy> by;   ///< default: as the bundle says, or kernel for the best effort
  std::optional<double> ridge;  ///< its strength; default: by cross-validation
  KernelOptions kernel = {};    ///< for a map by kernel
  Device device = Device::cpu;  ///< where statistics are taken and a kernel is solved
  Effort effort = Effort::fast;
  bool robust = false;  ///< without support rows that the others speak against; if targets are regressed
};

/// Of attaching a space with rows of so many values by kernel; 0 where it is attached in another way.
[[nodiscard]] Cost attach_cost(const Bundle& bundle, const AttachOptions& options, std::size_t dim);

/// Where attaching finds the rows of one space. The space alone is enough, and so are moments that carry its support
/// rows: those whose ids are the bundle's.
struct AttachRows {
  std::optional<Space> space;
  std::optional<Moments> moments = {};  ///< of all its rows, if they are known already
  /// One for each row of the space's file, to find the support rows of a bundle that keeps ids.
  std::optional<std::vector<std::int64_t>> ids = {};
  /// Which rows of the space's file are which: a row number of the fit and one of the file, pair after pair. They may
  /// lack some of the support rows if it is attached by ridge. No pairs: the file is in the order of the fit.
  std::optional<std::vector<std::int64_t>> pairs = {};
};

/// All that attaching needs to know of a space: read from a file, or put together by hand.
struct AttachInput {
  Moments moments;                      ///< of the one space
  Matrix64 support;                     ///< its support rows, in support order
  std::optional<bool> of_support = {};  ///< whether the moments are of those rows alone; default: what the two show
  std::optional<Space> space = {};      ///< whose file holds the support rows
  std::vector<std::int64_t> file_rows = {};  ///< which rows of it they are
  std::vector<std::size_t> places = {};      ///< of the support rows that a paired space has, if those are not all
};

/// Throws Error(Code::bad_argument) for support rows that are missing, and names them, and for ids where the bundle
/// keeps row numbers, or the other way round.
[[nodiscard]] AttachInput read_input(const Bundle& bundle, const AttachRows& rows, const AttachOptions& options = {},
                                     const Progress& progress = {});

/// Makes the map and, if the bundle has targets, the decoder of a new space; the bundle's mixture is not touched.
/// Bundle::with() keeps the result. Throws Error(Code::bad_argument) for rows or a way to attach that do not fit.
[[nodiscard]] Attachment attach(const Bundle& bundle, const AttachInput& input, const AttachOptions& options = {},
                                const Progress& progress = {});
/// Reads the space, and attaches it.
[[nodiscard]] Attachment attach(const Bundle& bundle, const Space& space, const AttachOptions& options = {},
                                const Progress& progress = {});

}  // namespace kedge
