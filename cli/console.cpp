// SPDX-License-Identifier: Apache-2.0
#include "console.h"

#include "compute/threads.h"
#include "progress_line.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>

namespace kedge::cli {
namespace {

std::atomic<bool> interrupted{false};  // set by the thread that gets the signal, read by all
static_assert(std::atomic<bool>::is_always_lock_free, "a signal's handler may not wait");

/// The first signal stops the work at its next progress call; the second ends the process at once.
void on_interrupt(int sent) {
  if (!interrupted.exchange(true)) return;
  std::signal(sent, SIG_DFL);
  [[maybe_unused]] const int again = std::raise(sent);
}

[[noreturn]] void refuse_rows(const std::string& text) {
  throw Error(Code::bad_argument,
              fmt::format("rows '{}' is not a range; write it as FIRST:END, for example 0:50000", text));
}

std::size_t parse_row_number(std::string_view text, std::size_t otherwise, const std::string& whole) {
  if (text.empty()) return otherwise;
  std::size_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size()) refuse_rows(whole);
  return value;
}

/// R^2 of a map made by regression, or by mixture if there are targets.
std::string describe_fit(const Attachment& space) {
  if (const KernelFit* kernel = space.kernel()) {
    return fmt::format(
        "'{}' fits the anchors with a mean R^2 of {:.3f} on support rows left out one by one (kernel of "
        "width {:g}, strength {:g}, whitening {:g})",
        space.space(), kernel->mean_r2, kernel->width, kernel->strength, kernel->whitening);
  }
  if (const MixtureFit* mixture = space.mixture()) {
    return fmt::format("'{}' fits the anchors with a mean R^2 of {:.3f} on support rows left out one by one",
                       space.space(), mixture->mean_r2);
  }
  const RidgeFit& ridge = std::get<ByRidge>(space.by).fit;
  const std::string_view less = ridge.whitening == 0 ? ", not whitened" : ", half-whitened";
  return fmt::format("'{}' fits the anchors with a mean R^2 of {:.3f} by generalised cross-validation (ridge {:g}{})",
                     space.space(), ridge.mean_r2, ridge.strength, ridge.whitening == 1 ? "" : less);
}

bool is_source(const Bundle& bundle, const Attachment& space) {
  return std::ranges::find(bundle.made().sources, space.space()) != bundle.made().sources.end();
}

}  // namespace

void CommonOptions::add_to(Command& command) {
  command.add("--threads", threads, "Processor threads to use; 0 means all, or OMP_NUM_THREADS if that is set")
      .takes("N")
      .shows_default();
  command.add_flag("--json", json, "Print a summary as JSON on stdout");
  command.add_flag("-q,--quiet", quiet, "Print nothing but errors");
}

void add_device(Command& command, std::string& device, const std::string& what) {
  command.add("--device", device, what).one_of(device_names()).shows_default().takes("NAME");
}

std::vector<std::string> CommonOptions::words() const {
  std::vector<std::string> words{"--threads", std::to_string(threads)};
  if (json) words.emplace_back("--json");
  if (quiet) words.emplace_back("--quiet");
  return words;
}

void CommonOptions::apply() const {
  auto logger = std::make_shared<spdlog::logger>("kedge", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%v");
  logger->set_level(quiet ? spdlog::level::err : spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  if (threads == 0) return;
  set_threads(threads);
  if (can_map(blas_memory(threads))) return;
  throw Error(Code::failed, fmt::format("cannot start {} threads: they need more memory than is available; give "
                                        "--threads a smaller number",
                                        threads));
}

void require_room() {
  const unsigned threads = kedge::threads();
  if (can_map(blas_memory(threads))) return await_blas_threads();
  const auto mebibytes = [](unsigned count) { return blas_memory(count) >> 20; };
  std::string words = fmt::format(
      "kedge: out of memory: starting with {} thread{} needs {} MiB of address space besides the program itself, and "
      "less is available; raise the limit (ulimit -v)",
      threads, threads == 1 ? "" : "s", mebibytes(threads));
  if (threads > 1) {
    words += fmt::format(", or set OPENBLAS_NUM_THREADS=1 for one thread, which needs {} MiB", mebibytes(1));
  }
  std::fputs((words + "\n").c_str(), stderr);
  ::_exit(EXIT_FAILURE);
}

void watch_for_interrupt() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;  // without SA_RESTART, so that waiting calls return
  for (const int sent : {SIGINT, SIGTERM}) {
    struct sigaction before {};
    ::sigaction(sent, &action, &before);
    if (before.sa_handler == SIG_IGN) std::signal(sent, SIG_IGN);  // a shell ignores it for background jobs
  }
  std::signal(SIGXFSZ, SIG_IGN);  // so that a file size limit is an error like a full disk
}

Progress make_progress(const CommonOptions& options, double seconds_between_lines) {
  std::shared_ptr<ProgressLine> line;
  if (!options.quiet) {
    line = std::make_shared<ProgressLine>(::isatty(STDERR_FILENO) == 1, seconds_between_lines);
  }
  return [line](const ProgressReport& report) {
    if (interrupted) throw Interrupted();
    if (line) line->show(report);
  };
}

void say(const CommonOptions& options, const std::string& message) {
  if (options.quiet) return;
  if (::isatty(STDERR_FILENO) == 1) fmt::print(stderr, "\r\x1b[K");  // erases a progress bar
  spdlog::info(message);
}

void print_json(const CommonOptions& options, const Json& summary) {
  if (options.json) fmt::print("{}\n", summary.dump());
}

std::string file_of(const std::string& space) {
  const std::size_t equals = space.find('=');
  return equals == std::string::npos ? space : space.substr(equals + 1);
}

Space open_space(const std::string& text, RowRange rows) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) {
    const std::string file = text.substr(0, text.find('#'));
    if (!std::filesystem::path(file).has_extension() && !std::filesystem::exists(file)) {
      throw Error(Code::bad_argument, fmt::format("--space '{0}' names no file; write NAME=FILE, for example "
                                                  "{0}=embeddings.npy",
                                                  text));
    }
    return {std::filesystem::path(file).stem().string(), open_rows(text), rows};
  }
  return {text.substr(0, equals), open_rows(text.substr(equals + 1)), rows};
}

