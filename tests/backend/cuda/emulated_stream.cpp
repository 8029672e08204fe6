#include "tests/backend/cuda/emulated_stream.h"

#include <fmt/format.h>
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <stdexcept>

#include "tests/backend/cuda/emulated_tensor_core.h"
#include "tests/sanitizers/fiber.h"

#ifdef __SANITIZE_ADDRESS__
// NOLINTNEXTLINE(bugprone-reserved-identifier, readability-identifier-naming)
extern "C" void __asan_unpoison_memory_region(const volatile void* begin, std::size_t bytes);
#endif

namespace shardscope::test {
namespace {

constexpr std::size_t stack_bytes = 64 << 10;

struct Stack {
  std::unique_ptr<std::byte[]> memory = std::make_unique_for_overwrite<std::byte[]>(stack_bytes);
  Fiber fiber = Fiber::fresh();
};

/// Kept from launch to launch: fresh pages cost more than most kernels.
Stack& stack_of(std::size_t thread) {
  static thread_local std::deque<Stack> stacks;
  while (stacks.size() <= thread) stacks.emplace_back();
  return stacks[thread];
}

/// Behind the shared memory: a kernel that writes beyond it is found out.
constexpr std::size_t guard_bytes = 256;
constexpr std::byte canary{0xA5};

}  // namespace

/// The coroutines of one block.
class EmulatedBlock {
 public:
  EmulatedBlock(const cuda::LaunchShape& shape, const std::function<void(EmulatedThread)>& body,
                EmulatedCounts& counts)
      : shape_(shape),
        body_(body),
        shared_(static_cast<std::size_t>(shape.shared_bytes) + guard_bytes),
        threads_(static_cast<std::size_t>(shape.threads)),
        slots_(2 * threads_.size() * slot_bytes),
        counts_(counts) {
    for (std::size_t i = 0; i < threads_.size(); ++i) threads_[i].stack = &stack_of(i);
  }

  void run(std::int64_t block) {
    block_ = block;
    // As on a device, nothing is known of what stands there.
    std::fill(shared_.begin(), shared_.end() - guard_bytes, std::byte{0xFF});
    std::fill(shared_.end() - guard_bytes, shared_.end(), canary);
    for (std::size_t i = 0; i < threads_.size(); ++i) start(i);
    running_ = threads_.size();
    while (running_ > 0) {
      const std::size_t warps = threads_.size() / cuda::warp_size;
      bool moved = false;
      for (std::size_t i = 0; i < warps; ++i) {
        const std::size_t warp = in_turn(i, warps);
        while (run_lanes(warp)) moved = true;
      }
      if (!moved) throw std::logic_error("threads of a block wait at different places");
    }
    for (std::size_t i = 0; i < guard_bytes; ++i) {
      if (shared_[shared_.size() - 1 - i] != canary)
        throw std::logic_error("written beyond the shared memory of the block");
    }
  }

  std::int64_t block() const { return block_; }
  const cuda::LaunchShape& shape() const { return shape_; }
  std::byte* shared() { return shared_.data(); }

  enum class Among : std::uint8_t { nobody, warp, block };

  /// Waits until all threads of the warp or block have come as often as this one.
  void wait(int thread, Among among) {
    Coroutine& mine = threads_[static_cast<std::size_t>(thread)];
    mine.waits_for = among;
    ++arrivals(mine, among);
    if (_setjmp(mine.place) == 0) return_to_scheduler();
  }

  using Together = EmulatedThread::Together;

  /// Every other exchange of a warp goes by the same slots, so that a slow lane still finds the
  /// last one's when a fast one publishes the next.
  const std::byte* publish(int thread, const void* mine, std::size_t bytes, Together what) {
    Coroutine& self = threads_[static_cast<std::size_t>(thread)];
    std::byte* half = slots_.data() + self.shuffles % 2 * (slots_.size() / 2);
    std::memcpy(half + thread * slot_bytes, mine, bytes);
    self.does = what;
    const int first = thread / cuda::warp_size * cuda::warp_size;
    wait(thread, Among::warp);
    for (int other = first; other < first + cuda::warp_size; ++other) {
      const Coroutine& lane = threads_[static_cast<std::size_t>(other)];
      if (lane.shuffles == self.shuffles && lane.does != what)
        throw std::logic_error("lanes of a warp do different things together");
    }
    return half + first * slot_bytes;
  }

  struct Copy {
    Bfloat16* to;
    const Bfloat16* from;
    bool present;
    std::int64_t group;
  };

