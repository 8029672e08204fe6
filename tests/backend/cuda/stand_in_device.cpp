#include "tests/backend/cuda/stand_in_device.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
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
  const std::lock_guard lock(mutex_);
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
  if (listener_) listener_->allocated(memory, bytes);
  return memory;
}

void StandInDevice::free(void* memory) {
  if (listener_) listener_->released(memory);
  memory_.erase(memory);
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
  queue({.kind = QueuedWork::Kind::kernel, .name = function.body, .stream = stream},
        launcher->second(arguments[0], shape));
}

void StandInDevice::add(int stream, Work work) {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(stream);
  if (!capturing_) return queues_[index].push_back(std::move(work));
  if (work.waits && capturing_->stream_of_moment.count(*work.waits))
    capturing_->members.insert(stream);
  if (!capturing_->members.count(stream))
    return violate(fmt::format("stream {} works during a capture and is no part of it", stream));
  if (work.marks) capturing_->stream_of_moment[*work.marks] = stream;
  capturing_->queues[index].push_back(std::move(work));
}

void StandInDevice::queue(QueuedWork work, std::function<void()> run) {
  work.captured = is_capturing();
  if (listener_) run = listener_->queued(work, std::move(run));
  const auto once = [run = std::move(run)] {
    run();
    return true;
  };
  add(work.stream, {.run = once, .marks = {}, .waits = {}});
}

void StandInDevice::queue_in_chain(const void* chain, int stream, std::function<bool()> run) {
  const std::lock_guard lock(mutex_);
  const auto last = chains_.find(chain);
  if (last != chains_.end() && last->second.stream != stream)
    add(stream, {.run = {}, .marks = {}, .waits = last->second.moment});
  chains_[chain] = {stream, ++moments_};
  add(stream, {.run = std::move(run), .marks = moments_, .waits = {}});
}

void StandInDevice::record(int event, int stream) {
  const std::lock_guard lock(mutex_);
  moment_of_event_[event] = ++moments_;
  add(stream, {.run = {}, .marks = moments_, .waits = {}});
}

void StandInDevice::wait(int event, int stream) {
  const std::lock_guard lock(mutex_);
  const auto moment = moment_of_event_.find(event);
  if (moment == moment_of_event_.end())
    return violate(fmt::format("event {} is waited for before it was ever recorded", event));
  if (capturing_ && !capturing_->stream_of_moment.count(moment->second))
    return violate(fmt::format("event {} is of no part of the capture", event));
  add(stream, {.run = {}, .marks = {}, .waits = moment->second});
}

StandInDevice::Progress StandInDevice::advance(Queues& queues, std::set<int>& marked) {
  const auto may_go = [&](const std::deque<Work>& queue) {
    return !queue.empty() && (!queue.front().waits || marked.count(*queue.front().waits));
  };
  bool waits = false;
  for (bool moved = true; moved;) {
    moved = waits = false;
    for (std::size_t i = 0; i < queues.size() && !moved; ++i) {
      std::deque<Work>& queue = queues[haste_ == Haste::first_streams ? i : queues.size() - 1 - i];
      if (!may_go(queue)) continue;
      Work& work = queue.front();
      if (work.run && !work.run()) {
        waits = true;
        continue;
      }
      if (work.marks) marked.insert(*work.marks);
      queue.pop_front();
      moved = true;
    }
  }
  if (waits) return Progress::waits_for_others;
  const bool ended = std::ranges::all_of(queues, [](const auto& queue) { return queue.empty(); });
  if (!ended) violate("streams wait for each other for ever");
  return ended ? Progress::ended : Progress::stuck;
}

void StandInDevice::synchronize(int stream) {
  constexpr useconds_t interval_us = 50;
  for (auto progress = Progress::waits_for_others; progress == Progress::waits_for_others;) {
    {
      const std::lock_guard lock(mutex_);
      if (capturing_) violate(fmt::format("stream {} is waited for during a capture", stream));
      const OpenFence open;
      progress = advance(queues_, marked_);
    }
    if (progress == Progress::waits_for_others) ::usleep(interval_us);
  }
}

bool StandInDevice::has_come(int event) {
  const std::lock_guard lock(mutex_);
  const OpenFence open;
  advance(queues_, marked_);
  const auto moment = moment_of_event_.find(event);
  return moment == moment_of_event_.end() || marked_.count(moment->second);
}

bool StandInDevice::is_capturing() {
  const std::lock_guard lock(mutex_);
  return capturing_.has_value();
}

void StandInDevice::begin_capture(int stream) {
  if (listener_) listener_->begin_capture();
  chains_.clear();
  capturing_ = Capturing{.origin = stream, .queues = {}, .members = {stream}};
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
  chains_.clear();
  return joined && !refuses_graphs_ ? graph : nullptr;
}

void StandInDevice::instantiated() const {
  if (listener_) listener_->instantiated();
}

void StandInDevice::launch(const std::shared_ptr<Graph>& graph, int stream) {
  const int launch = listener_ ? listener_->graph_launched() : 0;
  auto run = [this, launch, queues = graph->queues, marked = std::set<int>()]() mutable {
    if (listener_) listener_->replays(launch);
    return advance(queues, marked) != Progress::waits_for_others;
  };
  add(stream, {.run = std::move(run), .marks = {}, .waits = {}});
}

}  // namespace shardscope::test
