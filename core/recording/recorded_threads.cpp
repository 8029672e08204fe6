#include "core/recording/recorded_threads.h"

#include <utility>

#include "core/recording/recorded_operator.h"

namespace shardscope {

RecordedThread& RecordedThreads::of(int thread) {
  // Lines of one thread follow each other.
  if (last_ == nullptr || last_number_ != thread) {
    last_ = &threads_[thread];
    last_number_ = thread;
  }
  return *last_;
}

std::uint32_t RecordedThreads::name_of_call(std::int64_t text, bool is_node) {
  const std::string_view written = log_.text(text);
  std::vector<std::optional<std::uint32_t>>& known = is_node ? node_names_ : operator_names_;
  known.resize(log_.texts());
  std::optional<std::uint32_t>& name = known[static_cast<std::size_t>(text)];
  if (!name) name = names_.name(is_node ? std::string(written) : operator_name(written));
  return *name;
}

void RecordedThreads::begin(const LogLine& line) {
  RecordedThread& thread = of(line.thread);
  const std::int64_t sequence = line.integer(2);
  const bool is_node = line.kind == LogKind::node;
  RunningCall one{.name = name_of_call(line.integer(0), is_node),
                  .inputs = line.integer(1),
                  .serial = ++begun_,
                  .is_node = is_node,
                  .owner = {},
                  .kernels = {}};
  if (one.is_node) {
    const auto known = owners_of_forward_.find(sequence);
    if (known != owners_of_forward_.end()) one.owner = known->second;
    has_backward_ = true;
    thread.is_autograds = line.thread != script_thread_;
  } else if (sequence >= 0 && !thread.modules.empty()) {
    owners_of_forward_[sequence] = thread.modules.back();
  }
  if (!thread.running.empty()) thread.running.back().has_inner = true;
  thread.last_begun = one.serial;
  thread.running.push_back(std::move(one));
}

void RecordedThreads::enter(const LogLine& line) {
  if (schedule_.owners.empty()) script_thread_ = line.thread;
  of(line.thread).modules.push_back(names_.owner(log_.text(line.integer(0))));
}

void RecordedThreads::leave(const LogLine& line) {
  RecordedThread& thread = of(line.thread);
  if (!thread.modules.empty()) thread.modules.pop_back();
}

void RecordedThreads::end_step() { is_optimizing_ = has_backward_ = false; }

Phase RecordedThreads::phase_of(const RecordedThread& thread) const {
  if (schedule_.steps.empty()) return Phase::init;
  if (is_optimizing_) return Phase::optimizer;
  if (thread.is_autograds) return Phase::backward;  // hooks between nodes, too
  for (const RunningCall& one : thread.running)
    if (one.is_node) return Phase::backward;
  if (!thread.modules.empty() || !has_backward_) return Phase::forward;
  return Phase::clip;
}

OwnerId RecordedThreads::owner_of(const RecordedThread& thread) {
  if (!thread.modules.empty()) return thread.modules.back();
  for (auto one = thread.running.rbegin(); one != thread.running.rend(); ++one)
    if (one->is_node) return one->owner;
  return {};
}

std::uint32_t RecordedThreads::name_of(const RecordedThread& thread) {
  return thread.running.empty() ? names_.name("outside of operators") : thread.running.back().name;
}

}  // namespace shardscope