  void begin_copy(int thread, Copy copy) {
    Coroutine& self = threads_[static_cast<std::size_t>(thread)];
    const auto on_16_bytes = [](const void* p) {
      return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
    };
    if (!on_16_bytes(copy.to) || !on_16_bytes(copy.from))
      throw std::logic_error("a copy that does not start on 16 bytes");
    copy.group = self.groups;
    self.copies.push_back(copy);
    if (runs_backwards()) land(copy);
  }
  void commit_copies(int thread) { ++threads_[static_cast<std::size_t>(thread)].groups; }
  void finish_copies(int thread, int but_groups) {
    Coroutine& self = threads_[static_cast<std::size_t>(thread)];
    while (!self.copies.empty() && self.copies.front().group < self.groups - but_groups) {
      if (!runs_backwards()) land(self.copies.front());
      self.copies.pop_front();
    }
  }
  EmulatedCounts& counts() { return counts_; }

 private:
  static constexpr std::ptrdiff_t slot_bytes = EmulatedThread::slot_bytes;

  struct Coroutine {
    ucontext_t context;  ///< where it starts
    jmp_buf place;       ///< where it waits
    bool started = false;
    Stack* stack = nullptr;
    std::int64_t syncs = 0, shuffles = 0;
    Among waits_for = Among::nobody;
    Together does = Together::shuffle;
    std::deque<Copy> copies;  ///< begun, and not come yet
    std::int64_t groups = 0;  ///< of copies, closed
    bool done = false;
  };

  /// A launch of one block does so every other time.
  bool runs_backwards() const { return (counts_.launches - 1 + block_) % 2 != 0; }

  /// The i-th of `count` warps or lanes to run.
  std::size_t in_turn(std::size_t i, std::size_t count) const {
    return runs_backwards() ? count - 1 - i : i;
  }

  static void land(const Copy& copy) {
    for (int i = 0; i < cuda::chunk_elements; ++i)
      copy.to[i] = copy.present ? copy.from[i] : Bfloat16{};
  }

  /// Lets each lane of a warp run until it waits; whether any could.
  bool run_lanes(std::size_t warp) {
    bool moved = false;
    for (std::size_t i = 0; i < cuda::warp_size; ++i) {
      const std::size_t index = warp * cuda::warp_size + in_turn(i, cuda::warp_size);
      Coroutine& thread = threads_[index];
      if (thread.done || !may_go(index)) continue;
      moved = true;
      resume(thread);
      if (failure_) std::rethrow_exception(failure_);
      running_ -= thread.done ? 1 : 0;
    }
    return moved;
  }

  static std::int64_t& arrivals(Coroutine& thread, Among among) {
    return among == Among::block ? thread.syncs : thread.shuffles;
  }

  bool may_go(std::size_t index) {
    Coroutine& thread = threads_[index];
    if (thread.waits_for == Among::nobody) return true;
    const bool block = thread.waits_for == Among::block;
    const std::size_t first = block ? 0 : index / cuda::warp_size * cuda::warp_size;
    const std::size_t end = block ? threads_.size() : first + cuda::warp_size;
    const std::int64_t mine = arrivals(thread, thread.waits_for);
    return std::all_of(threads_.begin() + static_cast<std::ptrdiff_t>(first),
                       threads_.begin() + static_cast<std::ptrdiff_t>(end),
                       [&](Coroutine& other) { return arrivals(other, thread.waits_for) >= mine; });
  }

  /// Jumps, where swapcontext would ask the kernel for the signal mask each time.
  void resume(Coroutine& thread) {
    if (_setjmp(scheduler_) != 0) return;
    thread.stack->fiber.enter();
    if (thread.started) _longjmp(thread.place, 1);
    thread.started = true;
    setcontext(&thread.context);
  }

  [[noreturn, gnu::always_inline]] void return_to_scheduler() {
    scheduler_fiber_.enter();
    _longjmp(scheduler_, 1);
  }

  void start(std::size_t index) {
    Coroutine& thread = threads_[index];
    thread.syncs = thread.shuffles = thread.groups = 0;
    thread.waits_for = Among::nobody;
    thread.done = thread.started = false;
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack->memory.get();
    thread.context.uc_stack.ss_size = stack_bytes;
    thread.context.uc_link = nullptr;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&thread.context, reinterpret_cast<void (*)()>(&EmulatedBlock::enter), 3,
                static_cast<unsigned>(self >> 32), static_cast<unsigned>(self),
                static_cast<unsigned>(index));
  }

