// Training steps under the caching allocator.
#include <algorithm>
#include <map>
#include <optional>

#include "core/pytorch/engine/engine.h"
#include "core/pytorch/runtimes/record/schedule_recorder.h"
#include "sim/engine/program_player.h"
#include "tests/recordings/allocator.h"
#include "tests/recordings/json_difference.h"
#include "tests/recordings/recorded_step.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

struct Figure {
  std::string name;
  Gauge AllocatorStatistics::*gauge;
};
const std::vector<Figure>& figures() {
  static const std::vector<Figure> all{
      {"allocated_bytes", &AllocatorStatistics::allocated_bytes},
      {"active_bytes", &AllocatorStatistics::active_bytes},
      {"requested_bytes", &AllocatorStatistics::requested_bytes},
      {"reserved_bytes", &AllocatorStatistics::reserved_bytes},
      {"inactive_split_bytes", &AllocatorStatistics::inactive_split_bytes}};
  return all;
}

Json figures_of(const AllocatorStatistics& statistics, std::int64_t Gauge::*which) {
  Json row = Json::object();
  for (const Figure& f : figures()) row[f.name] = (statistics.*f.gauge).*which;
  return row;
}

/// Python's frames when a request fails: where the recorder looks at the figures, the traceback
/// still holds the variables of the forward's functions. In a backward all of the engine's have
/// gone. Two observers around the program's.
class FramesAtFailure {
 public:
  explicit FramesAtFailure(eager::Session& s) : s_(s) {}
  ~FramesAtFailure() { clear(); }

  eager::Observer& before() { return before_; }
  eager::Observer& after() { return after_; }
  /// The exception has been handled.
  void clear() { s_.held_by_frames.reset(); }

 private:
  struct Before : eager::Observer {
    void on_operator(eager::Session& s, const eager::OperatorCall&) override { begin(s); }
    void on_storage_resized(eager::Session& s, eager::StorageImpl&, Bytes) override { begin(s); }
    static void begin(eager::Session& s) {
      if (!s.engine().running()) s.held_by_frames.emplace();
    }
  };
  struct After : eager::Observer {
    void on_operator(eager::Session& s, const eager::OperatorCall&) override {
      s.held_by_frames.reset();
    }
    void on_storage_resized(eager::Session& s, eager::StorageImpl&, Bytes) override {
      s.held_by_frames.reset();
    }
  };

  eager::Session& s_;
  Before before_;
  After after_;
};

/// torch.OutOfMemoryError in the middle of a run.
struct OutOfMemoryStop {};

/// One run of a case, with or without workspaces of the matrix products.
class StepRun final : private eager::ProgramListener {
 public:
  StepRun(const Json& settings, bool workspaces)
      : settings_(settings),
        session_(step_session(false)),
        allocator_(parse_allocator_settings(settings.at("conf").get<std::string>(), "conf"),
                   {.total{static_cast<std::int64_t>(settings.at("mem_gib").get<double>() *
                                                     1073741824.0)}},
                   events()),
        recorder_({.blas_workspaces = workspaces}),
        player_({.schedule = recorder_.schedule(), .allocator = &allocator_, .device = events()}),
        frames_(session_) {
    if (settings.at("trace").get<bool>() && workspaces) allocator_.keep_trace();
    session_.observe(frames_.before());
    session_.observe(recorder_);
    session_.observe(frames_.after());
    recorder_.listen(*this);
  }

  Json play() {
    Json result = Json::object();
    std::optional<RecordedStep> step;
    try {
      step.emplace(session_, settings_);
      note_init(result);
      for (iteration_ = 1; iteration_ <= settings_.at("iters").get<int>(); ++iteration_)
        iterate(*step, result);
    } catch (const OutOfMemoryStop&) {
      recorder_.catch_up();
      player_.unwind();
      note_failure(result);
      frames_.clear();
    }
    if (step) step->loop().finish();
    if (player_.failed())
      player_.unwind();
    else
      catch_up();
    note_end(result);
    return result;
  }

 private:
  void on_program(const Schedule& so_far) override {
    const auto end = static_cast<std::uint32_t>(so_far.program.actions.size());
    if (!player_.failed() && !player_.play_until(end)) throw OutOfMemoryStop();
  }

  void catch_up() {
    recorder_.catch_up();
    on_program(recorder_.schedule());
  }

  DeviceEvents& events() {
    if (settings_.at("lag") != 0) return host_bound_;
    return instant_;
  }

  void note_init(Json& result) {
    catch_up();
    if (settings_.at("empty_cache_after_init").get<bool>()) allocator_.empty_cache();
    result["iterations"] = Json::array();
    result["after_init"] = figures_of(allocator_.statistics(), &Gauge::current);
  }

  void note_failure(Json& result) {
    const FailedRequest& failed = *player_.failed();
    const OutOfMemory& failure = failed.failure;
    result["out_of_memory"] = {{"iteration", iteration_},
                               {"phase", phase_},
                               {"at_failure", figures_of(allocator_.statistics(), &Gauge::current)},
                               {"num_alloc_retries", failure.statistics.retries},
                               {"message", message_of(failure)}};
  }

