#include "core/recording/recorded_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/pytorch/runtimes/record/program_writer.h"
#include "core/recording/event_log.h"
#include "core/recording/recorded_blocks.h"
#include "core/recording/recorded_names.h"
#include "core/recording/recorded_operator.h"
#include "core/recording/recorded_streams.h"
#include "core/recording/recorded_threads.h"
#include "core/recording/recorded_work.h"

namespace shardscope {
namespace {

/// Kernels that are benchmarked: what they allocate is the script's, what they launch is not.
bool counts_while_tuning(LogKind kind) {
  return kind == LogKind::alloc || kind == LogKind::free || kind == LogKind::uses ||
         kind == LogKind::purpose || kind == LogKind::group || kind == LogKind::communicator ||
         kind == LogKind::tuning || kind == LogKind::oom || kind == LogKind::segment_free ||
         kind == LogKind::malloc;
}

bool is_launch(LogKind kind) {
  return kind == LogKind::kernel || kind == LogKind::gemm || kind == LogKind::dnn;
}

class Reader {
 public:
  Reader(const std::filesystem::path& events, const RecordedPlace& place)
      : log_(events),
        schedule_(recording_.schedule),
        writer_(schedule_),
        names_(schedule_),
        threads_(log_, schedule_, names_),
        streams_(schedule_, writer_),
        blocks_(schedule_, writer_, names_, streams_, threads_),
        work_(log_, schedule_, writer_, names_, streams_, threads_) {
    schedule_.memory = MemorySource::caching_allocator;
    schedule_.world = place.world;
    schedule_.rank = place.rank;
    make_room();
  }

  Recording read() {
    while (log_.next())
      for (const LogLine& line : log_.lines()) {
        streams_.count_use(line);
        if (!log_.is_after_steps() && !is_left_out(line)) read_line(line);
        read_fact(line);
      }
    recording_.is_whole = log_.is_whole();
    end_step();
    streams_.finish();
    if (schedule_.operations.empty())
      throw Error(
          {.where = "recording",
           .what = "the command put nothing on a CUDA device",
           .way_out = "does the script use \"cuda\"? Run it with CUDA_VISIBLE_DEVICES unset",
           .code = ExitCode::no});
    if (schedule_.steps.empty()) make_one_step();
    blocks_.finish();
    recording_.kernels = work_.launches().all;
    recording_.unseen_kernels = work_.launches().of_no_operator;
    return std::move(recording_);
  }

 private:
  void read_line(const LogLine& line) {
    switch (line.kind) {
      case LogKind::node:
        has_passes_ = knows_passes_ = true;
        return threads_.begin(line);
      case LogKind::op:
        return threads_.begin(line);
      case LogKind::end:
        return work_.end(line);
      case LogKind::views:
        return work_.make_views(line);
      case LogKind::kernel:
      case LogKind::dnn:
        return work_.launch_kernel(line);
      case LogKind::gemm:
        return work_.launch_product(line);
      case LogKind::copy:
      case LogKind::set:
        return work_.copy(line);
      case LogKind::nccl:
        return work_.communicate(line);
      case LogKind::group:
        return work_.announce_group(line);
      case LogKind::communicator:
        return work_.make_communicator(line);
      case LogKind::alloc:
        return blocks_.allocate(line);
      case LogKind::free:
        return blocks_.free(line);
      case LogKind::uses:
        return blocks_.use(line);
      case LogKind::malloc:
      case LogKind::oom:
        return blocks_.tell_device(line);
      case LogKind::segment_free:
        return blocks_.give_back(line);
      case LogKind::purpose:
        return blocks_.tell_purpose(line);
      case LogKind::record:
        return streams_.record(line);
      case LogKind::wait:
        return streams_.wait(line);
      case LogKind::host_wait:
        return streams_.host_wait(line);
      case LogKind::sync:
        return streams_.synchronize(line);
      case LogKind::enter:
        if (schedule_.steps.empty()) begin_step();
        has_passes_ = knows_passes_ = true;
        return threads_.enter(line);
      case LogKind::leave:
        return threads_.leave(line);
      case LogKind::phase:
        return phase(line);
      case LogKind::tuning:
        return tuning(line);
      case LogKind::graph:
        return threads_.of(line.thread).play_graph(line.text(0) == "begin");
      case LogKind::unknown:
      case LogKind::invented:
      case LogKind::asked:
      case LogKind::torch:
      case LogKind::allocator:
      case LogKind::statistics:
      case LogKind::other:
        return;
    }
  }