  /// makecontext passes ints only. The thread sanitizer does not see this frame, which never ends:
  /// they would pile up in a fiber that is used again.
  [[gnu::no_sanitize_thread]] static void enter(unsigned high, unsigned low, unsigned index) {
    auto* block = reinterpret_cast<EmulatedBlock*>((static_cast<std::uintptr_t>(high) << 32) | low);
    try {
      block->body_(EmulatedThread(*block, static_cast<int>(index)));
      if (!block->threads_[index].copies.empty())
        throw std::logic_error("a thread ends before its copies have come");
    } catch (...) {
      block->failure_ = std::current_exception();  // of no use to who is not on this stack
#ifdef __SANITIZE_ADDRESS__
      // It does not know this stack, so it has not seen the frames go that the exception left.
      __asan_unpoison_memory_region(block->threads_[index].stack->memory.get(), stack_bytes);
#endif
    }
    block->threads_[index].done = true;
    block->return_to_scheduler();
  }

  cuda::LaunchShape shape_;
  const std::function<void(EmulatedThread)>& body_;
  std::vector<std::byte> shared_;
  std::vector<Coroutine> threads_;
  std::vector<std::byte> slots_;
  EmulatedCounts& counts_;
  std::exception_ptr failure_;  ///< of a thread
  jmp_buf scheduler_;
  Fiber scheduler_fiber_;
  std::size_t running_ = 0;
  std::int64_t block_ = 0;
};

std::int64_t EmulatedThread::block() const { return block_->block(); }
std::int64_t EmulatedThread::blocks() const { return block_->shape().blocks; }
int EmulatedThread::count() const { return block_->shape().threads; }
std::byte* EmulatedThread::shared_memory() const { return block_->shared(); }
void EmulatedThread::sync() { block_->wait(index_, EmulatedBlock::Among::block); }

const std::byte* EmulatedThread::publish(const void* mine, std::size_t bytes, Together what) {
  static_assert(sizeof(ProductOperands) <= slot_bytes && sizeof(MatrixRow) <= slot_bytes);
  return block_->publish(index_, mine, bytes, what);
}

cuda::Matrices EmulatedThread::load(const Bfloat16* row, Together how) {
  MatrixRow mine{.elements = {}, .address = reinterpret_cast<std::uintptr_t>(row)};
  if (mine.address % 16 != 0) throw std::logic_error("a row that does not start on 16 bytes");
  std::copy(row, row + cuda::chunk_elements, mine.elements);
  const Lanes<MatrixRow> warp{publish(&mine, sizeof mine, how), slot_bytes};
  if (lane() == 0) block_->counts().bank_conflicts += bank_conflicts(warp);
  return matrices_of(lane(), warp, how == Together::load_transposed);
}

void EmulatedThread::multiply_add(cuda::Accumulator& c, const cuda::Matrices& a, std::uint32_t b0,
                                  std::uint32_t b1) {
  const ProductOperands mine{a, {b0, b1}};
  const Lanes<ProductOperands> warp{publish(&mine, sizeof mine, Together::product), slot_bytes};
  if (lane() == 0) ++block_->counts().products;
  test::multiply_add(lane(), warp, c);
}

void EmulatedThread::copy_async(Bfloat16* to, const Bfloat16* from, bool present) {
  block_->begin_copy(index_, {to, from, present, 0});
}
void EmulatedThread::commit_copies() { block_->commit_copies(index_); }
void EmulatedThread::wait_for_copies(int groups) { block_->finish_copies(index_, groups); }

void EmulatedStream::check(const cuda::LaunchShape& shape, int most_threads,
                           std::size_t argument_bytes) const {
  const DeviceLimits limits;
  if (shape.blocks < 1 || shape.threads < 1 || shape.threads > most_threads ||
      shape.threads % cuda::warp_size != 0)
    throw std::logic_error(
        fmt::format("{} blocks of {} threads cannot be launched", shape.blocks, shape.threads));
  if (shape.shared_bytes > limits.shared_bytes_of_block)
    throw std::logic_error(
        fmt::format("{} B of shared memory are more than a block has", shape.shared_bytes));
  if (argument_bytes > static_cast<std::size_t>(limits.argument_bytes))
    throw std::logic_error(fmt::format("{} B of arguments are too many", argument_bytes));
}

void EmulatedStream::run(const cuda::LaunchShape& shape,
                         const std::function<void(EmulatedThread)>& body) {
  ++counts_.launches;
  EmulatedBlock block(shape, body, counts_);
  for (std::int64_t i = 0; i < shape.blocks; ++i) block.run(i);
}

}  // namespace shardscope::test
