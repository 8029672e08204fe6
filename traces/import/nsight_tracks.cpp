#include "traces/import/nsight_tracks.h"

#include <fmt/format.h>

namespace shardscope {
namespace {

constexpr std::size_t max_tracks = 1 << 17;

}  // namespace

std::uint32_t NsightTracks::track(const Key& key, const std::function<ImportedTrack()>& make) {
  if (const auto at = numbers_.find(key); at != numbers_.end()) return at->second;
  is_full_ |= tracks_.size() >= max_tracks;
  if (is_full_) return static_cast<std::uint32_t>(max_tracks - 1);
  tracks_.push_back(make());
  return numbers_[key] = static_cast<std::uint32_t>(tracks_.size() - 1);
}

std::uint32_t NsightTracks::of_device(TrackKind kind, const NsightStream& of) {
  return track({kind, of.device, of.process, of.context, of.stream}, [&] {
    return ImportedTrack{.kind = kind,
                         .process = {fmt::format("{}", of.device)},
                         .thread = {fmt::format("{}", of.stream)},
                         .device = of.device,
                         .stream = of.stream,
                         .scope = fmt::format("pid {} context {}", of.process, of.context)};
  });
}

std::uint32_t NsightTracks::stream(const NsightStream& of) {
  return of_device(TrackKind::stream, of);
}

std::uint32_t NsightTracks::beside(const NsightStream& of) {
  return of_device(TrackKind::annotations, of);
}

std::uint32_t NsightTracks::thread(std::int64_t process, std::int64_t thread) {
  return track({TrackKind::thread, 0, process, thread, 0}, [&] {
    return ImportedTrack{.process = {fmt::format("{}", process)},
                         .thread = {fmt::format("{}", thread)}};
  });
}

void NsightTracks::name_thread(std::int64_t process, std::int64_t thread, const std::string& name) {
  const auto at = numbers_.find({TrackKind::thread, 0, process, thread, 0});
  if (at != numbers_.end()) tracks_[at->second].names.push_back(name);
}

}  // namespace shardscope
