// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "console.h"

#include <kedge/moments.h>
#include <kedge/options/lists.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace kedge::cli {

/// What stands in the help above each group of options.
using GroupTitles = std::map<std::string_view, std::string>;

/// Gives a command the options of a list, but for those `without`. What the list points into must outlive the command.
void add_options(Command& command, const std::vector<Option>& options, const GroupTitles& titles = {},
                 const std::set<std::string_view>& without = {});

/// --moments, any number of times and with any number of files.
void add_moments_files(Command& command, std::vector<std::string>& files, const std::string& help);
/// All of them together. Throws Error(Code::bad_argument) where they are not of the same spaces, and names the file.
[[nodiscard]] Moments load_all_moments(const std::vector<std::string>& files);

/// --support-ids, for a command that has --support: it can be given one of them.
void add_support_ids(Command& command, std::string& file);
/// The row numbers in the file of --support-ids; none where it was not given.
[[nodiscard]] std::vector<std::int64_t> read_support_ids(const std::string& file);

}  // namespace kedge::cli
