#include "backend/checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <system_error>

#include "backend/base/file_descriptor.h"
#include "backend/checkpoint/checksum.h"
#include "core/base/error.h"
#include "core/format/is_there.h"
#include "core/format/safetensors.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "step-";
constexpr std::string_view partial_suffix = ".partial";

[[noreturn]] void fail(const fs::path& path, int error_number) {
  throw Error({.where = path.string(),
               .what = "cannot be put in place: " + std::generic_category().message(error_number),
               .way_out = {},
               .code = ExitCode::outside});
}

void rename_to(const fs::path& from, const fs::path& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) fail(to, errno);
}

/// Names in a folder; none where it is not there.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string why_not_whole(const fs::path& folder, const StoredFile& file) {
  const fs::path path = folder / file.name;
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  if (error) return fmt::format("{}: {}", path.string(), error.message());
  if (static_cast<std::int64_t>(bytes) != file.bytes)
    return fmt::format("{}: has {} bytes, the index says {}", path.string(), bytes, file.bytes);
  const std::string header = header_bytes(read_safetensors_header(path));
  if (crc32_of(header) != file.header_crc32)
    return fmt::format("{}: the header is not the one that was written", path.string());
  return {};
}

}  // namespace

void sync_folder(const fs::path& folder) {
  const FileDescriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // A file system that cannot sync folders says EINVAL.
  if (descriptor.valid() && ::fsync(descriptor.get()) != 0 && errno != EINVAL) fail(folder, errno);
}

fs::path checkpoints_of(const fs::path& run) { return run / "checkpoints"; }

std::string checkpoint_name(std::int64_t step) { return fmt::format("{}{:08d}", prefix, step); }

std::optional<std::int64_t> step_of_name(const std::string& name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, step);
  const bool is_number = error == std::errc() && stop == end && step >= 0;
  if (!is_number || name != checkpoint_name(step)) return std::nullopt;
  return step;
}

std::string partial_name(std::int64_t step, const std::string& attempt) {
  return fmt::format(".{}.{}{}", checkpoint_name(step), attempt, partial_suffix);
}

std::vector<NamedCheckpoint> named_checkpoints(const fs::path& checkpoints) {
  std::vector<NamedCheckpoint> found;
  for (const std::string& name : names_in(checkpoints))
    if (const auto step = step_of_name(name)) found.push_back({*step, checkpoints / name});
  std::sort(found.begin(), found.end(),
            [](const NamedCheckpoint& a, const NamedCheckpoint& b) { return a.step < b.step; });
  return found;
}

std::optional<std::string> why_not_whole(const fs::path& folder) {
  try {
    const CheckpointIndex index = read_checkpoint_index(folder);
    for (const StoredFile& file : index.files)
      if (std::string why = why_not_whole(folder, file); !why.empty()) return why;
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

std::optional<NamedCheckpoint> newest_whole(const fs::path& checkpoints,
                                            std::vector<std::string>& passed_over,
                                            const std::vector<fs::path>& damaged) {
  std::vector<NamedCheckpoint> named = named_checkpoints(checkpoints);
  for (auto one = named.rbegin(); one != named.rend(); ++one) {
    if (std::find(damaged.begin(), damaged.end(), one->folder) != damaged.end()) continue;
    const auto why = why_not_whole(one->folder);
    if (!why) return *one;
    passed_over.push_back(fmt::format("{} is passed over: {}", one->folder.string(), *why));
  }
  return std::nullopt;
}

std::optional<std::int64_t> step_among(const fs::path& checkpoints, const fs::path& folder) {
  std::error_code ignored;
  for (const NamedCheckpoint& one : named_checkpoints(checkpoints))
    if (fs::equivalent(one.folder, folder, ignored)) return one.step;
  return std::nullopt;
}

std::vector<SetAside> set_aside_later(const fs::path& checkpoints, std::int64_t step) {
  std::vector<SetAside> all;
  for (const NamedCheckpoint& one : named_checkpoints(checkpoints)) {
    if (one.step <= step) continue;
    const std::string name = "set-aside-" + checkpoint_name(one.step);
    fs::path place = checkpoints / name;
    for (int again = 2; is_there(place); ++again)
      place = checkpoints / fmt::format("{}.{}", name, again);
    rename_to(one.folder, place);
    all.push_back({.from = one.folder, .to = std::move(place)});
  }
  if (!all.empty()) sync_folder(checkpoints);
  return all;
}

void put_back(const std::vector<SetAside>& set_aside) {
  for (const SetAside& one : set_aside) rename_to(one.to, one.from);
  if (!set_aside.empty()) sync_folder(set_aside.front().from.parent_path());
}

void remove_partial(const fs::path& checkpoints) {
  std::error_code ignored;
  for (const std::string& name : names_in(checkpoints))
    if (name.starts_with("." + std::string(prefix)) && name.ends_with(partial_suffix))
      fs::remove_all(checkpoints / name, ignored);
}

void put_in_place(const fs::path& partial, const fs::path& place) {
  if (std::rename(partial.c_str(), place.c_str()) == 0) return sync_folder(place.parent_path());
  if (errno != ENOTEMPTY && errno != EEXIST) fail(place, errno);
  // A file system without this exchange has a moment in which the older one is gone, too.
  const bool exchanged =
      ::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE) == 0;
  std::error_code ignored;
  if (!exchanged) {
    fs::remove_all(place, ignored);
    if (std::rename(partial.c_str(), place.c_str()) != 0) fail(place, errno);
  }
  sync_folder(place.parent_path());
  if (exchanged) fs::remove_all(partial, ignored);
}

std::vector<std::int64_t> steps_to_remove(std::vector<std::int64_t> steps,
                                          const CheckpointPlan& plan) {
  if (plan.keep == 0) return {};
  std::sort(steps.begin(), steps.end());
  const auto kept = std::min(steps.size(), static_cast<std::size_t>(plan.keep));
  steps.resize(steps.size() - kept);
  std::erase_if(
      steps, [&](std::int64_t step) { return plan.keep_every > 0 && step % plan.keep_every == 0; });
  return steps;
}

void remove_old(const fs::path& checkpoints, const CheckpointPlan& plan) {
  std::vector<std::int64_t> steps;
  for (const NamedCheckpoint& one : named_checkpoints(checkpoints)) steps.push_back(one.step);
  std::error_code error;
  for (const std::int64_t step : steps_to_remove(steps, plan)) {
    const fs::path gone = checkpoints / partial_name(step, "old");
    fs::rename(checkpoints / checkpoint_name(step), gone, error);
    if (!error) fs::remove_all(gone, error);
  }
}

}  // namespace shardscope
