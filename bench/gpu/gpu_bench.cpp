// SPDX-License-Identifier: Apache-2.0
// How fast is it on the GPU? Prints JSON. Each of these is a process of its own, so that setting the GPU up counts:
//   kedge_gpu_bench device                              ceilings, a step of PARAM, transform of resident data
//   kedge_gpu_bench step                                only steps of PARAM, in tf32 and bf16
//   kedge_gpu_bench stages                              where the time of a step goes
//   kedge_gpu_bench files FOLDER                        makes what the next ones read; 2.2 GB with what they write
//   kedge_gpu_bench fit FOLDER METHOD [DEVICE [PRECISION]]
//   kedge_gpu_bench consensus FOLDER [DEVICE]           the steps of its consensus fit one by one
//   kedge_gpu_bench transform FOLDER                    from file to file, on the GPU and on the processor
#include "measure.h"

#include <kedge/error.h>

#include <array>
#include <exception>
#include <iostream>

namespace {

using namespace kedge;

constexpr const char* kUsage =
    "usage: kedge_gpu_bench device | step | stages | files FOLDER | fit FOLDER METHOD [cuda|cpu [fp32|tf32|bf16]] |\n"
    "       consensus FOLDER [cuda|cpu] | transform FOLDER\n";

nlohmann::json run(const std::vector<std::string>& words, bench::Clock::time_point start) {
  const std::string& what = words[0];
  if (what == "device") {
    return {{"ceilings", bench::measure_ceilings()},
            {"steps", bench::measure_steps(std::array{Precision::fp32, Precision::tf32, Precision::bf16})},
            {"resident_transform", bench::measure_resident_transform()}};
  }
  if (what == "step") return bench::measure_steps(std::array{Precision::tf32, Precision::bf16});
  if (what == "stages") {
    nlohmann::json found;
    for (const Precision precision : {Precision::tf32, Precision::bf16}) {
      for (const std::size_t support : {5'000U, 50'000U}) found.push_back(bench::measure_stages(precision, support));
    }
    return found;
  }
  if (what == "fit" && words.size() >= 3) {
    const Device device = parse_device(words.size() > 3 ? words[3] : "cuda");
    return bench::measure_fit(words[1], words[2], device, parse_precision(words.size() > 4 ? words[4] : "tf32"), start);
  }
  if (what == "consensus" && words.size() >= 2) {
    return bench::measure_consensus(words[1], parse_device(words.size() > 2 ? words[2] : "cuda"));
  }
  if (what == "transform" && words.size() == 2) return bench::measure_file_transform(words[1]);
  if (what == "files" && words.size() == 2) {
    bench::make_files(words[1]);
    return {{"folder", words[1]}};
  }
  throw Error(Code::bad_argument, kUsage);
}

}  // namespace

int main(int argc, char** argv) {
  const auto start = bench::Clock::now();
  try {
    if (argc < 2) throw Error(Code::bad_argument, kUsage);
    std::cout << run({argv + 1, argv + argc}, start).dump() << "\n";
    return 0;
  } catch (const std::exception& problem) {
    std::cerr << problem.what() << "\n";
    return 1;
  }
}