std::string name_of_file(const std::string& path) {
  std::string name = printable(std::filesystem::path(path.substr(0, path.find('#'))).filename().string());
  std::ranges::replace(name, '=', '_');  // a '=' would end the name of a space
  return name;
}

RowRange parse_rows(const std::string& text) {
  if (text.empty()) return {};
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) refuse_rows(text);
  const RowRange rows{parse_row_number(std::string_view(text).substr(0, colon), 0, text),
                      parse_row_number(std::string_view(text).substr(colon + 1), RowRange::kEnd, text)};
  if (rows.begin > rows.end) {
    throw Error(Code::bad_argument,
                fmt::format("rows '{}' are in reversed order: FIRST comes before END, so write {}:{}", text, rows.end,
                            rows.begin));
  }
  return rows;
}

Json ridge_to_json(const RidgeFit& fit) {
  return {{"ridge", fit.strength}, {"ridge_whitening", fit.whitening}, {"r2", fit.mean_r2}, {"r2_per_output", fit.r2}};
}

Json losses_to_json(const Losses& losses) {
  return {{"total", losses.total},
          {"symnce", losses.symnce},
          {"coverage", losses.coverage},
          {"orthogonality", losses.orthogonality},
          {"length", losses.length}};
}

std::string describe_rows(std::span<const Attachment> spaces) {
  std::string shares;
  const RowCheck* check = nullptr;
  for (const Attachment& space : spaces) {
    if (!space.row_check) continue;
    check = &*space.row_check;
    shares += fmt::format("{}{} {}", shares.empty() ? "" : ", ", space.space(), percent(check->found_first));
  }
  if (check == nullptr) return "";
  return fmt::format("the same row is found first among {}: {} (chance {})", check->among, shares,
                     percent(1 / static_cast<double>(check->among)));
}

std::string describe_choice(const Attachment& space) {
  const AttachChoice& choice = *space.choice();
  return fmt::format(
      "'{}' is attached by {}: ridge leaves {:.1f} % of the targets' variance unexplained by generalised "
      "cross-validation, kernel {:.1f} % at support rows left out one by one",
      space.space(), to_string(space.by), 100 * choice.ridge_error, 100 * choice.kernel_error);
}

Json row_check_to_json(const RowCheck& check) {
  Json json = {{"rows", check.rows},
               {"among", check.among},
               {"found_first", check.found_first},
               {"deviations", check.deviations},
               {"suspicious", check.suspicious()}};
  if (check.same_as) json.set("same_as", *check.same_as);
  if (check.block) {
    const auto& [rows, found_first] = *check.block;
    json.set("block", {{"begin", rows.begin}, {"end", rows.end == RowRange::kEnd ? Json() : Json(rows.end)}});
    json.set("found_first_in_block", found_first);
  }
  if (check.remedy == RowCheck::Remedy::none) return json;
  json.set("found_first_then", check.found_first_then);
  if (check.remedy == RowCheck::Remedy::shift) json.set("shift", check.shift);
  return json;
}

