// What recordings of sharding have in common: ranks that were played, and errors.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/recordings/recordings.h"

namespace shardscope::recordings {

/// The ranks of a case: those it names, else all up to 8, else the first two, the two in the middle
/// and the last two.
std::vector<int> recorded_ranks(const nlohmann::ordered_json& given, int world);

/// {"type": the exception's class}: texts are not compared.
nlohmann::ordered_json error_row(const Error& error);

/// `recorded` with every "error" and "run_error" cut down to its type.
nlohmann::ordered_json without_texts(nlohmann::ordered_json recorded);

/// Removes the keys ruled out with --except, at any depth.
nlohmann::ordered_json without(nlohmann::ordered_json value, const Options& options);

/// First difference outside what `options` leaves out; texts of errors apart.
Outcome compared(const nlohmann::ordered_json& recorded, const nlohmann::ordered_json& got,
                 const Options& options);

}  // namespace shardscope::recordings
