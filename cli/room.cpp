// SPDX-License-Identifier: Apache-2.0
// Libraries do not tell their caller that memory or threads ran out. OpenBLAS asks for a buffer again and again, for
// ever; where it cannot start a thread it sends its own process SIGINT; libgomp calls exit(). A user would see a
// command that hangs, or is "interrupted", or ends without a word. So, in the order in which it happens:
//
//   before main    check_room: OpenBLAS starts its threads while it is loaded, so whether there is room for them is
//                  asked from .preinit_array, which runs before any library's own start; and its SIGINT is caught.
//   first in main  prepare_libraries: takes the buffers that OpenBLAS will want, while there is room, and has every
//                  exit() that is not ours leave a sentence behind.
//   --threads N    use_threads: tries whether so many threads start and find room, before OpenBLAS starts them.
//   last in main   leave_in_order: from here on, exit() is ours.
#include "room.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <kedge/device.h>
#include <kedge/error.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <future>
#include <new>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

// Of OpenBLAS; absent where it was built to hide them.
extern "C" {
[[gnu::weak]] void* blas_memory_alloc(int);
[[gnu::weak]] void blas_memory_free(void*);
}

namespace kedge::cli {
namespace {

// OpenBLAS maps this much for each of its threads when that starts, and for each of ours in its first product.
constexpr std::size_t kBuffer = std::size_t{128} << 20;
constexpr std::size_t kMostThreads = 128;             // of OpenBLAS, as Debian builds it
constexpr std::size_t kRest = std::size_t{16} << 20;  // stack, and what libraries allocate while they are loaded
constexpr std::size_t kStack = std::size_t{256} << 10;

constexpr std::string_view kNoMemory =
    "kedge: out of memory; use fewer rows, support rows or anchors, fewer threads, or a machine with more memory\n";

std::size_t stack_size() {
  constexpr std::size_t kUsual = std::size_t{8} << 20;
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUsual;
  return limit.rlim_cur;
}

/// Whether `count` pieces can be mapped beside all there is; one by one, as a single large one may be refused for its
/// size alone. They are not touched, so this takes no memory.
bool can_map(std::size_t count, std::size_t piece) {
  std::array<void*, 16 * kMostThreads> pieces{};
  count = std::min(count, pieces.size());
  std::size_t mapped = 0;
  while (mapped < count) {
    void* at = ::mmap(nullptr, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) break;
    pieces[mapped++] = at;
  }
  for (std::size_t i = 0; i < mapped; ++i) ::munmap(pieces[i], piece);
  return mapped == count;
}

constexpr std::size_t kPiece = kBuffer / 4;

/// A stream of rows has some more than there are threads, since they wait for the disk now and then.
constexpr std::size_t workers_of(std::size_t threads) {
  return threads + 2;
}

/// Threads of OpenBLAS that start late may take a buffer that was meant for a worker, so there are enough for both.
constexpr std::size_t buffers_of(std::size_t threads) {
  return threads - 1 + workers_of(threads);
}

/// All those buffers, what the threads of OpenBLAS have taken already, and the stack of each thread.
std::size_t room_for(std::size_t threads) {
  const std::size_t bytes = (buffers_of(threads) + threads - 1) * kBuffer + buffers_of(threads) * stack_size() + kRest;
  return (bytes + kPiece - 1) / kPiece * kPiece;
}

bool has_room_for(std::size_t threads) {
  return can_map(room_for(threads) / kPiece, kPiece);
}

[[noreturn]] void leave(std::string_view words) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, words.data(), words.size());
  ::_exit(EXIT_FAILURE);
}

/// As OpenBLAS will count them.
std::size_t threads_at_start(char** environment) {
  cpu_set_t allowed;
  const bool known = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  auto count = static_cast<std::size_t>(known ? CPU_COUNT(&allowed) : 1);
  for (const std::string_view name : {"OPENBLAS_NUM_THREADS=", "GOTO_NUM_THREADS=", "OMP_NUM_THREADS="}) {
    for (char** entry = environment; *entry != nullptr; ++entry) {
      if (!std::string_view(*entry).starts_with(name)) continue;
      const long asked = std::strtol(*entry + name.size(), nullptr, 10);
      if (asked > 0) return std::clamp<std::size_t>(static_cast<std::size_t>(asked), 1, std::min(count, kMostThreads));
    }
  }
  return std::clamp<std::size_t>(count, 1, kMostThreads);
}

bool interrupts_ignored_at_start = false;

/// OpenBLAS raises SIGINT where it cannot start a thread; one from a terminal still does what it would have done.
void on_interrupt_while_loading(int, siginfo_t* from, void*) {
  if (from->si_code == SI_TKILL && from->si_pid == ::getpid()) {
    leave(
        "kedge: cannot start the threads for matrix products: too many processes, or too little memory for them; set "
        "OPENBLAS_NUM_THREADS=1 or raise the limit (ulimit -u, ulimit -v)\n");
  }
  if (interrupts_ignored_at_start) return;
  std::signal(SIGINT, SIG_DFL);
  [[maybe_unused]] const int sent = std::raise(SIGINT);
}