Json fit_to_json(const Attachment& space) {
  Json json = {{"attach", to_string(space.by)}, {"shrinkage", space.shrinkage}};
  if (const RidgeFit* fit = space.ridge()) json.update(ridge_to_json(*fit));
  if (const KernelFit* fit = space.kernel()) {
    json.update({{"kernel_width", fit->width},
                 {"kernel_strength", fit->strength},
                 {"kernel_whitening", fit->whitening},
                 {"r2", fit->mean_r2},
                 {"r2_per_output", fit->r2}});
  }
  if (const MixtureFit* fit = space.mixture()) json.update({{"r2", fit->mean_r2}, {"r2_per_output", fit->r2}});
  if (const AttachChoice* choice = space.choice()) {
    json.update({{"ridge_error", choice->ridge_error}, {"kernel_error", choice->kernel_error}});
  }
  if (const KernelFit* fit = space.reverse_fit()) {
    json.set("reverse", {{"from", space.reverse()->space()},
                         {"kernel_width", fit->width},
                         {"kernel_strength", fit->strength},
                         {"kernel_whitening", fit->whitening},
                         {"r2", fit->mean_r2}});
  }
  if (!space.translations.empty()) {
    Json all = Json::array();
    for (const auto& [to, r2] : space.translations) all.push_back({{"to", to}, {"r2", r2}});
    json.set("translations", all);
  }
  if (space.row_check) json.set("row_check", row_check_to_json(*space.row_check));
  if (const auto& wrong = space.wrong_pairs; wrong && (wrong->left_out || !explain(*wrong, space.space()).empty())) {
    json.set("wrong_pairs",
             {{"share", wrong->share}, {"pairs", wrong->pairs}, {"rows", wrong->rows}, {"left_out", wrong->left_out}});
  }
  return json;
}

std::string describe_reverse(const Attachment& space) {
  const KernelFit& fit = *space.reverse_fit();
  return fmt::format(
      "'{}' is translated back from '{}' with a mean R^2 of {:.3f} on support rows left out one by one "
      "(kernel of width {:g}, strength {:g}, whitening {:g})",
      space.space(), space.reverse()->space(), fit.mean_r2, fit.width, fit.strength, fit.whitening);
}

std::string describe_translations(const Attachment& space) {
  std::string all;
  for (const auto& [to, r2] : space.translations) all += fmt::format("{}{} {:.3f}", all.empty() ? "" : ", ", to, r2);
  return fmt::format("'{}' is translated with an expected R^2 of: {}", space.space(), all);
}

void tell_cost(const CommonOptions& options, const Cost& cost, const std::string& work) {
  constexpr double kWorthWaitingFor = 10, kMinute = 60;  // seconds
  if (cost.seconds < kWorthWaitingFor) return;
  const std::string time = cost.seconds < 2 * kMinute ? fmt::format("{:.0f} seconds", cost.seconds)
                                                      : fmt::format("{:.0f} minutes", cost.seconds / kMinute);
  say(options, fmt::format("{} will take about {} and {:.1f} GB of memory", work, time,
                           std::max(0.1, static_cast<double>(cost.bytes) / 1e9)));
}

std::vector<std::string> warnings_of_rows(const Bundle& bundle, std::span<const Attachment> spaces) {
  std::vector<std::string> warnings;
  bool sources = false;
  for (const Attachment& space : spaces) {
    const bool first = is_source(bundle, space) && !std::exchange(sources, true);
    if (is_source(bundle, space) && !first) continue;
    for (const std::string& text : first ? warnings_of_sources(bundle) : warnings_of_attached(bundle, space)) {
      warnings.push_back(text);
    }
  }
  return warnings;
}

bool has_meaningful_r2(const Bundle& bundle, const Attachment& space) {
  const auto is_off = [](const Attachment& one) { return one.row_check && one.row_check->suspicious(); };
  return !is_off(space) && std::ranges::none_of(bundle.spaces(), [&](const Attachment& one) {
    return is_source(bundle, one) && is_off(one);
  });
}

void say_how_it_fits(const CommonOptions& options, const Bundle& bundle, std::span<const Attachment> spaces) {
  for (const std::string& warning : warnings_of_rows(bundle, spaces)) say(options, "warning: " + warning);
  if (const std::string rows = describe_rows(spaces); !rows.empty()) say(options, rows);
  for (const Attachment& space : spaces) {
    if (space.wrong_pairs && space.wrong_pairs->left_out) say(options, explain(*space.wrong_pairs, space.space()));
  }
  for (const Attachment& space : spaces) {
    if (!has_meaningful_r2(bundle, space)) continue;
    if (space.ridge() != nullptr || space.mixture() != nullptr || space.kernel() != nullptr) {
      say(options, describe_fit(space));
    }
    if (space.reverse_fit() != nullptr) say(options, describe_reverse(space));
    if (space.choice() != nullptr) say(options, describe_choice(space));
    if (!space.translations.empty()) say(options, describe_translations(space));
  }
}

}  // namespace kedge::cli
