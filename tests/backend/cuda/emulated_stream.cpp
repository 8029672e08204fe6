#include "tests/backend/cuda/emulated_stream.h"

#include <fmt/format.h>
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace shardscope::test {
namespace {

constexpr std::size_t stack_bytes = 64 << 10;

/// Behind the shared memory: a kernel that writes beyond it is found out.
constexpr std::size_t guard_bytes = 256;
constexpr std::byte canary{0xA5};

}  // namespace

/// The coroutines of one block.
class EmulatedBlock {
 public:
  EmulatedBlock(const cuda::LaunchShape& shape, const std::function<void(EmulatedThread)>& body)
      : shape_(shape),
        body_(body),
        shared_(static_cast<std::size_t>(shape.shared_bytes) + guard_bytes),
        threads_(static_cast<std::size_t>(shape.threads)),
        exchanged_(threads_.size()) {
    for (Coroutine& thread : threads_) thread.stack.resize(stack_bytes);
  }

  void run(std::int64_t block) {
    block_ = block;
    // As on a device, nothing is known of what stands there.
    std::fill(shared_.begin(), shared_.end() - guard_bytes, std::byte{0xFF});
    std::fill(shared_.end() - guard_bytes, shared_.end(), canary);
    for (std::size_t i = 0; i < threads_.size(); ++i) start(i);
    std::size_t running = threads_.size();
    while (running > 0) {
      moved_ = false;
      for (current_ = 0; current_ < threads_.size(); ++current_) {
        Coroutine& thread = threads_[current_];
        if (thread.done || !may_go(current_)) continue;
        moved_ = true;
        resume(thread);
        running -= thread.done ? 1 : 0;
      }
      if (!moved_ && running > 0)
        throw std::logic_error("threads of a block wait at different places");
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
    if (_setjmp(mine.place) == 0) _longjmp(scheduler_, 1);
  }

  double& exchanged(int thread) { return exchanged_[static_cast<std::size_t>(thread)]; }

 private:
  struct Coroutine {
    ucontext_t context;  ///< where it starts
    jmp_buf place;       ///< where it waits
    bool started = false;
    std::vector<std::byte> stack;
    std::int64_t syncs = 0, shuffles = 0;
    Among waits_for = Among::nobody;
    bool done = false;
  };

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
                       threads_.begin() + static_cast<std::ptrdiff_t>(end), [&](Coroutine& other) {
                         return other.done || arrivals(other, thread.waits_for) >= mine;
                       });
  }

  /// Jumps, where swapcontext would ask the kernel for the signal mask each time.
  void resume(Coroutine& thread) {
    if (_setjmp(scheduler_) != 0) return;
    if (thread.started) _longjmp(thread.place, 1);
    thread.started = true;
    setcontext(&thread.context);
  }

  void start(std::size_t index) {
    Coroutine& thread = threads_[index];
    thread.syncs = thread.shuffles = 0;
    thread.waits_for = Among::nobody;
    thread.done = thread.started = false;
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.data();
    thread.context.uc_stack.ss_size = thread.stack.size();
    thread.context.uc_link = nullptr;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&thread.context, reinterpret_cast<void (*)()>(&EmulatedBlock::enter), 3,
                static_cast<unsigned>(self >> 32), static_cast<unsigned>(self),
                static_cast<unsigned>(index));
  }

  /// makecontext passes ints only.
  static void enter(unsigned high, unsigned low, unsigned index) {
    auto* block = reinterpret_cast<EmulatedBlock*>((static_cast<std::uintptr_t>(high) << 32) | low);
    block->body_(EmulatedThread(*block, static_cast<int>(index)));
    block->threads_[index].done = true;
    _longjmp(block->scheduler_, 1);
  }

  cuda::LaunchShape shape_;
  const std::function<void(EmulatedThread)>& body_;
  std::vector<std::byte> shared_;
  std::vector<Coroutine> threads_;
  std::vector<double> exchanged_;
  jmp_buf scheduler_;
  std::size_t current_ = 0;
  std::int64_t block_ = 0;
  bool moved_ = false;
};

std::int64_t EmulatedThread::block() const { return block_->block(); }
std::int64_t EmulatedThread::blocks() const { return block_->shape().blocks; }
int EmulatedThread::count() const { return block_->shape().threads; }
std::byte* EmulatedThread::shared_memory() const { return block_->shared(); }
void EmulatedThread::sync() { block_->wait(index_, EmulatedBlock::Among::block); }

void EmulatedThread::exchange(const void* mine, void* other, std::size_t bytes, int mask) {
  std::memcpy(&block_->exchanged(index_), mine, bytes);
  block_->wait(index_, EmulatedBlock::Among::warp);
  std::memcpy(other, &block_->exchanged(index_ ^ mask), bytes);
  block_->wait(index_, EmulatedBlock::Among::warp);
}

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
                         const std::function<void(EmulatedThread)>& body) const {
  EmulatedBlock block(shape, body);
  for (std::int64_t i = 0; i < shape.blocks; ++i) block.run(i);
}

}  // namespace shardscope::test
