#include "backend/profile/nccl_events.h"

#include <cstring>
#include <string_view>

#include "backend/profile/nccl_profiler_abi.h"

namespace shardscope {
namespace {

/// A handle: what it is, the window it is of, and an operation's or a record's number.
enum class Kind : std::uint64_t { call = 1, collective, proxy_operation, proxy_step };
constexpr int kind_bits = 3;
constexpr int number_bits = 32;

NcclEventHandle handle_of(Kind kind, std::uint64_t number, std::uint64_t window) {
  return (window << (kind_bits + number_bits)) | (number << kind_bits) |
         static_cast<std::uint64_t>(kind);
}
Kind kind_of(NcclEventHandle handle) { return static_cast<Kind>(handle & ((1u << kind_bits) - 1)); }
std::uint32_t number_of(NcclEventHandle handle) {
  return static_cast<std::uint32_t>(handle >> kind_bits);
}
std::uint64_t window_of(NcclEventHandle handle) { return handle >> (kind_bits + number_bits); }

/// The same event one level further down.
NcclEventHandle below(NcclEventHandle parent, Kind kind) {
  return handle_of(kind, number_of(parent), window_of(parent));
}

template <std::size_t Size>
void copy_text(std::array<char, Size>& to, const char* from) {
  if (from != nullptr) std::strncpy(to.data(), from, Size - 1);
}

bool is_open(std::uint32_t window) { return window % 2 == 1; }

/// Outside of windows, too: a collective in a graph keeps the mask of its capture (2.28
/// src/enqueue.cc), and replays are what windows see.
constexpr int wanted_events = nccl_profiler::collective_call | nccl_profiler::collective |
                              nccl_profiler::proxy_operation | nccl_profiler::proxy_step;

}  // namespace

void NcclEvents::prepare(std::size_t operations, std::size_t capacity) {
  collectives_ = {};
  collectives_.reserve(capacity);
  capacity_ = capacity;
  dropped_ = 0;
  choices_ = std::make_unique<Choice[]>(operations);
  operations_ = operations;
  window_ = 0;
}

void NcclEvents::open_window() {
  const std::lock_guard lock(mutex_);
  collectives_.clear();
  dropped_ = 0;
  ++window_;
}

void NcclEvents::close_window() {
  const std::lock_guard lock(mutex_);
  ++window_;
}

std::vector<NcclCollective> NcclEvents::collectives() const {
  const std::lock_guard lock(mutex_);
  return collectives_;
}

std::int64_t NcclEvents::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

CollectiveChoice NcclEvents::choice_of(OperationId operation) const {
  if (operation.value >= operations_) return {};
  const Choice& choice = choices_[operation.value];
  if (choice.state.load(std::memory_order_acquire) != Choice::known) return {};
  return {choice.algorithm.data(), choice.protocol.data(), choice.channels};
}

/// All communicators are given the same mask: NCCL has one.
void NcclEvents::communicator_made(Interface interface, int* activation_mask) {
  interface_ = interface;
  std::atomic_ref<int>(*activation_mask).store(wanted_events);
}

NcclEventHandle NcclEvents::call() const {
  const std::uint32_t operation = operation_.load(std::memory_order_relaxed);
  return operation == OperationId::none_value ? 0 : handle_of(Kind::call, operation, 0);
}

/// NCCL hands the collective on to another thread, which may lag; a graph brings it again without
/// a call. So the call's word goes before the operation that is current.
NcclEventHandle NcclEvents::collective(NcclEventHandle parent, const Call& call) {
  const OperationId operation{kind_of(parent) == Kind::call
                                  ? number_of(parent)
                                  : operation_.load(std::memory_order_relaxed)};
  if (operation.value < operations_) note_choice(operation, call);
  if (!is_open(window_)) return 0;
  const std::lock_guard lock(mutex_);
  if (!is_open(window_)) return 0;  // closed while we waited
  if (collectives_.size() >= capacity_) {
    ++dropped_;
    return 0;
  }
  collectives_.push_back({.operation = operation,
                          .step = step_.load(std::memory_order_relaxed),
                          .sequence = call.sequence});
  return handle_of(Kind::collective, collectives_.size() - 1, window_);
}

void NcclEvents::note_choice(OperationId operation, const Call& call) {
  Choice& choice = choices_[operation.value];
  int state = Choice::unknown;
  if (!choice.state.compare_exchange_strong(state, Choice::being_written)) return;
  copy_text(choice.algorithm, call.algorithm);
  copy_text(choice.protocol, call.protocol);
  choice.channels = call.channels;
  choice.state.store(Choice::known, std::memory_order_release);
}

NcclEventHandle NcclEvents::proxy_operation(NcclEventHandle parent) const {
  return kind_of(parent) == Kind::collective ? below(parent, Kind::proxy_operation) : 0;
}

NcclEventHandle NcclEvents::proxy_step(NcclEventHandle parent) {
  if (kind_of(parent) != Kind::proxy_operation) return 0;
  if (window_of(parent) != window_) return 0;
  const std::lock_guard lock(mutex_);
  if (NcclCollective* collective = collective_of(parent)) ++collective->network_steps;
  return below(parent, Kind::proxy_step);
}

void NcclEvents::transferred(NcclEventHandle step, Bytes bytes, bool is_sent) {
  if (kind_of(step) != Kind::proxy_step || window_of(step) != window_) return;
  const std::lock_guard lock(mutex_);
  NcclCollective* collective = collective_of(step);
  if (collective == nullptr) return;
  (is_sent ? collective->sent : collective->received) += bytes;
}

NcclCollective* NcclEvents::collective_of(NcclEventHandle handle) {
  const std::size_t place = number_of(handle);
  if (window_of(handle) != window_ || place >= collectives_.size()) return nullptr;
  return &collectives_[place];
}

NcclEvents& nccl_events() {
  // Never destroyed: NCCL's threads outlive what main has made.
  static NcclEvents& events = *new NcclEvents;
  return events;
}

}  // namespace shardscope
