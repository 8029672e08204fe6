// The models that the recorder of collectives trains, and its marks on their modules.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/pytorch/engine/module.h"
#include "tests/recordings/collectives_log.h"

namespace shardscope::recordings {

struct RecordedModule {
  std::shared_ptr<eager::Module> root;
  std::vector<std::string> blocks;   ///< full names
  std::vector<std::string> tracked;  ///< whose forward and backward are marked
};

/// The recorder's build_model: "model" of a case.
RecordedModule collectives_model(eager::Session& s, const nlohmann::ordered_json& model);

/// The recorder's make_batch, for a call with keywords.
eager::Arguments collectives_batch(eager::Session& s, const nlohmann::ordered_json& model);

/// By full name; "" is the root.
eager::Module& module_named(eager::Module& root, const std::string& name);

/// fwd_begin, fwd_end and bwd_end of a module: hook_forward.
void mark_forward(EventLog& log, eager::Module& module, const std::string& name,
                  bool marks_backward);
/// bwd_begin: hook_backward.
void mark_backward(EventLog& log, eager::Module& module, const std::string& name,
                   bool marks_backward);

}  // namespace shardscope::recordings
