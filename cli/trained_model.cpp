#include "cli/trained_model.h"

#include "core/base/error.h"
#include "core/model/read_model.h"
#include "core/model/trainable.h"

namespace shardscope {

Model trained_model(const Job& job, const ModelOptions& options) {
  if (job.model.empty()) {
    throw Error({.where = "--model",
                 .what = "no model was given",
                 .way_out = "give a Hugging Face folder or config.json, an export or safetensors"});
  }
  Model model = read_model(job.model, options);
  freeze_all_but(model, job.trainable);
  return model;
}

}  // namespace shardscope