/// Runs before libraries are initialised, OpenBLAS among them; so no streams, and nothing that allocates.
void check_room(int, char**, char** environment) {
  struct sigaction action {};
  action.sa_sigaction = on_interrupt_while_loading;
  action.sa_flags = SA_SIGINFO;
  struct sigaction before {};
  ::sigaction(SIGINT, &action, &before);
  interrupts_ignored_at_start = before.sa_handler == SIG_IGN;
  const std::size_t threads = threads_at_start(environment);
  if (has_room_for(threads)) return;
  std::array<char, 400> words{};
  const auto mebibytes = [](std::size_t bytes) { return bytes >> 20; };
  const int size =
      std::snprintf(words.data(), words.size(),
                    "kedge: out of memory: starting with %zu thread%s needs %zu MiB of address space besides the "
                    "program itself, and less is available; raise the limit (ulimit -v)%s",
                    threads, threads == 1 ? "" : "s", mebibytes(room_for(threads)), threads == 1 ? "\n" : "");
  std::size_t end = static_cast<std::size_t>(std::max(size, 0));
  if (threads > 1) {
    end += static_cast<std::size_t>(
        std::max(0, std::snprintf(words.data() + end, words.size() - end,
                                  ", or set OPENBLAS_NUM_THREADS=1 for one thread, which needs %zu MiB\n",
                                  mebibytes(room_for(1)))));
  }
  leave({words.data(), std::min(end, words.size())});
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const check_room_first)(int, char**, char**) = check_room;

std::atomic<bool> in_order{false};

/// libgomp and OpenBLAS call exit() where a thread or a little memory is refused to them.
void speak_for_libraries() {
  if (in_order) return;
  leave(
      "kedge: a library gave up, most likely for lack of memory or threads (its own message, if any, is above); use "
      "fewer rows or --threads 1\n");
}

/// An exception inside a parallel loop of a library ends here, as none can leave such a loop.
[[noreturn]] void on_terminate() {
  try {
    if (const auto problem = std::current_exception()) std::rethrow_exception(problem);
  } catch (const std::bad_alloc&) {
    leave(kNoMemory);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "kedge: %s\n", problem.what());
  } catch (...) {
    std::fputs("kedge: an unknown exception\n", stderr);
  }
  std::abort();
}

/// Their pages stay untouched until they are used, and OpenBLAS keeps them for its next product.
void take_buffers(std::size_t count) {
  if (blas_memory_alloc == nullptr || blas_memory_free == nullptr) return;
  std::array<void*, kMostThreads> buffers{};  // beyond which OpenBLAS prints a warning
  count = std::min(count, buffers.size());
  for (std::size_t i = 0; i < count; ++i) buffers[i] = blas_memory_alloc(0);
  for (std::size_t i = 0; i < count; ++i) blas_memory_free(buffers[i]);
}

/// A stack that cannot grow is a crash; so it grows while it can.
[[gnu::noinline]] void take_stack() {
  std::array<volatile char, kStack> pages;
  for (std::size_t i = 0; i < pages.size(); i += 4096) pages[i] = 0;
}

/// A result would be opened in the place of a stream that is closed, and messages written into it.
void open_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // The lowest number that is free, which is this one.
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF) [[maybe_unused]]
      const int opened = ::open("/dev/null", O_RDWR);
  }
}

/// Starts so many at once, as the number of processes may be limited too.
void require_threads(unsigned count) {
  const auto refuse = [&](std::string_view why) {
    throw Error(Code::failed, fmt::format("cannot start {} threads: {}; give --threads a smaller number", count, why));
  };
  if (!has_room_for(std::min<std::size_t>(count, kMostThreads))) refuse("they need more memory than is available");
  std::promise<void> enough;
  const std::shared_future<void> end = enough.get_future().share();
  std::vector<std::jthread> trial;
  try {
    for (unsigned i = 1; i < count; ++i) trial.emplace_back([end] { end.wait(); });
  } catch (const std::system_error& problem) {
    enough.set_value();
    refuse(problem.code().message());
  } catch (...) {
    enough.set_value();  // else those that wait would never end
    throw;
  }
  enough.set_value();
}

}  // namespace

void prepare_libraries() {
  open_streams();
  if (interrupts_ignored_at_start) std::signal(SIGINT, SIG_IGN);
  std::set_terminate(on_terminate);
  [[maybe_unused]] const int registered = std::atexit(speak_for_libraries);
  if (stack_size() >= 4 * kStack) take_stack();
  take_buffers(buffers_of(threads()));
}

void leave_in_order() {
  in_order = true;
}

void use_threads(unsigned count) {
  const bool more = count > threads() && count <= kThreadsLimit;  // set_threads() refuses others
  if (more) require_threads(count);
  set_threads(count);
  if (more) take_buffers(buffers_of(count));
}

}  // namespace kedge::cli