  /// What holds of the whole process.
  void read_fact(const LogLine& line) {
    if (line.kind == LogKind::unknown) recording_.unknown.emplace_back(line.text(0));
    if (line.kind == LogKind::invented)
      recording_.invented.push_back(fmt::format("{}, read by {}",
                                                operator_name(log_.text(line.integer(0))),
                                                operator_name(log_.text(line.integer(1)))));
    if (line.kind == LogKind::asked && threads_.of(line.thread).tuning == 0)
      ++recording_.timed_answers;
    if (line.kind == LogKind::torch) recording_.torch = line.text(0);
    if (line.kind == LogKind::allocator) {
      recording_.allocator = line.text(0);
      blocks_.tell_settings(line);
    }
    if (line.kind == LogKind::statistics) statistics(line);
  }

  /// A rank uses one device; of several the one that it used most.
  void statistics(const LogLine& line) {
    const RecordedPeaks peaks{
        .allocated = bytes_in(line, 1), .active = bytes_in(line, 2), .reserved = bytes_in(line, 3)};
    if (!recording_.peaks || peaks.reserved > recording_.peaks->reserved) recording_.peaks = peaks;
  }

  void tuning(const LogLine& line) {
    int& depth = threads_.of(line.thread).tuning;
    const int change = line.text(0) == "begin" ? 1 : depth > 0 ? -1 : 0;
    depth += change;
    tuning_ += change;
  }

  bool is_left_out(const LogLine& line) {
    if (tuning_ == 0 || counts_while_tuning(line.kind) || threads_.of(line.thread).tuning == 0)
      return false;
    if (is_launch(line.kind)) ++recording_.tuning_kernels;
    return true;
  }

  void phase(const LogLine& line) {
    if (line.text(0) == "optimizer") return threads_.begin_optimizer();
    if (schedule_.steps.empty()) begin_step();
    // Optimizers that step one after another end one step.
    const bool has_passes = std::exchange(has_passes_, false);
    const bool is_further = !has_passes && knows_passes_ && !multiplies_outside_of_optimizers();
    if (is_further && schedule_.steps.size() > 1) take_into_step_before();
    end_step();
    begin_step();
    threads_.end_step();
  }

  void begin_step() {
    schedule_.steps.push_back({.label = std::to_string(schedule_.steps.size() + 1),
                               .operations = {writer_.next_operation(), writer_.next_operation()},
                               .actions = {writer_.next_action(), writer_.next_action()}});
  }

  /// Whether the step so far has products outside of optimizers: gradients computed by hand, and a
  /// CUDA graph of a log without its nodes.
  bool multiplies_outside_of_optimizers() const {
    const auto step =
        std::span(schedule_.operations).subspan(schedule_.steps.back().operations.begin);
    return std::ranges::any_of(step, [&](const Operation& op) {
      if (op.work == Operation::no_work || op.phase == Phase::optimizer) return false;
      return schedule_.works[op.work].kind == WorkKind::matmul;
    });
  }

  void take_into_step_before() {
    const IndexRange operations{schedule_.steps.back().operations.begin, writer_.next_operation()};
    schedule_.steps.pop_back();
    for (std::uint32_t i = operations.begin; i < operations.end; ++i)
      schedule_.operations[i].step = static_cast<std::int32_t>(schedule_.steps.size()) - 1;
  }

  void end_step() {
    if (schedule_.steps.empty()) return;
    Step& step = schedule_.steps.back();
    step.operations.end = writer_.next_operation();
    step.actions.end = writer_.next_action();
    if (step.actions.size() == 0) schedule_.steps.pop_back();
  }

  void make_one_step() {
    schedule_.steps.push_back({.label = "1",
                               .operations = {0, writer_.next_operation()},
                               .actions = {0, writer_.next_action()}});
  }

  /// Usual logs have a line of each for so many bytes. What is reserved and not used takes no
  /// memory.
  void make_room() {
    constexpr std::size_t bytes_of_operation = 200, bytes_of_buffer = 200, bytes_of_action = 20;
    schedule_.operations.reserve(log_.bytes() / bytes_of_operation);
    schedule_.buffers.reserve(log_.bytes() / bytes_of_buffer);
    schedule_.program.actions.reserve(log_.bytes() / bytes_of_action);
  }

  EventLog log_;
  Recording recording_;
  Schedule& schedule_;
  ProgramWriter writer_;
  RecordedNames names_;
  RecordedThreads threads_;
  RecordedStreams streams_;
  RecordedBlocks blocks_;
  RecordedWork work_;
  int tuning_ = 0;           ///< of all threads
  bool has_passes_ = false;  ///< a forward or a backward since the last optimizer's step
  bool knows_passes_ = false;
};

}  // namespace

Recording read_recording(const std::filesystem::path& events, const RecordedPlace& place) {
  return Reader(events, place).read();
}

}  // namespace shardscope
