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

/// Headings of the groups of options in the help.
using GroupTitles = std::map<std::string_view, std::string>;

/// Gives a command the options of a list, except `without`. What the list points into must outlive the command.
void add_options(Command& command, const std::vector<Option>& options, const GroupTitles& titles = {},
                 const std::set<std::string_view>& without = {});

/// Adds --moments, which takes any number of files, any number of times.
void add_moments_files(Command& command, std::vector<std::string>& files, const std::string& help);
/// Merges them. Throws Error(Code::bad_argument), which names the file, if they are not of the same spaces.
[[nodiscard]] Moments load_all_moments(const std::vector<std::string>& files);

/// Adds --support-ids, which excludes --support.
void add_support_ids(Command& command, std::string& file);
/// The row numbers in the file of --support-ids; none if it was not given.
[[nodiscard]] std::vector<std::int64_t> read_support_ids(const std::string& file);

}  // namespace kedge::cli