  /// What follows a moment.
  std::string phase_after(eager::Moment moment, int batch) const {
    using enum eager::Moment;
    const bool last = batch + 1 == settings_.at("accum").get<int>();
    if (moment == start) return iteration_ == 1 ? "init" : "zero_grad";
    if (moment == backward && !last) return "backward";
    if (moment == backward && !settings_.at("clip").is_null()) return "clip";
    static const std::map<eager::Moment, std::string> phases{
        {micro_batch, "forward"}, {forward, "loss"},   {loss, "backward"},      {backward, "step"},
        {clip, "step"},           {step, "zero_grad"}, {zero_grad, "zero_grad"}};
    return phases.at(moment);
  }

  void iterate(RecordedStep& step, Json& result) {
    Json snapshots = Json::object();
    step.loop().iteration([&](eager::Moment moment, int micro_batch) {
      catch_up();
      phase_ = phase_after(moment, micro_batch);
      if (moment == eager::Moment::start)
        allocator_.reset_peaks();
      else if (moment != eager::Moment::micro_batch)
        snapshots[snapshot_name(settings_, moment, micro_batch)] =
            figures_of(allocator_.statistics(), &Gauge::current);
    });
    const AllocatorStatistics& s = allocator_.statistics();
    result["iterations"].push_back({{"snapshots", snapshots},
                                    {"peak", figures_of(s, &Gauge::peak)},
                                    {"small_pool_reserved_peak", s.reserved_by_pool[0].peak},
                                    {"large_pool_reserved_peak", s.reserved_by_pool[1].peak},
                                    {"segments_peak", s.segments.peak},
                                    {"num_alloc_retries", s.retries},
                                    {"num_ooms", s.out_of_memories},
                                    {"num_device_alloc", s.device_allocations},
                                    {"num_device_free", s.device_frees}});
  }

  int number_of(DeviceStream stream) {
    return numbers_.emplace(stream.value, static_cast<int>(numbers_.size())).first->second;
  }

  /// Streams are numbered in the order of the segments' addresses: the recorder's device places
  /// every segment below the ones before it.
  void note_end(Json& result) {
    std::vector<SegmentSnapshot> segments = allocator_.segments();
    std::stable_sort(segments.begin(), segments.end(),
                     [](const auto& a, const auto& b) { return a.number > b.number; });
    Json by_stream = Json::object();
    for (const SegmentSnapshot& segment : segments) {
      Json& row = by_stream[std::to_string(number_of(segment.stream))];
      if (row.is_null()) row = {{"segments", 0}, {"reserved", 0}, {"allocated", 0}};
      row["segments"] = row["segments"].get<int>() + 1;
      row["reserved"] = row["reserved"].get<std::int64_t>() + segment.size.count;
      for (const BlockSnapshot& block : segment.blocks)
        if (block.state == BlockState::allocated)
          row["allocated"] = row["allocated"].get<std::int64_t>() + block.size.count;
    }
    result["reserved_by_stream_at_end"] = by_stream;
    result["trace"] =
        trace_rows(allocator_.trace(), [this](DeviceStream stream) { return number_of(stream); });
  }

  const Json& settings_;
  InstantDevice instant_;
  HostBoundDevice host_bound_;
  eager::Session session_;
  CachingAllocator allocator_;
  eager::ScheduleRecorder recorder_;
  ProgramPlayer player_;
  FramesAtFailure frames_;
  std::map<std::uint32_t, int> numbers_{{0, 0}};
  int iteration_ = 0;
  std::string phase_ = "init";
};

/// The order of keys is none of the figures: streams appear in the order of addresses.
Json by_key(const Json& value) { return Json::parse(nlohmann::json(value).dump()); }

Json played(const Json& recorded) {
  const Json settings = with_step_defaults(recorded.at("settings"));
  Json result = StepRun(settings, true).play();
  const Json bare = StepRun(settings, false).play();
  for (std::size_t i = 0; i < result["iterations"].size() && i < bare["iterations"].size(); ++i)
    result["iterations"][i]["peak_without_workspace"] = bare["iterations"][i]["peak"];
  return result;
}

}  // namespace

std::vector<std::string> allocator_steps_fields() {
  return {"after_init", "iterations", "out_of_memory", "reserved_by_stream_at_end", "trace"};
}

Outcome check_allocator_steps(const Json& recorded, const Options& options) {
  const Json got = played(recorded);
  for (const std::string& field : allocator_steps_fields()) {
    if (options.leaves_out(field) || !recorded.contains(field)) continue;
    const std::string difference =
        json_difference(field, by_key(recorded.at(field)), by_key(got.value(field, Json())));
    if (!difference.empty()) return {.difference = difference, .worst_share = {}, .worst = {}};
  }
  return {};
}

}  // namespace shardscope::recordings
