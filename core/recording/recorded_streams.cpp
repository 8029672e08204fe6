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

/// What a line's work uses the stream for that its first field names; none: it puts none there.
std::optional<Stream> use_by(const LogLine& line) {
  switch (line.kind) {
    case LogKind::nccl:
      return stream_of_collective(line.text(1));
    case LogKind::copy:
      return Stream::copy;
    case LogKind::kernel:
    case LogKind::gemm:
    case LogKind::dnn:
      return Stream::compute;
    default:
      return std::nullopt;
  }
}

/// Lines by `Stream`; where there are none the stream computes.
Stream most_of(const std::array<std::int64_t, stream_count>& lines) {
  const auto most = std::ranges::max_element(lines);
  return *most == 0 ? Stream::compute : static_cast<Stream>(most - lines.begin());
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

}  // namespace

RecordedStreams::RecordedStreams(Schedule& schedule, ProgramWriter& writer)
    : schedule_(schedule), writer_(writer) {
  uses_of(0);
  lane_of(0);
}

RecordedStreams::LaneIndex RecordedStreams::lane_of(std::int64_t stream) {
  const auto known = lanes_.find(stream);
  if (known != lanes_.end()) return known->second;
  if (lanes_.size() >= most_lanes)
    throw Error({.where = "recording", .what = "work on more than 250 streams is not read"});
  const LaneIndex lane =
      writer_.add_lane({.name = stream == 0 ? "compute" : fmt::format("stream {}", stream),
                        .stream = Stream::compute});
  lanes_[stream] = lane;
  return lane;
}

RecordedStreams::Uses& RecordedStreams::uses_of(std::int64_t stream) {
  // Lines of one stream follow each other.
  if (last_uses_ == nullptr || stream != last_stream_) {
    last_uses_ = &uses_[stream];
    last_stream_ = stream;
  }
  return *last_uses_;
}

void RecordedStreams::count_use(const LogLine& line) {
  if (const auto use = use_by(line))
    ++uses_of(line.integer(0))[static_cast<std::size_t>(*use)];
  else if (const auto stream = mentioned_stream(line))
    uses_of(*stream);
}

void RecordedStreams::finish() {
  std::vector<Lane>& lanes = schedule_.program.lanes;
  for (const auto& [stream, lane] : lanes_) {
    if (stream == 0) continue;  // the default one computes
    const auto uses = uses_.find(stream);
    if (uses != uses_.end()) lanes[lane].stream = most_of(uses->second);
    // Among the streams that the process used, in the order in which it made them: PyTorch makes
    // 128 at once. The default one is the first.
    lanes[lane].pool_place = static_cast<std::int32_t>(std::distance(uses_.begin(), uses)) - 1;
  }
  for (const HostAction& action : schedule_.program.actions)
    if (issues_operation(action.kind))
      schedule_.operations[action.subject].stream = lanes[action.lane].stream;
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
