#include "traces/import/kineto_tracks.h"

#include <utility>

#include "traces/import/json_scanner.h"

namespace shardscope {
namespace {

constexpr char separator = '\x1f';
constexpr std::size_t max_tracks = 131'072;

PlaceName place_name(std::string_view json) {
  if (json.starts_with('"')) return {unescaped(json.substr(1, json.size() - 2)), false};
  return {std::string(json), !json.empty()};
}

std::string place_key(const PlaceName& process, const PlaceName& thread) {
  return process.text + separator + thread.text;
}

void append_number(std::string& key, std::int64_t number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof number);
}

}  // namespace

std::uint32_t KinetoTracks::of(const TrackKey& key) {
  key_.clear();
  key_ += static_cast<char>(key.kind);
  key_ += key.process;
  key_ += separator;
  key_ += key.thread;
  append_number(key_, key.device);
  append_number(key_, key.stream);
  if (last_ != no_name && key_ == last_key_) return last_;
  if (tracks_.size() >= max_tracks && !numbers_.contains(key_)) return max_tracks - 1;
  const auto [at, is_new] = numbers_.try_emplace(key_, static_cast<std::uint32_t>(tracks_.size()));
  if (is_new) {
    tracks_.push_back({.kind = key.kind,
                       .process = place_name(key.process),
                       .thread = place_name(key.thread),
                       .device = key.device,
                       .stream = key.stream});
  }
  std::swap(last_key_, key_);
  return last_ = at->second;
}

void KinetoTracks::name(std::string_view process, std::string_view thread, std::string_view name) {
  names_[place_key(place_name(process), place_name(thread))].emplace_back(name);
}

std::vector<ImportedTrack> KinetoTracks::finish() && {
  for (ImportedTrack& track : tracks_) {
    const auto names = names_.find(place_key(track.process, track.thread));
    if (names != names_.end()) track.names = names->second;
  }
  return std::move(tracks_);
}

}  // namespace shardscope
