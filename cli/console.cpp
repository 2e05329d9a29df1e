// SPDX-License-Identifier: Apache-2.0
#include "console.h"

#include "room.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>

namespace kedge::cli {
namespace {

std::atomic<bool> interrupted{false};  // set on whichever thread the signal meets, read on all
static_assert(std::atomic<bool>::is_always_lock_free, "a signal's handler may not wait");

/// The first is obeyed where the work can be left in order; a second one ends the process at once.
void on_interrupt(int sent) {
  if (!interrupted.exchange(true)) return;
  std::signal(sent, SIG_DFL);
  [[maybe_unused]] const int again = std::raise(sent);
}

std::string time_left(double seconds) {
  const auto whole = static_cast<std::size_t>(std::lround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  return fmt::format("{} min {:02} s", whole / 60, whole % 60);
}

/// Draws one step after another; a step is known by its name.
class ProgressLine {
 public:
  ProgressLine(bool terminal, double wait) : terminal_(terminal), wait_(terminal ? kFrame : wait) {}
  ~ProgressLine() { wipe(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const ProgressReport& report) {
    if (report.step != step_) begin(report.step);
    const double now = since_start_.seconds();
    if (now - shown_ < wait_) return;
    shown_ = now;
    const double share = static_cast<double>(report.done) / static_cast<double>(report.total);
    const std::string left = share > 0 && share < 1 ? time_left(now * (1 - share) / share) + " left" : "";
    if (terminal_) {
      draw(share, report.detail, left);
    } else {
      spdlog::info("{}: {} of {} ({:.0f} %){}{}{}{}", step_, report.done, report.total, 100 * share,
                   report.detail.empty() ? "" : ", ", report.detail, left.empty() ? "" : ", ", left);
    }
  }

 private:
  void begin(std::string_view step) {
    wipe();
    step_ = step;
    since_start_ = Stopwatch();
    shown_ = 0;
  }
  void draw(double share, std::string_view detail, const std::string& left) {
    const int width = detail.empty() ? 30 : 15;
    const int filled = static_cast<int>(share * width);
    fmt::print(stderr, "\r{} [{:#<{}}{:<{}}] {:3.0f} % {}{}{}\x1b[K", step_, "", filled, "", width - filled,
               100 * share, detail, detail.empty() ? "" : " ", left);
    std::fflush(stderr);
    drawn_ = true;
  }
  void wipe() {
    if (drawn_) fmt::print(stderr, "\r\x1b[K");
    drawn_ = false;
  }

  static constexpr double kFrame = 0.1;  ///< seconds between two drawings of a bar

  bool terminal_;
  double wait_;
  bool drawn_ = false;
  std::string step_;
  Stopwatch since_start_;
  double shown_ = 0;
};

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

/// Also of files that are not there yet. Devices take any number of results.
bool is_same_file(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  std::error_code unknown;
  if (a.empty() || b.empty() || fs::is_character_file(a, unknown)) return false;
  const auto place = [&](const std::string& path) {
    return fs::weakly_canonical(fs::absolute(path, unknown), unknown);
  };
  return fs::equivalent(a, b, unknown) || place(a) == place(b);
}

/// For a space made by ridge, or by mixture from targets.
std::string describe_fit(const Attachment& space) {
  if (space.mixture) {
    return fmt::format("'{}' fits the anchors with a mean R^2 of {:.3f} on support rows left out one by one",
                       space.space(), space.mixture->mean_r2);
  }
  const RidgeFit& ridge = space.ridge.value();
  return fmt::format("'{}' fits the anchors with a mean R^2 of {:.3f} on held-out rows (ridge {:g}{})", space.space(),
                     ridge.mean_r2, ridge.strength, ridge.whitening == 1 ? "" : ", half-whitened");
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

void add_precision(Command& command, std::string& precision) {
  command
      .add("--precision", precision,
           "Precision of matrix products on a GPU: fp32 as on the processor; tf32 is faster but coarser; reading and "
           "writing the file takes longer than either")
      .one_of({to_string(Precision::fp32), to_string(Precision::tf32)})
      .shows_default()
      .takes("NAME");
}

void CommonOptions::apply() const {
  auto logger = std::make_shared<spdlog::logger>("kedge", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%v");
  logger->set_level(quiet ? spdlog::level::err : spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  if (threads > 0) use_threads(threads);
}

void watch_for_interrupt() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;  // without SA_RESTART: calls that wait are not taken up again
  for (const int sent : {SIGINT, SIGTERM}) {
    struct sigaction before {};
    ::sigaction(sent, &action, &before);
    if (before.sa_handler == SIG_IGN) std::signal(sent, SIG_IGN);  // as a shell wants it of what runs in the background
  }
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is then an error like a full disk
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
  if (::isatty(STDERR_FILENO) == 1) fmt::print(stderr, "\r\x1b[K");  // a bar may stand there
  spdlog::info(message);
}

void print_json(const CommonOptions& options, const Json& summary) {
  if (options.json) fmt::print("{}\n", summary.dump());
}

void require_other_file(const std::string& output, const std::string& input) {
  constexpr std::string_view kWithTensor = ".safetensors#";  // and the name of one
  const std::size_t tensor = input.find(kWithTensor);
  const std::string file = tensor == std::string::npos ? input : input.substr(0, tensor + kWithTensor.size() - 1);
  if (!is_same_file(output, input) && !is_same_file(output, file)) return;
  throw Error(Code::bad_argument,
              fmt::format("'{}' is an input; writing the result there would destroy it, so name another file", output));
}

void require_different(std::span<const std::string> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (std::size_t j = i + 1; j < outputs.size(); ++j) {
      if (!is_same_file(outputs[i], outputs[j])) continue;
      throw Error(Code::bad_argument,
                  fmt::format("'{}' is named for two results, and one would overwrite the other; name another file",
                              outputs[j]));
    }
  }
}

std::string file_of(const std::string& space) {
  const std::size_t equals = space.find('=');
  return equals == std::string::npos ? space : space.substr(equals + 1);
}

Space open_space(const std::string& text, RowRange rows) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) {
    const std::string file = text.substr(0, text.find('#'));
    return {std::filesystem::path(file).stem().string(), open_rows(text), rows};
  }
  return {text.substr(0, equals), open_rows(text.substr(equals + 1)), rows};
}

RowRange parse_rows(const std::string& text) {
  if (text.empty()) return {};
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) refuse_rows(text);
  return {parse_row_number(std::string_view(text).substr(0, colon), 0, text),
          parse_row_number(std::string_view(text).substr(colon + 1), RowRange::kEnd, text)};
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

Json row_check_to_json(const RowCheck& check) {
  Json json = {{"rows", check.rows},
               {"among", check.among},
               {"found_first", check.found_first},
               {"deviations", check.deviations},
               {"suspicious", check.suspicious()}};
  if (check.remedy == RowCheck::Remedy::none) return json;
  json.set("found_first_then", check.found_first_then);
  if (check.remedy == RowCheck::Remedy::shift) json.set("shift", check.shift);
  return json;
}

void say_how_it_fits(const CommonOptions& options, std::span<const Attachment> spaces) {
  for (const Attachment& space : spaces) {
    if (space.ridge || space.mixture) say(options, describe_fit(space));
  }
  if (const std::string rows = describe_rows(spaces); !rows.empty()) say(options, rows);
  for (const Attachment& space : spaces) {
    if (space.row_check && space.row_check->suspicious()) {
      say(options, "warning: " + explain(*space.row_check, space.space()));
    }
  }
}

}  // namespace kedge::cli
