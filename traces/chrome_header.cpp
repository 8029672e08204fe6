#include "traces/chrome_header.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

namespace shardscope {
namespace {

class HeaderWriter {
 public:
  HeaderWriter(const Trace& trace, const GroupTable& groups,
               const std::vector<std::string>& quoted_names, const TextSink& sink)
      : trace_(trace), groups_(groups), quoted_names_(quoted_names), sink_(sink) {}

  void write() {
    text("{\n\"schemaVersion\": 1,\n");
    text(fmt::format("\"deviceProperties\": [{{\"id\": {}, \"name\": {}}}],\n", trace_.local_rank,
                     quoted_json(trace_.device)));
    write_distributed_info();
    write_own_header();
    text(fmt::format("\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": {},\n",
                     trace_.base_ns));
  }

 private:
  void text(std::string_view part) { sink_(part); }

  void write_distributed_info() {
    text(fmt::format(
        "\"distributedInfo\": {{\"backend\": \"shardscope\", \"rank\": {}, \"world_size\": {}, "
        "\"pg_count\": {}, \"pg_config\": [",
        trace_.rank, trace_.world, groups_.groups().size()));
    for (std::size_t i = 0; i < groups_.groups().size(); ++i) {
      const auto& [name, ranks] = groups_.groups()[i];
      text(fmt::format(
          "{}{{\"pg_name\": \"{}\", \"pg_desc\": {}, \"backend_config\": \"\", \"pg_size\": {}, "
          "\"ranks\": [{}]}}",
          i == 0 ? "" : ", ", i, quoted_json(name), ranks.size(), fmt::join(ranks.list(), ", ")));
    }
    text("]},\n");
  }

  void write_own_header() {
    text(fmt::format(
        "\"shardscope\": {{\"version\": 1, \"kind\": \"{}\", \"rank\": {}, \"world\": {}, "
        "\"local_rank\": {}, \"arena_bytes\": {}, \"device\": {},\n",
        name_of(trace_.kind), trace_.rank, trace_.world, trace_.local_rank, trace_.arena.count,
        quoted_json(trace_.device)));
    text("  \"tracks\": [");
    for (std::size_t i = 0; i < trace_.tracks.size(); ++i) {
      text(fmt::format("{}{{\"name\": {}, \"stream\": \"{}\"}}", i == 0 ? "" : ", ",
                       quoted_json(trace_.tracks[i].name), name_of(trace_.tracks[i].stream)));
    }
    text("],\n  \"names\": [");
    for (std::size_t i = 0; i < quoted_names_.size(); ++i)
      text((i == 0 ? "" : ", ") + quoted_names_[i]);
    text("],\n  \"groups\": [");
    for (std::size_t i = 0; i < groups_.groups().size(); ++i) {
      const auto& [name, ranks] = groups_.groups()[i];
      text(fmt::format("{}{{\"name\": {}, \"ranks\": [{}]}}", i == 0 ? "" : ", ", quoted_json(name),
                       fmt::join(ranks.list(), ", ")));
    }
    text("],\n  \"operations\": [");
    for (std::size_t i = 0; i < trace_.facts.size(); ++i) {
      text(i == 0 ? "\n    {" : ",\n    {");
      text(facts_fields(trace_.facts[i]));
      text("}");
    }
    text("],\n");
    write_recording();
    text("},\n");
  }

  static std::string text_list(const std::vector<std::string>& texts) {
    std::vector<std::string> quoted;
    for (const std::string& one : texts) quoted.push_back(quoted_json(one));
    return fmt::format("[{}]", fmt::join(quoted, ", "));
  }

  void write_recording() {
    const RecordingFacts& recording = trace_.recording;
    std::vector<std::string> counters;
    for (const Counter& counter : trace_.counters) counters.push_back(counter.name);
    std::vector<std::string> holders;
    for (const MemoryHolder& holder : recording.memory) holders.push_back(holder_fields(holder));
    text(fmt::format(
        "  \"counters\": {},\n  \"measures\": {},\n  \"recording\": {{\"clock\": {}, "
        "\"clock_residual_ns\": {}, \"dropped_records\": {}, \"notes\": {}, \"memory\": [{}]}}",
        text_list(counters), text_list(trace_.measures), quoted_json(recording.clock),
        recording.clock_residual ? fmt::to_string(recording.clock_residual->ns) : "null",
        recording.dropped_records, text_list(recording.notes), fmt::join(holders, ", ")));
  }

  static std::string holder_fields(const MemoryHolder& holder) {
    std::string fields = fmt::format("{{\"owner\": {}, \"place\": \"{}\"",
                                     quoted_json(holder.owner), name_of(holder.place));
    for (const auto& [key, bytes] : {std::pair{"planned_bytes", holder.planned},
                                     {"held_bytes", holder.held},
                                     {"recorded_bytes", holder.recorded}})
      if (bytes) fields += fmt::format(", \"{}\": {}", key, bytes->count);
    return fields + "}";
  }

  std::string facts_fields(const OperationFacts& facts) const {
    return fmt::format(
               "\"id\": {}, \"name\": {}, \"kind\": \"{}\", \"phase\": \"{}\", \"micro_batch\": "
               "{}, "
               "\"unit\": {}, \"bytes\": {}, "
               "\"flops\": {}, \"group\": {}, \"elements_in\": {}, \"elements_out\": {}, "
               "\"dtype\": "
               "\"{}\"",
               facts.operation.value, quoted_json(facts.name), name_of(facts.kind),
               name_of(facts.phase), facts.micro_batch, quoted_json(facts.unit), facts.bytes.count,
               facts.flops.count, groups_.index_of(facts), facts.elements_in, facts.elements_out,
               name_of(facts.dtype)) +
           name_field("module", facts.module) + name_field("shapes", facts.shapes) +
           way_field(facts.way) + choice_fields(facts.choice);
  }
  static std::string way_field(CopyWay way) {
    if (way == CopyWay::within) return {};
    return fmt::format(", \"way\": \"{}\"", name_of(way));
  }
  /// Nothing of what has no name.
  std::string name_field(std::string_view key, std::uint32_t name) const {
    if (name == OperationFacts::unnamed) return {};
    return fmt::format(", \"{}\": {}", key, quoted_names_[name]);
  }

  const Trace& trace_;
  const GroupTable& groups_;
  const std::vector<std::string>& quoted_names_;
  const TextSink& sink_;
};

}  // namespace

void write_chrome_header(const Trace& trace, const GroupTable& groups,
                         const std::vector<std::string>& quoted_names, const TextSink& sink) {
  HeaderWriter(trace, groups, quoted_names, sink).write();
}

}  // namespace shardscope
