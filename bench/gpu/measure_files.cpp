// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.h"
#include "compute/backend.h"
#include "compute/row_worker.h"
#include "measure.h"

#include <kedge/kedge.h>

#include <cmath>
#include <filesystem>

namespace kedge::bench {
namespace {

constexpr std::size_t kRows = 50'000;
constexpr std::size_t kDims[] = {384, 1280, 768};
constexpr std::size_t kLongRows = 400'000, kLongDim = 768, kAnchors = 300;
constexpr std::size_t kBlock = 4 * RowWriter::kAlignment;

std::string space_file(const std::string& folder, std::size_t dim) {
  return folder + "/space" + std::to_string(dim) + ".npy";
}
std::string long_file(const std::string& folder) {
  return folder + "/long.npy";
}

/// What different encoders make of the same inputs: hidden causes, few of them strong, seen in each one's own way,
/// and noise.
void make_spaces(const std::string& folder) {
  constexpr std::size_t kCauses = 128;
  Matrix hidden = random_rows(kRows, kCauses, 1);
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t c = 0; c < kCauses; ++c) hidden.row(r)[c] /= std::sqrt(1 + static_cast<float>(c));
  }
  const auto cpu = make_cpu_backend();
  const auto causes = cpu->make(kRows, kCauses);
  cpu->upload(hidden.view(), causes->panel());
  for (const std::size_t dim : kDims) {
    const auto mixing = cpu->make(kCauses, dim);
    const auto seen = cpu->make(kRows, dim);
    cpu->upload(random_rows(kCauses, dim, dim).view(), mixing->panel());
    cpu->upload(random_rows(kRows, dim, dim + 1).view(), seen->panel());
    cpu->gemm_nn(1, causes->panel(), mixing->panel(), 0.5F, seen->panel());
    Matrix host(kRows, dim);
    cpu->download(seen->panel(), host.view());
    save_npy(space_file(folder, dim), host.view());
  }
}

void make_long_file(const std::string& path) {
  const Matrix block = random_rows(kBlock, kLongDim, 3);
  RowWriter writer(path, kLongRows, kLongDim);
  for (std::size_t first = 0; first < kLongRows; first += kBlock) {
    writer.write(first, block.view().middle_rows(0, std::min(kBlock, kLongRows - first)));
  }
  writer.finish();
}

void read_file(const Space& space) {
  parallel_blocks(space.rows(), kBlock, threads(), [&] {
    return [&space, block = std::make_shared<PageAlignedMatrix>(kBlock, space.dim())](
               std::size_t first, std::size_t rows) { space.read(first, block->view().middle_rows(0, rows)); };
  });
}

void write_file(const std::string& path) {
  RowWriter writer(path, kLongRows, kAnchors);
  parallel_blocks(kLongRows, kBlock, threads(), [&] {
    return [&writer, block = std::make_shared<PageAlignedMatrix>(kBlock, kAnchors)](
               std::size_t first, std::size_t rows) { writer.write(first, block->view().middle_rows(0, rows)); };
  });
  writer.finish();
}

/// How long each step of the work took: the time up to a report is that step's.
class Stages {
 public:
  explicit Stages(Clock::time_point start) : last_(start) {}
  void report(const ProgressReport& report) { add(std::string(report.step.substr(0, report.step.find(' ')))); }
  void add(const std::string& stage) {
    const auto now = Clock::now();
    seconds_[stage] = seconds_.value(stage, 0.0) + std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }
  [[nodiscard]] const nlohmann::json& seconds() const { return seconds_; }

 private:
  Clock::time_point last_;
  nlohmann::json seconds_ = nlohmann::json::object();
};

}  // namespace

Matrix random_rows(std::size_t rows, std::size_t cols, std::uint64_t seed) {
  Matrix matrix(rows, cols);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
  for (float& cell : matrix.cells()) {
    state ^= state << 13;  // xorshift64
    state ^= state >> 7;
    state ^= state << 17;
    cell = (static_cast<float>(state >> 40) * 0x1p-24F - 0.5F) * 3.4641016F;
  }
  return matrix;
}

void make_files(const std::string& folder) {
  std::filesystem::create_directories(folder);
  for (const std::size_t dim : kDims) {
    if (std::filesystem::exists(space_file(folder, dim))) continue;
    make_spaces(folder);
    break;
  }
  if (!std::filesystem::exists(long_file(folder))) make_long_file(long_file(folder));
}

std::vector<Space> open_spaces(const std::string& folder) {
  std::vector<Space> spaces;
  for (const std::size_t dim : kDims) spaces.emplace_back(std::to_string(dim), open_rows(space_file(folder, dim)));
  return spaces;
}

nlohmann::json measure_fit(const std::string& folder, const std::string& method, Device device, Precision precision,
                           Clock::time_point start) {
  Stages stages(start);
  const std::vector<Space> spaces = open_spaces(folder);
  FitOptions options;
  options.method = parse_method(method);
  options.device = device;
  options.precision = precision;
  require_device(device);
  stages.add("opening");
  const Bundle bundle = fit(spaces, options, [&](const ProgressReport& report) { stages.report(report); });
  stages.add("attaching");
  save_bundle(bundle, folder + "/bench.kedge");
  stages.add("saving");
  nlohmann::json found = {{"method", method},
                          {"device", to_string(device)},
                          {"precision", to_string(precision)},
                          {"rows", kRows},
                          {"epochs", bundle.anchors().history.size()},
                          {"seconds", seconds_since(start)},
                          {"stages", stages.seconds()}};
  if (!bundle.anchors().history.empty()) found["last_loss"] = bundle.anchors().history.back().total;
  return found;
}

nlohmann::json measure_file_transform(const std::string& folder) {
  const RelativeMap map("long", Similarity::wip, random_rows(kAnchors, kLongDim, 5), std::vector<float>(kAnchors),
                        std::vector<float>(kLongDim));
  const Space input("long", open_rows(long_file(folder)));
  const std::string output = folder + "/out.npy";
  const auto timed = [](const auto& work) {
    std::vector<double> rounds(4);
    for (double& round : rounds) round = seconds_of(work);
    return median({rounds.begin() + 1, rounds.end()});  // the first finds files and GPU cold
  };
  const auto on = [&](Device device, Precision precision) {
    return timed([&] { transform(map, input, output, {.device = device, .precision = precision}); });
  };
  nlohmann::json found = {{"rows", kLongRows},
                          {"dim", kLongDim},
                          {"anchors", kAnchors},
                          {"threads", threads()},
                          {"file_gb", static_cast<double>(kLongRows * kLongDim * sizeof(float)) / 1e9},
                          {"read_seconds", timed([&] { read_file(input); })},
                          {"write_seconds", timed([&] { write_file(output); })},
                          {"cuda_tf32_seconds", on(Device::cuda, Precision::tf32)},
                          {"cuda_fp32_seconds", on(Device::cuda, Precision::fp32)},
                          {"cpu_seconds", on(Device::cpu, Precision::fp32)}};
  std::filesystem::remove(output);
  return found;
}

}  // namespace kedge::bench
