#include <algorithm>
#include <cctype>
#include <map>

#include "tests/recordings/parallel.h"

namespace shardscope::recordings {
namespace {

using Json = ParallelLog::Json;

std::string short_name(const eager::CollectiveCall& call) {
  if (const auto& float8 = call.inputs[0]->float8())
    return float8->format == "float8_e5m2" ? "fp8_e5m2" : "fp8_e4m3";
  static const std::map<Dtype, std::string> names{{Dtype::float32, "fp32"},
                                                  {Dtype::bfloat16, "bf16"},
                                                  {Dtype::float16, "fp16"},
                                                  {Dtype::float64, "fp64"}};
  const auto found = names.find(call.dtype);
  return found == names.end() ? std::string(shardscope::name_of(call.dtype)) : found->second;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

std::string name_of_kind(const eager::CollectiveCall& call) {
  if (call.kind == OperationKind::receive) return "recv";
  return std::string(shardscope::name_of(call.kind));
}

}  // namespace

std::string ParallelLog::name_of_group(GroupId group) {
  const Json ranks = all_.all()[group.value].ranks.list();
  for (const auto& [name, known] : groups_.items())
    if (known == ranks) return name;
  const std::string name = "g" + std::to_string(groups_.size());
  groups_[name] = ranks;
  return name;
}

std::string ParallelLog::name_of_module(const eager::Module* module) const {
  if (!module) return {};
  if (stages_.empty()) return module->name;
  const auto place = std::ranges::find(stages_, stage_) - stages_.begin();
  return std::to_string(place) + (module->name.empty() ? "" : ".") + module->name;
}

void ParallelLog::on_collective(eager::Session& s, const eager::CollectiveCall& call) {
  const bool functional = call.name.starts_with("_c10d_functional");
  const bool c10d = call.name.starts_with("c10d.");
  const eager::Module* module = s.current_module();
  std::string phase = phase_;
  if (phase.starts_with("backward") && module) phase = "recompute" + phase.substr(8);
  Json row{name_of_kind(call),
           name_of_group(call.group),
           short_name(call),
           call.elements_in,
           call.elements_out,
           functional || (c10d && call.asynchronous),
           phase,
           name_of_module(module),
           nullptr};
  Json more = Json::object();
  const std::string reduction = lower(call.reduction);
  if (!reduction.empty() && reduction != "sum") more["op"] = reduction;
  const bool to_one = call.kind == OperationKind::send || call.kind == OperationKind::receive;
  if (to_one) {
    row[5] = nullptr;
    more["peer"] = all_.all()[call.group.value].ranks[static_cast<std::size_t>(call.root)];
  }
  if (call.kind == OperationKind::broadcast)
    more["root"] = all_.all()[call.group.value].ranks[static_cast<std::size_t>(call.root)];
  if (c10d) more["c10d"] = 1;
  if (!more.empty()) row.push_back(more);
  rows_.push_back(std::move(row));
  if (!call.work) return;
  row_of_work_.resize(call.work.value + std::size_t{1});
  if (functional) row_of_work_[call.work.value] = rows_.size() - 1;
}

void ParallelLog::on_work_wait(eager::Session&, eager::WorkId work, eager::StreamId) {
  if (work.value >= row_of_work_.size() || !row_of_work_[work.value]) return;
  const std::size_t row = *row_of_work_[work.value];
  rows_[row][8] = rows_.size() - 1 - row;
}

Json ParallelLog::take() {
  row_of_work_.clear();
  return std::exchange(rows_, Json::array());
}

}  // namespace shardscope::recordings
