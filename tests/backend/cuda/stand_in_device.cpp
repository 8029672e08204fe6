#include "tests/backend/cuda/stand_in_device.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "tests/backend/cuda/launch_record.h"

namespace shardscope::test {
namespace {

/// Body of "void shardscope::cuda::start<Body >(Body)".
std::string body_of(const std::string& function) {
  const std::size_t begin = function.rfind('(') + 1;
  return function.substr(begin, function.size() - begin - 1);
}

}  // namespace

StandInDevice& StandInDevice::get() {
  static StandInDevice device;
  return device;
}

void StandInDevice::note(std::string_view call, int stream, std::string detail) {
  calls_.push_back({std::string(call), stream, std::move(detail)});
}

int StandInDevice::make_stream() {
  if (!free_streams_.empty()) return free_streams_.extract(free_streams_.begin()).value();
  queues_.emplace_back();
  return static_cast<int>(queues_.size()) - 1;
}

void StandInDevice::end_stream(int stream) {
  queues_[static_cast<std::size_t>(stream)].clear();
  free_streams_.insert(stream);
}

void* StandInDevice::allocate(std::size_t bytes) {
  if (capturing_) violate("memory is allocated during a capture");
  std::unique_ptr<Arena> arena = fenced_.allocate({static_cast<std::int64_t>(bytes)});
  void* memory = arena->data();
  memory_[memory] = std::move(arena);
  return memory;
}

void StandInDevice::add_function(const void* host_function, const char* mangled) {
  functions_[host_function].body = body_of(demangled(mangled));
}

int StandInDevice::load(const void* host_function) {
  Function& function = functions_.at(host_function);
  function.loaded = true;
  return function.dynamic_shared_bytes;
}

void StandInDevice::launch(const void* host_function, void** arguments,
                           const cuda::LaunchShape& shape, int stream) {
  const Function& function = functions_.at(host_function);
  note(function.body, stream, fmt::format("{} x {}", shape.blocks, shape.threads));
  if (!function.loaded) violate(function.body + " is launched before it is loaded");
  if (shape.shared_bytes > function.dynamic_shared_bytes)
    violate(function.body + " is launched with more shared memory than it asked for");
  const auto launcher = launchers_.find(function.body);
  if (launcher == launchers_.end()) return violate(function.body + " is nothing that was taught");
  queue(stream, launcher->second(arguments[0], shape));
}

void StandInDevice::add(int stream, Work work) {
  const auto index = static_cast<std::size_t>(stream);
  if (!capturing_) return queues_[index].push_back(std::move(work));
  if (work.waits && capturing_->stream_of_moment.count(*work.waits))
    capturing_->members.insert(stream);
  if (!capturing_->members.count(stream))
    return violate(fmt::format("stream {} works during a capture and is no part of it", stream));
  if (work.marks) capturing_->stream_of_moment[*work.marks] = stream;
  capturing_->queues[index].push_back(std::move(work));
}

void StandInDevice::queue(int stream, std::function<void()> run) {
  add(stream, {.run = std::move(run), .marks = {}, .waits = {}});
}

void StandInDevice::record(int event, int stream) {
  moment_of_event_[event] = ++moments_;
  add(stream, {.run = {}, .marks = moments_, .waits = {}});
}

void StandInDevice::wait(int event, int stream) {
  const auto moment = moment_of_event_.find(event);
  if (moment == moment_of_event_.end())
    return violate(fmt::format("event {} is waited for before it was ever recorded", event));
  if (capturing_ && !capturing_->stream_of_moment.count(moment->second))
    return violate(fmt::format("event {} is of no part of the capture", event));
  add(stream, {.run = {}, .marks = {}, .waits = moment->second});
}

void StandInDevice::drain(Queues& queues, std::set<int>& marked) {
  const auto may_go = [&](const std::deque<Work>& queue) {
    return !queue.empty() && (!queue.front().waits || marked.count(*queue.front().waits));
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t i = 0; i < queues.size() && !moved; ++i) {
      std::deque<Work>& queue = queues[haste_ == Haste::first_streams ? i : queues.size() - 1 - i];
      if (!may_go(queue)) continue;
      const Work work = std::move(queue.front());
      queue.pop_front();
      if (work.run) work.run();
      if (work.marks) marked.insert(*work.marks);
      moved = true;
    }
  }
  for (const auto& queue : queues)
    if (!queue.empty()) violate("streams wait for each other for ever");
}

void StandInDevice::synchronize(int stream) {
  if (capturing_) violate(fmt::format("stream {} is waited for during a capture", stream));
  const OpenFence open;
  drain(queues_, marked_);
}

void StandInDevice::begin_capture(int stream) {
  capturing_.emplace();
  capturing_->origin = stream;
  capturing_->members = {stream};
  capturing_->queues.resize(queues_.size());
}

/// Everything on every stream comes before the end of the one where the capture began.
bool StandInDevice::all_joined() const {
  // By stream: how much of its queue is known to come before.
  std::vector<std::size_t> before(capturing_->queues.size(), 0);
  std::vector<int> open{capturing_->origin};
  before[static_cast<std::size_t>(capturing_->origin)] =
      capturing_->queues[static_cast<std::size_t>(capturing_->origin)].size();
  while (!open.empty()) {
    const auto stream = static_cast<std::size_t>(open.back());
    open.pop_back();
    for (std::size_t i = 0; i < before[stream]; ++i) {
      const Work& work = capturing_->queues[stream][i];
      if (!work.waits) continue;
      const int from = capturing_->stream_of_moment.at(*work.waits);
      const auto& queue = capturing_->queues[static_cast<std::size_t>(from)];
      std::size_t upto = 0;
      while (queue[upto].marks != work.waits) ++upto;
      if (std::size_t& known = before[static_cast<std::size_t>(from)]; known < upto + 1) {
        known = upto + 1;
        open.push_back(from);
      }
    }
  }
  for (std::size_t i = 0; i < before.size(); ++i)
    if (before[i] < capturing_->queues[i].size()) return false;
  return true;
}

std::shared_ptr<StandInDevice::Graph> StandInDevice::end_capture() {
  const bool joined = all_joined();
  if (!joined) violate("a stream of the capture was not joined again");
  auto graph = std::make_shared<Graph>(Graph{std::move(capturing_->queues)});
  capturing_.reset();
  return joined && !refuses_graphs_ ? graph : nullptr;
}

void StandInDevice::launch(const std::shared_ptr<Graph>& graph, int stream) {
  queue(stream, [this, graph] {
    Queues queues = graph->queues;
    std::set<int> marked;
    drain(queues, marked);
  });
}

}  // namespace shardscope::test
