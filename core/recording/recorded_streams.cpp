#include "core/recording/recorded_streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "core/base/error.h"

namespace shardscope {
namespace {

constexpr std::size_t most_lanes = 250;

Stream stream_of_collective(std::string_view name) {
  if (name == "all_gather" || name == "broadcast") return Stream::unshard;
  if (name == "send" || name == "receive") return Stream::send_receive;
  return Stream::reduce;
}

/// The stream of a line that puts no work on it.
std::optional<std::int64_t> mentioned_stream(const LogLine& line) {
  switch (line.kind) {
    case LogKind::record:
    case LogKind::wait:
    case LogKind::set:
      return line.integer(0);
    case LogKind::uses:
      return line.integer(1);
    case LogKind::alloc:
      return line.integer(2);
    default:
      return std::nullopt;
  }
}

/// What each stream mostly does.
std::map<std::int64_t, Stream> uses_of(const EventLog& log) {
  std::map<std::int64_t, std::map<Stream, int>> counts;
  // Lines of one stream follow each other.
  std::int64_t last = 0;
  std::map<Stream, int>* last_counts = &counts[last];
  const auto of = [&](std::int64_t stream) -> std::map<Stream, int>& {
    if (stream != last) {
      last = stream;
      last_counts = &counts[stream];
    }
    return *last_counts;
  };
  for (const std::vector<LogLine>& lines : log.pieces())
    for (const LogLine& line : lines) {
      if (line.kind == LogKind::nccl)
        ++of(line.integer(0))[stream_of_collective(line.text(1))];
      else if (line.kind == LogKind::copy)
        ++of(line.integer(0))[Stream::copy];
      else if (line.kind == LogKind::kernel || line.kind == LogKind::gemm ||
               line.kind == LogKind::dnn)
        ++of(line.integer(0))[Stream::compute];
      else if (const auto stream = mentioned_stream(line))
        of(*stream);
    }
  std::map<std::int64_t, Stream> uses;
  for (auto& [stream, count] : counts) {
    if (count.empty()) count[Stream::compute] = 0;
    uses[stream] =
        std::ranges::max_element(count, {}, [](const auto& use) { return use.second; })->first;
  }
  uses[0] = Stream::compute;
  return uses;
}

}  // namespace

RecordedStreams::RecordedStreams(const EventLog& log, const Schedule& schedule,
                                 ProgramWriter& writer)
    : schedule_(schedule), writer_(writer), uses_(uses_of(log)) {
  lane_of(0);
}

RecordedStreams::LaneIndex RecordedStreams::lane_of(std::int64_t stream) {
  const auto known = lanes_.find(stream);
  if (known != lanes_.end()) return known->second;
  if (lanes_.size() >= most_lanes)
    throw Error({.where = "recording", .what = "work on more than 250 streams is not read"});
  const auto use = uses_.find(stream);
  // Among the streams that the process used, in the order in which it made them: PyTorch makes 128
  // at once. The default one is the first.
  const auto place = static_cast<std::int32_t>(std::distance(uses_.begin(), use));
  const LaneIndex lane =
      writer_.add_lane({.name = stream == 0 ? "compute" : fmt::format("stream {}", stream),
                        .stream = use == uses_.end() ? Stream::compute : use->second,
                        .pool_place = stream == 0 ? Lane::no_pool : place - 1});
  lanes_[stream] = lane;
  return lane;
}

void RecordedStreams::record(const LogLine& line) {
  events_[std::string(line.text(1))] = writer_.record_event(lane_of(line.integer(0)));
}

void RecordedStreams::wait(const LogLine& line) {
  const auto event = events_.find(std::string(line.text(1)));
  if (event != events_.end()) writer_.wait_event(lane_of(line.integer(0)), event->second);
}

void RecordedStreams::host_wait(const LogLine& line) {
  const auto event = events_.find(std::string(line.text(0)));
  if (event != events_.end()) writer_.add(HostActionKind::host_wait, 0, event->second);
}

void RecordedStreams::synchronize(const LogLine& line) {
  const std::int64_t stream = line.integer(0);
  if (stream >= 0) return writer_.add(HostActionKind::host_sync, lane_of(stream), 0);
  for (std::size_t lane = 0; lane < schedule_.program.lanes.size(); ++lane)
    writer_.add(HostActionKind::host_sync, static_cast<LaneIndex>(lane), 0);
}

}  // namespace shardscope
