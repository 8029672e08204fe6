#include "core/runtime/parallel_model.h"

#include "core/runtime/clip_grad_norm.h"

namespace shardscope::eager {
namespace {

class PlainModel final : public ParallelModel {
 public:
  explicit PlainModel(std::shared_ptr<Module> module) : module_(std::move(module)) {}

  Module& module() override { return *module_; }
  Tensors parameters() override {
    Tensors parameters;
    for (const NamedParameter& p : named_parameters_of(*module_)) parameters.push_back(p.tensor());
    return parameters;
  }
  std::shared_ptr<void> without_sync(Session&) override { return nullptr; }
  void clip(Session& s) override { clip_grad_norm(s, parameters()); }

 private:
  std::shared_ptr<Module> module_;
};

}  // namespace

std::unique_ptr<ParallelModel> plain_model(std::shared_ptr<Module> module) {
  return std::make_unique<PlainModel>(std::move(module));
}

}  // namespace shardscope::eager
