#include <fmt/format.h>

#include <map>

#include "core/pytorch/runtimes/record/schedule_recorder.h"
#include "sim/engine/program_player.h"
#include "tests/recordings/parallel.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;
using eager::Moment;
using eager::Tensor;

/// A collective's groups by the names of the mesh's axes, in the recorder's order.
Json groups_of(const eager::parallel::ParallelTraining& training, const eager::ProcessGroups& all) {
  const eager::parallel::DeviceMesh& mesh = training.mesh();
  Json groups = Json::object();
  for (const eager::parallel::MeshAxis& axis : mesh.axes())
    if (axis.size > 1) groups[axis.name] = mesh.group(axis.name).ranks.list();
  if (training.shard_group() && mesh.size("cp") > 1)
    groups["dp_shard_cp"] = training.shard_group()->ranks.list();
  if (const eager::parallel::DeviceMesh* experts = training.expert_mesh())
    for (const eager::parallel::MeshAxis& axis : experts->axes())
      if (axis.size > 1) groups[axis.name] = experts->group(axis.name).ranks.list();
  if (all.world().size() > 1) groups["world"] = all.world().ranks.list();
  return groups;
}

/// Of this rank, by number.
std::vector<int> stages_of(const eager::parallel::ParallelSettings& settings,
                           const eager::parallel::DeviceMesh& mesh) {
  std::vector<int> stages;
  const std::vector<int> ranks = rank_of_stages(eager::parallel::pipeline_setup_of(settings));
  for (std::size_t stage = 0; stage < ranks.size(); ++stage)
    if (ranks[stage] == mesh.group("pp").rank) stages.push_back(static_cast<int>(stage));
  return stages;
}

Json gauges(const AllocatorStatistics& s) {
  return {s.allocated_bytes.current, s.allocated_bytes.peak,   s.active_bytes.current,
          s.active_bytes.peak,       s.reserved_bytes.current, s.reserved_bytes.peak};
}

Json counts_of(const Json& rows) {
  Json counts = Json::object();
  for (const Json& row : rows) {
    const auto phase = row[6].get<std::string>();
    Json& count = counts[row[0].get<std::string>() + ":" + row[1].get<std::string>() + ":" +
                         phase.substr(0, phase.find(' '))];
    count = count.is_null() ? 1 : count.get<int>() + 1;
  }
  return counts;
}

/// One rank's run under the caching allocator, on a device on which everything takes no time.
class ParallelRun final : private eager::ProgramListener {
 public:
  ParallelRun(const Json& given, int rank)
      : session_({.attention = {.cudnn = false}}),
        allocator_({}, {.total{std::int64_t{80} << 30}}, device_),
        player_({.schedule = recorder_.schedule(), .allocator = &allocator_, .device = device_}),
        groups_(given.at("world").get<int>(), rank),
        clips_(!given.at("clip").is_null()),
        pipelined_(!given.at("schedule").is_null()) {
    session_.observe(recorder_);
    recorder_.listen(*this);
    training_.emplace(session_, groups_, parallel_settings(given));
    log_.emplace(groups_, groups_of(*training_, groups_));
    session_.observe(*log_);
    if (pipelined_) log_->name_stages(stages_of(parallel_settings(given), training_->mesh()));
  }

  Json result() {
    catch_up();
    Json result = Json::object();
    Json iterations = Json::array(), rows = Json::array(), counts = Json::array(),
         peaks = Json::array();
    for (int i = 0; i < 2; ++i) {
      iterations.push_back(iterate());
      rows.push_back(log_->take());
      counts.push_back(counts_of(rows.back()));
      const Json& last = iterations.back().at("after_zero_grad");
      peaks.push_back({{"allocated", last[1]}, {"active", last[3]}, {"reserved", last[5]}});
    }
    if (rows[0] == rows[1]) rows[1] = "as iteration 1";
    result["groups"] = log_->groups();
    note_sizes(result);
    result["counts"] = counts;
    result["peaks"] = peaks;
    result["collectives"] = rows;
    return result;
  }

 private:
  void on_program(const Schedule& so_far) override {
    player_.play_until(static_cast<std::uint32_t>(so_far.program.actions.size()));
  }

  void catch_up() {
    recorder_.catch_up();
    on_program(recorder_.schedule());
  }

  /// The recorder's name of a point, and the phase that begins there.
  struct Point {
    const char* snapshot;
    const char* phase;
  };
  static Point point_of(Moment moment) {
    static const std::map<Moment, Point> points{{Moment::start, {"start", "forward"}},
                                                {Moment::forward, {nullptr, "loss"}},
                                                {Moment::loss, {"after_forward", "backward"}},
                                                {Moment::backward, {"after_backward", "clip"}},
                                                {Moment::clip, {nullptr, "optimizer"}},
                                                {Moment::step, {"after_step", "precompute_scale"}},
                                                {Moment::zero_grad, {"after_zero_grad", ""}}};
    return points.at(moment);
  }

  Json iterate() {
    Json snapshots = Json::object();
    const auto watch = [&](const char* what, int stage, int micro_batch) {
      const std::string name(what);
      log_->stage(stage);
      log_->phase(name == "schedule" ? name : fmt::format("{} s{} m{}", name, stage, micro_batch));
    };
    const auto probe = [&](Moment moment, int) {
      catch_up();
      const Point point = point_of(moment);
      if (moment == Moment::start) allocator_.reset_peaks();
      if (point.snapshot) snapshots[point.snapshot] = gauges(allocator_.statistics());
      const bool steps_next = moment == Moment::backward && !clips_;
      log_->phase(steps_next                              ? "optimizer"
                  : pipelined_ && moment == Moment::start ? "schedule"
                                                          : point.phase);
    };
    training_->iteration(probe, watch);
    return snapshots;
  }

  void note_sizes(Json& result) {
    std::int64_t elements = 0, bytes = 0, states = 0;
    for (const Tensor& parameter : training_->parameters()) {
      elements += parameter.numel();
      bytes += parameter.bytes().count;
    }
    for (const Tensor& state : training_->optimizer_states()) states += state.bytes().count;
    result["parameters_local"] = elements;
    result["parameter_bytes_local"] = bytes;
    result["optimizer_state_bytes"] = states;
  }

  InstantDevice device_;
  eager::Session session_;
  CachingAllocator allocator_;
  eager::ScheduleRecorder recorder_;
  ProgramPlayer player_;
  eager::ProcessGroups groups_;
  bool clips_, pipelined_;
  std::optional<eager::parallel::ParallelTraining> training_;
  std::optional<ParallelLog> log_;
};

}  // namespace

Json parallel_result(const Json& given, int rank) { return ParallelRun(given, rank).result(); }

}  // namespace shardscope::recordings
