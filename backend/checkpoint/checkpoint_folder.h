// The folder that holds a run's checkpoints: their names, which are whole, which stay.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "backend/checkpoint/checkpoint_index.h"

namespace shardscope {

/// RUN/checkpoints.
std::filesystem::path checkpoints_of(const std::filesystem::path& run);

/// "step-00000050".
std::string checkpoint_name(std::int64_t step);
/// The step in such a name; nothing for other names.
std::optional<std::int64_t> step_of_name(const std::string& name);

/// A checkpoint under construction: ".step-00000050.<attempt>.partial". It becomes a checkpoint by
/// a rename.
std::string partial_name(std::int64_t step, const std::string& attempt);

struct NamedCheckpoint {
  std::int64_t step = 0;
  std::filesystem::path folder;
  bool operator==(const NamedCheckpoint&) const = default;
};
/// What is named like a checkpoint, by step.
std::vector<NamedCheckpoint> named_checkpoints(const std::filesystem::path& checkpoints);

/// Why a checkpoint cannot be used, without reading its tensors: index, files, their sizes and
/// headers. Nothing: it can.
std::optional<std::string> why_not_whole(const std::filesystem::path& folder);

/// The newest checkpoint that is whole by `why_not_whole` and none of `damaged`. `passed_over` gets
/// a line for each newer one that is not whole.
std::optional<NamedCheckpoint> newest_whole(const std::filesystem::path& checkpoints,
                                            std::vector<std::string>& passed_over,
                                            const std::vector<std::filesystem::path>& damaged = {});

/// The step in the name of that one of `checkpoints` which `folder` is, by whatever path. Nothing:
/// it lies elsewhere, or has another name ("set-aside-step-00000050").
std::optional<std::int64_t> step_among(const std::filesystem::path& checkpoints,
                                       const std::filesystem::path& folder);

/// A checkpoint that was renamed.
struct SetAside {
  std::filesystem::path from, to;
  bool operator==(const SetAside&) const = default;
};
/// Renames the checkpoints of steps after `step` ("set-aside-step-00000050"), so that none of them
/// is the newest of a run that goes on from there; with -1 all.
std::vector<SetAside> set_aside_later(const std::filesystem::path& checkpoints, std::int64_t step);
/// Gives them their names again. Throws Error.
void put_back(const std::vector<SetAside>& set_aside);

/// Removes what interrupted saves left. Before any rank saves.
void remove_partial(const std::filesystem::path& checkpoints);

/// Names in a folder are on the disk afterwards. Throws Error.
void sync_folder(const std::filesystem::path& folder);

/// The partial folder takes its place, for good: an older checkpoint of that step is exchanged with
/// it in one move, and then removed. Throws Error.
void put_in_place(const std::filesystem::path& partial, const std::filesystem::path& place);

/// The steps that go: all but the newest `plan.keep` and the multiples of `plan.keep_every`.
/// Example: 10, 20, 30, 40 with keep 2, keep_every 20: only 10 goes.
std::vector<std::int64_t> steps_to_remove(std::vector<std::int64_t> steps,
                                          const CheckpointPlan& plan);
/// Removes those. A checkpoint is renamed first, so that none is ever there in part.
void remove_old(const std::filesystem::path& checkpoints, const CheckpointPlan& plan);

}  // namespace shardscope
