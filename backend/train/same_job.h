// Ranks that run different jobs would mix their weights without a word: they tell each other first.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/comm/communicator.h"
#include "core/native/job.h"

namespace shardscope {

/// What must be the same on all ranks, as JSON: the job's keys but for paths and what belongs to
/// one rank, the model's config and a digest of the data. Of more than 64 Mi tokens, so many are
/// read, in pieces from begin to end.
std::string common_job_text(const Job& job);
/// The same of pretrained start weights: bytes and a digest of all their files. Headers are read
/// whole; of more than 64 MiB of files, so many bytes, in pieces from begin to end.
std::string common_weights_text(const Job& job);

/// "ranks 0 and 1 run different jobs: batch is 4 and 2"; none where all texts, by rank, say the
/// same.
std::optional<std::string> first_difference(const std::vector<std::string>& texts);

/// Collective. Throws Error on every rank where the ranks' jobs differ.
void require_same_job(const Job& job, Communicator& world);
/// The same of their start weights, where these are pretrained; for a run that starts from them.
void require_same_weights(const Job& job, Communicator& world);

}  // namespace shardscope
