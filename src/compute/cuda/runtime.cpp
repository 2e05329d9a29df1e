// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/runtime.h"

#include "base/wording.h"
#include "compute/cuda/cuda.h"

#include <algorithm>

namespace kedge::cuda {
namespace {

[[noreturn]] void fail(const char* doing, const std::string& answer) {
  (void)cudaGetLastError();  // reported here, so a later check must not find it
  throw Error(Code::failed, fmt::format("the GPU failed {}: {}; check it with nvidia-smi, or use {}", doing, answer,
                                        option_words("device", "cpu")));
}

double gib(std::size_t bytes) {
  return static_cast<double>(bytes) / (1U << 30);
}

/// The first run is a plain one: libraries load their kernels then, and cannot while a graph is captured.
class GraphRecording final : public Recording {
 public:
  GraphRecording(const Lane& lane, std::function<void()> work) : lane_(lane), work_(std::move(work)) {}
  void run(std::size_t times) override {
    for (; times > 0; --times) {
      if (graph_) {
        check(cudaGraphLaunch(graph_.get(), lane_.stream()), "to start a graph");
      } else if (ran_) {
        capture();
        ++times;
      } else {
        work_();
        ran_ = true;
      }
    }
  }

 private:
  void capture() {
    check(cudaStreamBeginCapture(lane_.stream(), cudaStreamCaptureModeThreadLocal), "to start recording");
    cudaGraph_t recorded = nullptr;
    try {
      work_();
    } catch (...) {
      (void)cudaStreamEndCapture(lane_.stream(), &recorded);
      if (recorded != nullptr) (void)cudaGraphDestroy(recorded);
      (void)cudaGetLastError();  // that the capture was broken off is no news
      throw;
    }
    check(cudaStreamEndCapture(lane_.stream(), &recorded), "to end recording");
    const Owned<cudaGraph_t, cudaGraphDestroy> owned(recorded);
    cudaGraphExec_t graph = nullptr;
    check(cudaGraphInstantiate(&graph, recorded, 0), "to make a graph");
    graph_.reset(graph);
  }

  const Lane& lane_;
  std::function<void()> work_;
  bool ran_ = false;
  Owned<cudaGraphExec_t, cudaGraphExecDestroy> graph_;
};

constexpr int kLeastMajor = 8;  // compute capability; older GPUs have no TF32, and kedge is not built for them

thread_local std::optional<int> before;  // the calling thread's GPU, if require() made another its own

/// Every thread has a current GPU, and in somebody else's program that may not be ours.
void select(int device) {
  int current = 0;
  check(cudaGetDevice(&current), "to be asked for");
  if (current == device) return;
  check(cudaSetDevice(device), "to be selected");
  if (!before) before = current;
}

[[noreturn]] void refuse(const std::string& what, const std::string& advice) {
  throw Error(Code::failed,
              fmt::format("cannot use a GPU: {}; {}, or use {}", what, advice, option_words("device", "cpu")));
}

std::string version_of(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

[[noreturn]] void refuse_driver() {
  int driver = 0, runtime = 0;
  (void)cudaDriverGetVersion(&driver);  // leaves 0 if there is none
  (void)cudaRuntimeGetVersion(&runtime);
  if (driver == 0) refuse("no NVIDIA driver was found", "install one");
  refuse(fmt::format("the NVIDIA driver is for CUDA {}, but this kedge was built with CUDA {}", version_of(driver),
                     version_of(runtime)),
         "install a newer driver");
}

[[noreturn]] void refuse_status(cudaError_t status) {
  (void)cudaGetLastError();  // reported here, so a later check must not find it
  if (status == cudaErrorInsufficientDriver) refuse_driver();
  if (status == cudaErrorNoDevice || status == cudaSuccess) {
    refuse("the NVIDIA driver finds none", "look for it with nvidia-smi and check CUDA_VISIBLE_DEVICES");
  }
  refuse(cudaGetErrorString(status), "check the driver with nvidia-smi");
}

}  // namespace

void check(cudaError_t status, const char* doing) {
  if (status == cudaErrorNoKernelImageForDevice) {
    fail(doing, "this kedge was not built for it; configure with -DCMAKE_CUDA_ARCHITECTURES=native");
  }
  if (status != cudaSuccess) fail(doing, cudaGetErrorString(status));
}

void check(cublasStatus_t status, const char* doing) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(doing, cublasGetStatusString(status));
}

void check(cusolverStatus_t status, const char* doing) {
  if (status != CUSOLVER_STATUS_SUCCESS) fail(doing, fmt::format("cuSOLVER's status {}", static_cast<int>(status)));
}

void check_launch(const char* doing) {
  check(cudaGetLastError(), doing);
}

void require_free(std::size_t bytes, std::string_view who, std::string_view advice) {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "to report how much memory is free");
  if (bytes <= free) return;
  throw Error(Code::failed,
              fmt::format("{} needs {:.2f} GiB of GPU memory, but only {:.2f} of {:.2f} GiB are free; {}, or use {}",
                          who, gib(bytes), gib(free), gib(total), advice, option_words("device", "cpu")));
}

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, std::max<std::size_t>(bytes, 1));
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // reported here, so a later check must not find it
    require_free(bytes, "this", "give it less at once, or free memory that other programs use");
  }
  check(status, "to allocate memory");
  return memory;
}

