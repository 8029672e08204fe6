// Stages of a case as the recorder writes them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "core/base/refusal.h"

namespace shardscope::recordings {

/// result[name] = function(), or what it raised; true if it went well.
template <class Function>
bool stage(nlohmann::ordered_json& result, const std::string& name, Function function) {
  try {
    result[name] = function();
    return true;
  } catch (const Refusal& refusal) {
    result[name] = {{"error", {{"type", refusal.exception()}, {"message", refusal.what()}}}};
    return false;
  }
}

}  // namespace shardscope::recordings