void* allocate_pinned(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, std::max<std::size_t>(bytes, 1), cudaHostAllocDefault), "to pin host memory");
  return memory;
}

Event make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "to make an event");
  return Event(event);
}

Lane::Lane() : workspace_(kWorkspaceBytes), end_(make_event()) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "to make a stream");
  stream_.reset(stream);
  cublasHandle_t handle = nullptr;
  check(cublasCreate(&handle), "to start cuBLAS");
  blas_.reset(handle);
  check(cublasSetStream(handle, stream), "to give cuBLAS a stream");
  check(cublasSetWorkspace(handle, workspace_.data(), kWorkspaceBytes), "to give cuBLAS a workspace");
}

cudaError_t Lane::finish(cudaStream_t stream) {
  (void)cudaStreamSynchronize(stream);
  return cudaStreamDestroy(stream);
}

void Lane::copy_bytes(void* to, std::size_t to_stride, const void* from, std::size_t from_stride, std::size_t row,
                      std::size_t rows) const {
  if (row * rows == 0) return;
  // A 2D copy has a limit on its rows, so packed rows are copied as one.
  const bool whole = rows == 1 || (to_stride == row && from_stride == row);
  check(whole ? cudaMemcpyAsync(to, from, row * rows, cudaMemcpyDefault, stream())
              : cudaMemcpy2DAsync(to, to_stride, from, from_stride, row, rows, cudaMemcpyDefault, stream()),
        "to copy a matrix");
}

Solver::Solver(const Lane& lane) {
  cusolverDnHandle_t made = nullptr;
  check(cusolverDnCreate(&made), "to start cuSOLVER");
  handle.reset(made);
  check(cusolverDnSetStream(made, lane.stream()), "to give cuSOLVER a stream");
  cusolverDnParams_t options = nullptr;
  check(cusolverDnCreateParams(&options), "to start cuSOLVER");
  params.reset(options);
}

std::unique_ptr<Recording> record_graph(const Lane& lane, std::function<void()> work) {
  return std::make_unique<GraphRecording>(lane, std::move(work));
}

std::vector<DeviceInfo> devices() {
  int count = 0;
  std::vector<DeviceInfo> found;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    (void)cudaGetLastError();
    return found;
  }
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess || properties.major < kLeastMajor) continue;
    found.push_back({Device::cuda, properties.name, properties.totalGlobalMem});
  }
  return found;
}

void require() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) refuse_status(status);
  for (int i = 0; i < count; ++i) {
    int major = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, i), "to report its compute capability");
    if (major >= kLeastMajor) return select(i);
  }
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "to report its name");
  refuse(fmt::format("the {} has compute capability {}.{}, but {}.0 or more is needed", properties.name,
                     properties.major, properties.minor, kLeastMajor),
         "use an A100 or a newer one");
}

void put_back() noexcept {
  if (before) (void)cudaSetDevice(*before);
  before.reset();
}

}  // namespace kedge::cuda
